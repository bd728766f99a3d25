"""What operators have decided about requests: paused, stopped, resumed after a failure.

Decisions are kept as facts about requests that exist, never as commands to be applied later. A command
(``core.values.commands``) is turned into facts once, at the moment it is taken: that is when "all" means something.
So a stop does not reach requests that come after it, and a fact can be applied to any saved state, as often as a
restart likes, with the same result. The journal holds them; a replayed batch, which starts from an older progress,
does not undo them.

Invariants
- ``taken`` remembers commands by their ids (`core.values.memory`), so that one that is delivered twice is applied once.
- A fact is let go only once the state that the next replay would start from shows it (``settled``).

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from snapshotter.core.values.commands import Command, Pause, Resume, Stop
from snapshotter.core.values.memory import LONG_AGO, Memory, Moment
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.suspension import may_be_made
from snapshotter.core.values.tasks import TaskProgress, TaskState
from streaming.namespaces import Namespace

TaskId = tuple[str, Namespace]
_FINAL = (TaskState.DONE, TaskState.STOPPED)


@dataclass(frozen=True, slots=True)
class Controls:
    """``resumed``: of each task how often it was resumed after a failure. ``stream_paused``: an operator has paused the
    stream as a whole; the machine knows nothing of it, for it has no batches then."""

    paused: frozenset[str] = frozenset()
    stopped: frozenset[TaskId] = frozenset()
    resumed: Mapping[TaskId, int] = field(default_factory=dict)
    taken: Memory = field(default_factory=Memory)
    stream_paused: bool = False

    def deciding(self, command: Command, requests: Iterable[RequestProgress]) -> Controls:
        """What holds once the command is applied, for the requests that exist now; the command is not remembered
        yet."""
        meant = [r for r in requests if command.requests is None or r.id in command.requests]
        match command:
            case Stop():
                return replace(self, stopped=self.stopped | _stopping(command, meant))
            case Pause():
                return replace(self, paused=self.paused | {r.id for r in meant if not r.ended})
            case Resume():
                again = {} if command.requests is None else _failures(meant)
                # By name and not by `meant`: a request that the engine made itself may be unknown just now, for the
                # batch that made it is replayed, and comes back under its name.
                going = self.paused if command.requests is None else command.requests
                return replace(self, paused=self.paused - going, resumed={**self.resumed, **again})
            case _:
                assert_never(command)

    def remembering(self, digests: Mapping[str, str], moment: Moment = LONG_AGO) -> Controls:
        """With these commands as the newest, by their ids what they said."""
        return replace(self, taken=self.taken.remembering(digests, moment)) if digests else self

    def applied(self, request: RequestProgress) -> RequestProgress:
        """The request as these decisions leave it. Applied again, nothing changes."""
        for task in request.tasks:
            decided = self._decided(request.id, task)
            if decided.resumed != task.resumed:
                request = replace(request, ended_in=None)  # if it has ended by now, then anew
            request = request.with_task(decided)
        return replace(request, paused=request.id in self.paused and not request.ended)

    def _decided(self, request_id: str, task: TaskProgress) -> TaskProgress:
        known = request_id, task.namespace
        if task.state is TaskState.FAILED and self.resumed.get(known, 0) > task.resumed:
            task = task.going_on(self.resumed[known])
        return task.stopped() if known in self.stopped and not task.ended else task

    def settled(self, older: Progress, newer: Progress) -> Controls:
        """Without what ``older`` shows already: that is the state from which a replay may start, and ``newer`` has been
        saved since. What neither of them knows was forgotten because it ended long ago, or was made by a batch that a
        replay has made otherwise: a repair may come again under its name, as long as the position is where it was."""
        before, after = ({r.id: r for r in state.requests} for state in (older, newer))

        def forgotten(request_id: str) -> bool:
            known = request_id in before or request_id in after
            return not known and not may_be_made(request_id, older.position)

        def settled(known: TaskId, *, resumed: int = 0) -> bool:
            request = before.get(known[0])
            task = request.task(known[1]) if request is not None else None
            return task is not None and (task.resumed >= resumed if resumed else task.state in _FINAL)

        def ended(request_id: str) -> bool:
            states = before.get(request_id), after.get(request_id)
            return all(request is not None and request.ended for request in states)

        return replace(
            self,
            paused=frozenset(i for i in self.paused if not (forgotten(i) or ended(i))),
            stopped=frozenset(t for t in self.stopped if not (forgotten(t[0]) or settled(t))),
            resumed={t: n for t, n in self.resumed.items() if not (forgotten(t[0]) or settled(t, resumed=n))},
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "paused": sorted(self.paused),
            "stopped": [[request_id, str(namespace)] for request_id, namespace in sorted(self.stopped)],
            "resumed": [[i, str(n), count] for (i, n), count in sorted(self.resumed.items())],
            "taken": self.taken.to_json(),
            "stream_paused": self.stream_paused,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Controls:
        return cls(
            paused=frozenset(value["paused"]),
            stopped=frozenset((i, Namespace.parse(n)) for i, n in value["stopped"]),
            resumed={(i, Namespace.parse(n)): count for i, n, count in value["resumed"]},
            taken=Memory.from_json(value["taken"]),
            stream_paused=bool(value.get("stream_paused", False)),
        )


def _stopping(command: Stop, requests: Iterable[RequestProgress]) -> set[TaskId]:
    return {
        (request.id, task.namespace)
        for request in requests
        if request.origin.stops
        for task in request.tasks
        if not task.ended and (command.namespaces is None or task.namespace in command.namespaces)
    }


def _failures(requests: Iterable[RequestProgress]) -> dict[TaskId, int]:
    return {
        (request.id, task.namespace): task.resumed + 1
        for request in requests
        for task in request.tasks
        if task.state is TaskState.FAILED
    }

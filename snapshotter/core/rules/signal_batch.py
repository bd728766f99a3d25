"""Signals that come together: decided in their order, and made durable at once.

Ten thousand of them may come in one batch. What each asks for is worked out on the requests as they stand when the
first is looked at, and as those before it have left them; the outcome, new requests and what operators have decided, is
written once (`state.journal`) and then reaches the machine in one step (``inputs.SignalsTaken``).
A request that ends meanwhile does no harm: decisions are facts that a state which has moved on simply shows already.

Invariant: the outcome is what the same signals would have led to one by one.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from snapshotter.core.values.commands import Command, Pause, Resume, Stop
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.memory import LONG_AGO, Moment
from snapshotter.core.values.progress import RequestProgress
from snapshotter.core.values.requests import SnapshotRequest
from snapshotter.core.values.tasks import TaskState
from streaming.namespaces import Namespace

AFFECTED_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Affected:
    """The requests that a command makes a difference to: the first of them, and how many they are."""

    requests: tuple[str, ...] = ()
    count: int = 0

    @classmethod
    def of(cls, ids: Collection[str]) -> Affected:
        return cls(tuple(islice(ids, AFFECTED_SHOWN)), len(ids))


class SignalBatch:
    """``requests`` and ``controls`` as they are at this ``moment``; ``new`` and the property ``controls`` are the
    outcome."""

    def __init__(
        self,
        requests: Iterable[RequestProgress],
        controls: Controls,
        moment: Moment = LONG_AGO,
    ) -> None:
        self.new: list[SnapshotRequest] = []
        self._controls = controls
        self._moment = moment
        self._taken: dict[str, str] = {}
        self._known = {request.id: request for request in requests}
        self._open = {request.id: request for request in self._known.values() if not request.ended}
        self._names: frozenset[Namespace] | None = None
        self._last: tuple[Command, Affected] | None = None

    @property
    def controls(self) -> Controls:
        return self._controls.remembering(self._taken, self._moment)

    @property
    def commands(self) -> int:
        """How many were applied."""
        return len(self._taken)

    @property
    def open(self) -> int:
        """How many requests have not ended."""
        return len(self._open)

    @property
    def names(self) -> frozenset[Namespace]:
        """The collections that are queued or being read."""
        if self._names is None:
            open_ = self._open.values()
            self._names = frozenset(t.namespace for r in open_ for t in r.tasks if not t.ended)
        return self._names

    def digest_of(self, signal_id: str) -> str | None:
        """What the signal of this id said; None for an id that is not known."""
        known: tuple[Mapping[str, str], ...] = (self._taken, self._controls.taken)
        for taken in known:
            if signal_id in taken:
                return taken[signal_id]
        request = self._known.get(signal_id)
        return request.digest if request is not None else None

    def accept(self, request: SnapshotRequest) -> None:
        """A request whose id is new."""
        self.new.append(request)
        self._put(self._controls.applied(RequestProgress.accepted(request)))
        self._last = None

    def apply(self, command: Command) -> Affected:
        """A command whose id is new."""
        self._taken[command.id] = command.digest
        what = replace(command, id="", digest="")
        if self._last is not None and self._last[0] == what:
            # Said twice in a row, it decides nothing more.
            return self._last[1] if isinstance(what, Pause) else Affected()
        every = command.requests is None and not isinstance(command, Stop)
        affected = self._all(command) if every else self._some(command)
        self._last = what, affected
        return affected

    def remember(self, signal_id: str, digest: str) -> None:
        """A signal whose id is new, and that decides nothing about requests."""
        self._taken[signal_id] = digest

    def pause_stream(self, *, paused: bool) -> None:
        """Whether the stream is paused from now on: the newest word counts."""
        self._controls = replace(self._controls, stream_paused=paused)

    def unknown(self, command: Command) -> tuple[str, ...]:
        """The ids that the command names and that no request has."""
        return tuple(sorted(i for i in command.requests or () if i not in self._known))

    def _all(self, command: Command) -> Affected:
        """Pause or resume whatever has not ended; by its ids alone, for there may be many such commands."""
        paused, ids = self._controls.paused, self._open.keys()
        if isinstance(command, Pause):
            self._controls = replace(self._controls, paused=paused | ids)
            return Affected.of(ids)
        self._controls = replace(self._controls, paused=frozenset())
        return Affected.of([i for i in ids if i in paused])

    def _some(self, command: Command) -> Affected:
        if command.requests is None:
            meant = list(self._open.values())
        else:
            meant = [self._known[i] for i in sorted(command.requests) if i in self._known]
        affected = Affected.of([request.id for request in meant if self._affects(command, request)])
        self._controls = self._controls.deciding(command, meant)
        for request in meant:
            self._put(self._controls.applied(request))
        return affected

    def _affects(self, command: Command, request: RequestProgress) -> bool:
        match command:
            case Stop():
                left = (task.namespace for task in request.tasks if not task.ended)
                meant = any(command.namespaces is None or name in command.namespaces for name in left)
                return meant and request.origin.stops
            case Pause():
                return not request.ended
            case Resume():
                failed = any(task.state is TaskState.FAILED for task in request.tasks)
                paused = request.id in self._controls.paused and not request.ended
                return paused or (command.requests is not None and failed)

    def _put(self, request: RequestProgress) -> None:
        self._known[request.id] = request
        if request.ended:
            self._open.pop(request.id, None)
        else:
            self._open[request.id] = request
        self._names = None

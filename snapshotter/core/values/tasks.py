"""How far one collection of a request has come.

Everything that moves it forward is a named transition that refuses an impossible step.

Invariants
- ``frontier`` is the end of the last chunk whose rows are visible; a restart goes on right after it.
- A task ends on ids seen (the chunk that ends at ``last``), never on rows kept.
- What differed is counted however often its chunk is read: only READs that differ from nothing are left out as ones
  that were counted before a crash.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from snapshotter.core.values.chunks import Bound, KeyRange
from snapshotter.core.values.outcome import Outcome, Uncounted
from snapshotter.core.values.requests import Wanted
from snapshotter.core.values.states import Steps
from streaming.namespaces import Namespace


class TaskState(StrEnum):
    """A failure is the only end that a task can go on from. The steps between the states: ``STEPS``."""

    WAITING = "waiting"
    OPENED = "opened"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


_ANY_TIME = {"stopped": (TaskState.STOPPED,), "failed": (TaskState.FAILED,)}
STEPS: Steps[TaskState] = Steps(
    TaskState.WAITING,
    {
        TaskState.WAITING: {"opened": (TaskState.OPENED, TaskState.DONE), **_ANY_TIME},
        TaskState.OPENED: {"begun": (TaskState.RUNNING,), **_ANY_TIME},
        TaskState.RUNNING: {"advanced": (TaskState.RUNNING,), "finished": (TaskState.DONE,), **_ANY_TIME},
        TaskState.DONE: {},
        TaskState.STOPPED: {},
        TaskState.FAILED: {"going on": (TaskState.WAITING, TaskState.RUNNING)},
    },
)
"""``opened``: the largest id is known (done at once: there is none); ``begun``: by a batch, which says whether the
table is empty; ``advanced``: a chunk has landed; ``going on``: behind what has landed, or from the beginning."""


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """One collection of one request.

    ``first_load`` says that the table was empty when the scan began: streamed events of ids that no window
    has reached yet need not land, because their window will read a state at or after them. ``began_first`` stays true
    when it is none any more: until it has read everything, changes of what it has not are in no table. ``resumed``
    counts how often the task went on after a failure. ``keys`` are ascending. ``deleted`` are rows that were missing at
    source.
    ``superseded`` are READs, saved as ``dropped``. Of the ``rows``, which are READs that were not superseded,
    ``changed`` ones took the place of another row, and ``unchanged`` ones equal the row that was there.
    ``repeats``: so many of the READs counted come again, for a crash took the frontier that they had moved: behind the
    frontier, and up to the key ``repeats_upto``.
    """

    namespace: Namespace
    filter: str | None = None
    state: TaskState = TaskState.WAITING
    frontier: Bound | None = None
    last: Bound | None = None
    chunks: int = 0
    rows: int = 0
    superseded: int = 0
    estimated: int | None = None
    first_load: bool = False
    began_first: bool = False
    ordered_keys: bool = True
    error: str | None = None
    keys: tuple[Bound, ...] = ()
    range: KeyRange | None = None
    reconcile: bool = False
    resumed: int = 0
    deleted: int = 0
    rewrite: bool = False
    changed: int = 0
    unchanged: int = 0
    repeats: int = 0
    repeats_upto: str | None = None

    @classmethod
    def of(cls, wanted: Wanted) -> TaskProgress:
        keys = tuple({bound.key: bound for bound in sorted(wanted.keys, key=lambda b: b.key)}.values())
        parts = cls(wanted.namespace, wanted.filter, keys=keys, range=wanted.range)
        return replace(parts, reconcile=wanted.reconcile, rewrite=wanted.rewrite)

    @property
    def ended(self) -> bool:
        return self.state in (TaskState.DONE, TaskState.STOPPED, TaskState.FAILED)

    @property
    def whole(self) -> bool:
        """The collection is read from end to end, and only read."""
        return self.everything and not self.reconcile

    @property
    def restores(self) -> bool:
        """Once it is done, the table holds what the collection holds, whatever it held before."""
        return self.everything and self.reconcile

    @property
    def everything(self) -> bool:
        """No part of the collection is left out."""
        return self.filter is None and not self.keys and self.range is None

    @property
    def proves(self) -> bool:
        """Read to its end, it leaves no row that is missing at source, or behind it."""
        compared = self.reconcile and not self.keys and self.range is None
        return self.state is TaskState.DONE and (compared or (self.everything and self.first_load))

    @property
    def planned_by(self) -> str | None:
        """The filter that says how many documents a chunk holds. Where the documents of rows that the table has are
        read besides those that match, any may be one."""
        return None if self.reconcile else self.filter

    def of_whole_ids(self) -> TaskProgress:
        """An id that was asked for means all documents that share it: its collection is sharded by more than that."""
        keys = tuple(bound.past_id() for bound in self.keys)
        return replace(self, keys=keys, range=self.range and self.range.of_whole_ids())

    def opened(self, last: Bound | None, estimated: int | None, *, ordered_keys: bool) -> TaskProgress:
        """The scan ends at ``last``, the largest id; without one, the collection is empty and the task is done. A task
        of single ids ends at the last of those, whether it is there or not. ``estimated``: how many documents there are
        to read (None: not known). ``ordered_keys``: keys are ordered as the ids are (a simple collation)."""
        if self.keys:
            last, estimated = self.keys[-1], len(self.keys)
        state = self._after("opened", TaskState.DONE if last is None else TaskState.OPENED)
        return replace(self, state=state, last=last, estimated=estimated, ordered_keys=ordered_keys)

    def begun(self, *, table_empty: bool) -> TaskProgress:
        state = self._after("begun", TaskState.RUNNING)
        first_load = table_empty and self.whole and self.ordered_keys
        return replace(self, state=state, first_load=first_load, began_first=self.began_first or first_load)

    @property
    def inserted(self) -> int:
        """The READs whose keys the table had not."""
        return max(0, self.rows - self.changed - self.unchanged)

    def advanced(self, upto: Bound, outcome: Outcome) -> TaskProgress:
        """A chunk has landed whose last id is ``upto``, with this ``outcome``. The frontier only moves up: by key,
        where keys are ordered as ids are. Raises ValueError where it would not."""
        state = self._after("advanced", TaskState.RUNNING)
        ordered = self.ordered_keys or self.keys
        if ordered and self.frontier is not None and not self.frontier.key < upto.key:
            raise ValueError(
                f"{self.namespace}: the frontier would go back from {self.frontier.key!r} to {upto.key!r}"
            )
        told = self._counting(outcome)
        if not ordered or self.repeats_upto is None or self.repeats_upto <= upto.key:
            told = replace(told, repeats=0, repeats_upto=None)
        return replace(told, state=state, frontier=upto, chunks=self.chunks + 1)

    def counting(self, found: Uncounted) -> TaskProgress:
        """With what a commit has found, but for READs that were counted already. Its chunks are read again, by a run
        that does not know their windows; the task may have ended since."""
        told, outcome = self._counting(found.outcome), found.outcome
        upto = max(self.repeats_upto or "", found.upto.key)
        return replace(told, repeats=told.repeats + outcome.kept + outcome.superseded, repeats_upto=upto)

    def _counting(self, outcome: Outcome) -> TaskProgress:
        """With this outcome, less what is taken for READs that come again. These equal their rows, or were superseded
        since; where all is written whatever the rows hold, each of them has changed its row once more."""
        equal = min(self.repeats, outcome.unchanged)
        changed = min(self.repeats - equal, outcome.changed) if self.rewrite else 0
        superseded = min(self.repeats - equal - changed, outcome.superseded)
        return replace(
            self,
            rows=self.rows + outcome.kept - equal - changed,
            superseded=self.superseded + outcome.superseded - superseded,
            deleted=self.deleted + outcome.deleted,
            changed=self.changed + outcome.changed - changed,
            unchanged=self.unchanged + outcome.unchanged - equal,
            repeats=self.repeats - equal - changed - superseded,
        )

    def finished(self) -> TaskProgress:
        return replace(self, state=self._after("finished", TaskState.DONE), repeats=0, repeats_upto=None)

    def failed(self, error: str) -> TaskProgress:
        return replace(self, state=self._after("failed", TaskState.FAILED), error=error)

    def stopped(self) -> TaskProgress:
        """By an operator; what has landed stays."""
        return replace(self, state=self._after("stopped", TaskState.STOPPED))

    def going_on(self, resumed: int) -> TaskProgress:
        """After a failure: behind the last chunk that landed, or (none has) from the beginning.

        What streamed since the failure has landed, also where no window had come yet, so it is no first load now.
        """
        state = self._after("going on", TaskState.WAITING if self.frontier is None else TaskState.RUNNING)
        return replace(self, state=state, first_load=False, error=None, resumed=resumed)

    def merging(self) -> TaskProgress:
        """Somebody else's windows come in between: the range ahead of the scan may hold rows from here on."""
        return replace(self, first_load=False)

    def _after(self, step: str, state: TaskState) -> TaskState:
        """``state``, where this step may lead to it. Raises ValueError."""
        if not STEPS.leads(self.state, step, state):
            expected = " or ".join(STEPS.sources(step))
            raise ValueError(f"{self.namespace}: {step} while the task is {self.state}, expected {expected}")
        return state

    def unsound(self) -> Iterator[str]:
        """What is wrong with this value, whatever has happened: a sentence for each contradiction."""
        began, names = self.frontier is not None, f"{self.namespace}: {self.state}"
        if began != bool(self.chunks):
            yield f"{names} with {self.chunks} chunks landed, and a frontier: {began}"
        if self.last is None and (began or self.state in (TaskState.OPENED, TaskState.RUNNING)):
            yield f"{names} without an end of its scan"
        ordered = self.ordered_keys or self.keys
        if ordered and self.frontier and self.last and self.frontier.key > self.last.key:
            yield f"{names} with a frontier {self.frontier.key!r} behind its end {self.last.key!r}"
        if (self.error is not None) != (self.state is TaskState.FAILED):
            yield f"{names} with the error {self.error!r}"
        if self.repeats and self.repeats_upto is None:
            yield f"{names} with {self.repeats} READs that come again, and no end of them"
        if self.first_load and not self.whole:
            yield f"{names} as a first load that leaves something out"

    def to_json(self) -> dict[str, Any]:
        return {
            "namespace": str(self.namespace),
            "filter": self.filter,
            "state": self.state.value,
            "frontier": self.frontier.to_json() if self.frontier else None,
            "last": self.last.to_json() if self.last else None,
            "chunks": self.chunks,
            "rows": self.rows,
            "dropped": self.superseded,
            "estimated": self.estimated,
            "first_load": self.first_load,
            "began_first": self.began_first,
            "ordered_keys": self.ordered_keys,
            "error": self.error,
            "keys": [bound.to_json() for bound in self.keys],
            "range": self.range.to_json() if self.range else None,
            "reconcile": self.reconcile,
            "resumed": self.resumed,
            "deleted": self.deleted,
            "rewrite": self.rewrite,
            "changed": self.changed,
            "unchanged": self.unchanged,
            "repeats": self.repeats,
            "repeats_upto": self.repeats_upto,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TaskProgress:
        fields = dict(value)
        fields["namespace"] = Namespace.parse(value["namespace"])
        fields["state"] = TaskState(value["state"])
        fields["superseded"] = fields.pop("dropped", 0)
        for bound in ("frontier", "last"):
            fields[bound] = Bound.from_json(value[bound]) if value[bound] else None
        fields["keys"] = tuple(map(Bound.from_json, value.get("keys", ())))
        fields["range"] = KeyRange.from_json(value["range"]) if value.get("range") else None
        return cls(**fields)

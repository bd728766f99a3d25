"""How far each request has come: the durable half of the machine.

A ``Progress`` is a value, saved after the commits of a batch and named by that batch. Batch N always starts
from the progress of a batch before it, so a replayed batch repeats its decisions instead of standing on its
own effects. Everything that moves a value forward is a named transition that refuses an impossible step.

Invariants
- Keys whose full document the stream could not give stay in ``rereads`` until a window has landed them.
- A request that has ended stays known for at least one more batch, so that a replay cannot carry it out again.
- A request is there once, whoever brings it (a signal, a start, the journal, a rename) and however often.
- What cannot be is neither saved nor believed (``unsound``).

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.gaps import Gap
from snapshotter.core.values.requests import Origin, SnapshotRequest
from snapshotter.core.values.rereads import Rereads
from snapshotter.core.values.sharding import ShardKeys
from snapshotter.core.values.suspension import Suspension
from snapshotter.core.values.tasks import TaskProgress, TaskState
from streaming.delta.table_identity import TableMark
from streaming.namespaces import Namespace
from streaming.positions import ORIGIN, ClusterTime


@dataclass(frozen=True, slots=True)
class RequestProgress:
    """One request, with its collections in the order they were asked for. ``ended_in`` is the batch whose progress
    said first that it has ended."""

    id: str
    origin: Origin
    tasks: tuple[TaskProgress, ...]
    priority: int = 0
    digest: str = ""
    paused: bool = False
    ended_in: int | None = None
    blocking: bool = False
    unknown: tuple[str, ...] = ()

    @classmethod
    def accepted(cls, request: SnapshotRequest) -> RequestProgress:
        tasks = tuple(map(TaskProgress.of, request.wanted))
        what = (request.id, request.origin, tasks, request.priority, request.digest)
        return cls(*what, blocking=request.blocking, unknown=request.unknown)

    @property
    def ended(self) -> bool:
        return all(task.ended for task in self.tasks)

    @property
    def failed(self) -> bool:
        return any(task.state is TaskState.FAILED for task in self.tasks)

    @property
    def stopped(self) -> bool:
        return any(task.state is TaskState.STOPPED for task in self.tasks)

    def task(self, namespace: Namespace) -> TaskProgress | None:
        return next((task for task in self.tasks if task.namespace == namespace), None)

    def with_task(self, task: TaskProgress) -> RequestProgress:
        tasks = tuple(task if t.namespace == task.namespace else t for t in self.tasks)
        return replace(self, tasks=tasks)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "origin": self.origin.value,
            "tasks": [t.to_json() for t in self.tasks],
            "priority": self.priority,
            "digest": self.digest,
            "paused": self.paused,
            "ended_in": self.ended_in,
            "blocking": self.blocking,
            "unknown": list(self.unknown),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RequestProgress:
        tasks = tuple(map(TaskProgress.from_json, value["tasks"]))
        later = ("priority", "digest", "paused", "ended_in", "blocking")
        rest = {name: value[name] for name in later if name in value}
        unknown = tuple(value.get("unknown", ()))
        return cls(value["id"], Origin(value["origin"]), tasks, **rest, unknown=unknown)


@dataclass(frozen=True, slots=True)
class Progress:
    """All of it, as of the end of batch ``batch_id`` (-1: before any batch). ``coverage`` is None in states from
    before there were marks. ``suspended``: collections of which nothing lands, or that are being restored. ``tables``:
    which table each collection has landed in, and the newest version of it that was landed, or found sound.
    ``shard_keys``: by what the rows of sharded collections are keyed, or will be once the requests are done
    (`core.values.sharding`). ``gaps``: what of the stream was never seen, the oldest first. ``fields``: the rules about
    fields that rows are written by, or will be once the requests are done
    (`streaming.fields.rules.FieldRules.to_text`)."""

    batch_id: int = -1
    position: ClusterTime = ORIGIN
    requests: tuple[RequestProgress, ...] = ()
    rereads: Rereads = field(default_factory=Rereads)
    coverage: Coverage | None = None
    suspended: Mapping[Namespace, Suspension] = field(default_factory=dict, hash=False)
    tables: Mapping[Namespace, TableMark] = field(default_factory=dict, hash=False)
    shard_keys: ShardKeys = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()
    fields: str = ""

    @property
    def fresh(self) -> bool:
        """Nothing is known of any collection: no batch was saved, nor was this state carried from another life of the
        position, which has marks."""
        return self.batch_id < 0 and self.coverage is None

    def request(self, request_id: str) -> RequestProgress | None:
        return next((r for r in self.requests if r.id == request_id), None)

    def with_request(self, request: RequestProgress) -> Progress:
        """Replace the request of the same id, or append a new one at the end of the queue."""
        if self.request(request.id) is None:
            return replace(self, requests=(*self.requests, request))
        return replace(self, requests=tuple(request if r.id == request.id else r for r in self.requests))

    def accepting(self, requests: Iterable[RequestProgress]) -> Progress:
        """With these at the end of the queue, in their order. One whose id is known changes nothing."""
        once = {request.id: request for request in self.requests}
        for request in requests:
            once.setdefault(request.id, request)
        return replace(self, requests=tuple(once.values()))

    def covering(self, coverage: Coverage) -> Progress:
        """With these marks."""
        return replace(self, coverage=coverage)

    def with_reread(self, namespace: Namespace, bounds: tuple[Bound, ...]) -> Progress:
        return replace(self, rereads=self.rereads.adding(namespace, bounds)) if bounds else self

    def without_rereads(self, namespace: Namespace, keys: frozenset[str]) -> Progress:
        return replace(self, rereads=self.rereads.without(namespace, keys))

    def suspending(self, namespace: Namespace, suspension: Suspension) -> Progress:
        """From here on nothing of the collection lands, so no first load of it goes on as one, and ids that were to be
        read again are read with all others."""
        requests = tuple(
            request.with_task(task.merging())
            if (task := request.task(namespace)) is not None and not task.ended
            else request
            for request in self.requests
        )
        return replace(
            self,
            requests=requests,
            rereads=self.rereads.leaving_out({namespace}),
            suspended={**self.suspended, namespace: suspension},
        )

    def capturing(self, captures: Callable[[Namespace], bool]) -> Progress:
        """Without what is known of the tables of collections that are no longer captured, and without ids of theirs to
        read again. (Their tasks end where they are to be read.)"""
        gone = frozenset(n for n in self.rereads.by_collection if not captures(n))
        return replace(
            self,
            rereads=self.rereads.leaving_out(gone),
            suspended={n: suspension for n, suspension in self.suspended.items() if captures(n)},
            tables={n: mark for n, mark in self.tables.items() if captures(n)},
        )

    def restoring(self, namespace: Namespace, request_id: str) -> Progress:
        """A read of the collection begins, and restores it if it is suspended. What was known of its table is
        forgotten: whichever is there now is read into."""
        if (suspension := self.suspended.get(namespace)) is None:
            return self
        return replace(
            self,
            suspended={**self.suspended, namespace: replace(suspension, restored_by=request_id)},
            tables={name: mark for name, mark in self.tables.items() if name != namespace},
        )

    def restored(self) -> Progress:
        """Collections whose restoring read is done are no longer suspended; where it ended otherwise they are again."""
        if not any(suspension.lands for suspension in self.suspended.values()):
            return self
        left = {}
        for namespace, suspension in self.suspended.items():
            request = self.request(suspension.restored_by) if suspension.restored_by else None
            task = request.task(namespace) if request is not None else None
            if task is None or not task.ended:
                left[namespace] = suspension
            elif task.state is not TaskState.DONE:
                left[namespace] = suspension.given_up(self.position)
        moved = replace(self, suspended=left)
        return replace(moved, rereads=self.rereads.leaving_out(moved.left_out))

    @property
    def left_out(self) -> frozenset[Namespace]:
        """The collections of which nothing lands."""
        return frozenset(n for n, suspension in self.suspended.items() if not suspension.lands)

    def rests(self, request: RequestProgress, task: TaskProgress) -> bool:
        """Whether the task waits because its collection is suspended."""
        suspension = self.suspended.get(task.namespace)
        return suspension is not None and not task.ended and not suspension.restores(request.id, task)

    def resting(self, request: RequestProgress) -> bool:
        """Whether all that is left of the request waits for suspended collections."""
        left = [task for task in request.tasks if not task.ended]
        return bool(left) and bool(self.suspended) and all(self.rests(request, task) for task in left)

    def forgetting(self, keep_ended: int) -> Progress:
        """Note which requests have ended by this batch; of those that had before, only the ``keep_ended`` that did so
        last stay, so that the file does not grow for ever.

        One that has just ended always stays: a replay of this batch must find it in the state that it starts from, or
        in the journal, and the journal lets go of what had ended in the state before.
        """
        noted = tuple(_noting(request, self.batch_id) for request in self.requests)
        ended = sorted((r for r in noted if r.ended), key=lambda r: r.ended_in or 0)
        ended = ended[: max(0, len(ended) - keep_ended)]
        forgotten = frozenset(r.id for r in ended if r.ended_in != self.batch_id)
        return replace(self, requests=tuple(r for r in noted if r.id not in forgotten))

    def unsound(self) -> Iterator[str]:
        """What is wrong with this value, whatever has happened: a sentence for each contradiction."""
        for request in self.requests:
            yield from (f"request {request.id!r}: {why}" for task in request.tasks for why in task.unsound())
            if request.ended_in is not None and not request.ended:
                yield f"request {request.id!r} has ended in batch {request.ended_in}, and has not ended"
        for namespace in sorted(self.left_out):
            if self.rereads.of(namespace):
                yield f"{namespace} is suspended, and ids of it are to be read again"

    def sound(self) -> Progress:
        """This value itself. Raises ValueError where it contradicts itself."""
        if wrong := list(self.unsound()):
            raise ValueError(f"a state of batch {self.batch_id} that cannot be: {'; '.join(wrong)}")
        return self

    def to_json(self) -> dict[str, Any]:
        """Raises ValueError for what cannot be: it is not saved."""
        self.sound()
        return {
            "batch_id": self.batch_id,
            "position": self.position.to_json(),
            "requests": [r.to_json() for r in self.requests],
            "rereads": self.rereads.to_json(),
            "suspended": {str(n): suspension.to_json() for n, suspension in self.suspended.items()},
            "tables": {str(n): mark.to_json() for n, mark in self.tables.items()},
            "coverage": self.coverage.to_json() if self.coverage is not None else None,
            "shard_keys": {str(n): list(names) for n, names in sorted(self.shard_keys.items())},
            "gaps": [gap.to_json() for gap in self.gaps],
            "fields": self.fields,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Progress:
        """Raises ValueError for what cannot be: it is not believed."""
        loaded = cls(
            batch_id=value["batch_id"],
            position=ClusterTime.from_json(value["position"]),
            rereads=Rereads.from_json(value["rereads"]),
            suspended={
                Namespace.parse(name): Suspension.from_json(suspension)
                for name, suspension in value.get("suspended", {}).items()
            },
            tables={
                Namespace.parse(name): TableMark.from_json(mark)
                for name, mark in value.get("tables", {}).items()
            },
            coverage=Coverage.from_json(value["coverage"]) if value.get("coverage") is not None else None,
            shard_keys={Namespace.parse(n): tuple(k) for n, k in value.get("shard_keys", {}).items()},
            gaps=tuple(map(Gap.from_json, value.get("gaps", ()))),
            fields=value.get("fields", ""),
        )
        return loaded.accepting(map(RequestProgress.from_json, value["requests"])).sound()


def _noting(request: RequestProgress, batch_id: int) -> RequestProgress:
    if request.ended == (request.ended_in is not None):
        return request
    return replace(request, ended_in=batch_id if request.ended else None)

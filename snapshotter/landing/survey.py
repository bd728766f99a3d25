"""What the tables say before a batch is landed: which of them carry it already, are empty, or are not what they were;
and what has to be read again because of the batch.

Tables are asked side by side. The collection of one that cannot be asked is suspended (`landing.table_faults`), and the
questions that follow leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from snapshotter.core.machine import Machine
from snapshotter.core.values.outcome import Uncounted
from snapshotter.core.values.requests import SnapshotRequest
from snapshotter.core.values.sharding import ShardKeys, reading, rekeyed
from snapshotter.core.values.suspension import TableUnusable
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.landing.contents import BatchContents
from snapshotter.landing.incomplete import Incomplete, add, collection_of, incomplete
from snapshotter.landing.stale_rows import stale_rows
from snapshotter.landing.table_faults import Blame
from snapshotter.landing.tables import Tables
from snapshotter.landing.targets.target import EventTarget
from snapshotter.landing.uncounted import uncounted_in
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

_log = structlog.get_logger("snapshotter.batches")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Survey:
    """``again``: ids to be read again, by collections. ``rekeyed``: collections to be read again because their shard
    key has changed. ``recorded``: tables that carry the batch already. ``landed_upto``: how far an earlier run's first
    loads have landed. ``uncounted``: what READs have found that an earlier attempt at the batch has committed.
    ``empty``: tables without rows, of those that a scan may begin in. ``faults``: of tables that could not be asked."""

    again: Incomplete
    shard_keys: ShardKeys
    rekeyed: tuple[SnapshotRequest, ...]
    recorded: frozenset[Namespace]
    landed_upto: Mapping[Namespace, str]
    uncounted: Mapping[Namespace, tuple[Uncounted, ...]]
    empty: frozenset[Namespace]
    faults: tuple[TableUnusable, ...]


def survey(
    batch: BatchContents,
    machine: Machine,
    tables: Tables,
    told: Sequence[EventTarget],
    shard_keys: ShardKeys,
    blame: Blame,
    *,
    threads: int,
    first: bool,
) -> Survey:
    """Ask what has to be known before the machine is told of the batch.

    ``shard_keys``: of every sharded collection, captured or not. ``told``: the targets of events. ``tables`` are asked
    on so many ``threads``. ``blame`` decides which errors are one table's own: they come back as faults, and any other
    is raised. ``first``: this is the first batch of a run, so the only one that may have been tried before.
    """
    sharded = {name: key for name, key in shard_keys.items() if batch.scope.captures(name)}
    questions = _Questions(batch, machine, tables, told, blame, threads)
    again = questions.incomplete(sharded)
    changed = questions.rekeyed(sharded, batch.trailer.end)
    recorded: frozenset[Namespace] = frozenset()
    landed_upto: Mapping[Namespace, str] = {}
    uncounted: Mapping[Namespace, tuple[Uncounted, ...]] = {}
    if first:
        questions.marks()
        recorded, landed_upto = questions.recorded(), questions.landed_upto()
        uncounted = questions.uncounted()
    empty, faults = questions.empty(), tuple(questions.faults)
    return Survey(again, sharded, changed, recorded, landed_upto, uncounted, empty, faults)


@dataclass(slots=True)
class _Questions:
    """One batch's questions, in their order: each leaves out what those before it could not ask."""

    batch: BatchContents
    machine: Machine
    tables: Tables
    told: Sequence[EventTarget]
    blame: Blame
    threads: int
    faults: list[TableUnusable] = field(default_factory=list)

    def incomplete(self, sharded: ShardKeys) -> Incomplete:
        """Ids of events without their documents, and of those whose shard key has changed, or may have."""
        found = incomplete(self.batch.events, self.batch.rows, self.batch.stays)
        moved = (self.batch.streamed & sharded.keys()) - self.machine.progress.left_out
        for namespace, left in self._ask(moved, self._stale_rows):
            for key, document_key in left:
                add(found, namespace, key, document_key)
        return found

    def rekeyed(self, sharded: ShardKeys, end: ClusterTime) -> tuple[SnapshotRequest, ...]:
        """Requests for the tables whose rows still have keys from before a change of the shard key."""
        progress = self.machine.progress
        changed = rekeyed(progress.shard_keys, sharded) - progress.left_out
        captured = filter(self.batch.scope.captures, changed)
        found = [reading(n, end) for n, empty in self._ask(captured, self._is_empty) if not empty]
        for request in found:
            _log.warning("the shard key has changed: read again", id=request.id)
        return tuple(found)

    def marks(self) -> None:
        """Whether the tables are those of the progress that the run begins from."""
        progress = self.machine.progress
        known = progress.tables
        list(self._ask(known.keys() - progress.left_out, lambda n: self.tables.look(n, known[n])))

    def recorded(self) -> frozenset[Namespace]:
        named = (self.batch.streamed | self.batch.changed.truncated.keys()) - self.machine.progress.left_out
        return frozenset(n for n, newest in self._ask(named, self._recorded) if newest >= self.batch.batch_id)

    def landed_upto(self) -> dict[Namespace, str]:
        loads = {task.namespace: task for task in self.machine.first_loads()}
        reached = self._ask(loads, lambda namespace: self._landed_upto(loads[namespace]))
        return {namespace: key for namespace, key in reached if key is not None}

    def uncounted(self) -> dict[Namespace, tuple[Uncounted, ...]]:
        """Of the collections that may have had windows when the batch was tried."""
        tasks = (task for request in self.machine.progress.requests for task in request.tasks)
        begun = {
            task.namespace for task in tasks if task.last is not None and task.state is not TaskState.DONE
        }
        return dict(self._ask(begun - self.machine.progress.left_out, self._uncounted))

    def empty(self) -> frozenset[Namespace]:
        return frozenset(n for n, empty in self._ask(self.machine.beginning(), self._is_empty) if empty)

    def _ask(
        self, namespaces: Iterable[Namespace], question: Callable[[Namespace], Answer]
    ) -> Iterator[tuple[Namespace, Answer]]:
        open_ones = sorted(set(namespaces) - {fault.namespace for fault in self.faults})
        with ThreadPoolExecutor(self.threads, "ask") as pool:
            answers = {namespace: pool.submit(question, namespace) for namespace in open_ones}
        for namespace, answer in answers.items():
            error = answer.exception()
            if error is None:
                yield namespace, answer.result()
            elif fault := self.blame.fault_of(namespace, error):
                self.faults.append(fault)
            else:
                self.blame.note(namespace, error, others=len(answers) > 1)
                raise error

    def _stale_rows(self, namespace: Namespace) -> list[tuple[str, bytes]]:
        batch, opened = self.batch, self.tables.of(namespace)
        truncated = namespace in batch.changed.truncated
        table = opened.table if not truncated and opened.plan is not None else None
        moved = [row for row in batch.rows if row["moves"] and collection_of(row) == namespace]
        return stale_rows(filter(batch.stays, moved), batch.events_of(namespace), table)

    def _recorded(self, namespace: Namespace) -> int:
        recorded = self.tables.of(namespace).table.recorded_batch()
        if any(target.recorded([namespace], self.batch.batch_id) for target in self.told):
            return self.batch.batch_id
        return -1 if recorded is None else recorded

    def _uncounted(self, namespace: Namespace) -> tuple[Uncounted, ...]:
        return tuple(uncounted_in(self.tables.of(namespace).table.landings_of(self.batch.batch_id)))

    def _landed_upto(self, task: TaskProgress) -> str | None:
        opened = self.tables.of(task.namespace)
        if task.last is None or opened.plan is None:
            return None
        return opened.table.max_key(task.frontier.key if task.frontier else None, task.last.key)

    def _is_empty(self, namespace: Namespace) -> bool:
        return self.tables.of(namespace).table.is_empty()

"""Judges of a history. Each raises ``Violation`` at the moment something is wrong, with what it saw.

O1 every READ is a state of its document between the watermarks of its window, and no document is overlooked
O2 at rest table and collection are equal, and every request has ended
O3 nothing at or below the saved position or frontier is un-landed
O4 where events carry their own state: each table version is the collection as of the end of the batch (so no
half transaction, and no key goes back), outside unreached ranges; in every mode: a READ never replaces a
newer READ O5 one READ a key in a commit; an append never adds a key that is there; no row lies in an
unreached range O6 what Spark counts as done is never undone, and a restart lands again no more chunks than
were in flight O7 nothing is announced that is not saved and committed; a request that ended is never opened
again; nothing is completed twice
O8 a paused request opens no window, a stopped one lands nothing that was not being landed, the more urgent one goes
first, a blocking one alone; what operators decided holds in every run from its start, for every request that existed
then; a request exists once
O9 nothing lands in a table that others have changed, or own, before the collection was suspended and its restoring
read has begun; nothing but that read has windows in it; a batch leaves out what its saved progress says is suspended
O10 what a request says that it has found is no less than what its READs have changed in the tables, in whatever lives
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from snapshotter.core.machine import Machine
from snapshotter.core.values.chunks import KeyRange
from snapshotter.core.values.effects import Closing, LandBatch
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.core.values.window import Window, WindowId
from streaming.namespaces import Namespace
from tests.support.commit_rule import CommitRow, Read

from .decisions import Violation
from .report_oracles import ReportOracles
from .source import Collection as Documents
from .source import when

if TYPE_CHECKING:
    from .process import Process
    from .world import World


__all__ = ["Oracles", "Violation"]


class Oracles(ReportOracles):
    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.begun: dict[tuple[str, Namespace], int] = {}
        self.touched: dict[Namespace, set[str]] = {n: set() for n in world.tables}
        self.skipped: dict[Namespace, set[str]] = {n: set() for n in world.tables}
        self.landed_ranges: dict[tuple[str, Namespace], set[tuple[int, int]]] = {}
        self.relanded: set[tuple[str, Namespace, int, int]] = set()

    def collection(self, namespace: Namespace) -> Documents:
        return self.world.source.collections[namespace]

    @property
    def process(self) -> Process:
        assert self.world.process is not None
        return self.world.process

    @property
    def machine(self) -> Machine:
        assert self.process.machine is not None
        return self.process.machine

    # Windows

    def stepped(self, machine: Machine) -> None:
        """After every step: no id is in two windows (O5), and a task that begins is dated."""
        if machine.landing is not None:
            for request, task in ((r, t) for r in machine.progress.requests for t in r.tasks):
                if task.state is TaskState.RUNNING and (request.id, task.namespace) not in self.begun:
                    self.begun[request.id, task.namespace] = when(machine.landing.end)
        for window in machine.windows.values():
            for other in machine.windows.values():
                if other.id != window.id and other.namespace == window.namespace:
                    self.disjoint(window, other)

    def disjoint(self, one: Window, two: Window) -> None:
        process = self.process
        shared = set(process.members(one.namespace, one.target)) & set(
            process.members(two.namespace, two.target)
        )
        if shared:
            raise Violation("O5", f"{shared} are in two windows in flight: {one} and {two}")

    # Commits

    def planned(self, landing: LandBatch) -> None:
        """A batch is about to land: events in unreached ranges do not, whatever an earlier attempt did with
        them."""
        self.left_out = landing.left_out
        self.nothing_stopped_lands(landing)
        for namespace, bound in self.machine.scheduler.saved.rereads:
            if namespace in landing.unreached and landing.unreached[namespace].holds(bound.key):
                self.skipped[namespace].add(bound.key)
        for namespace, unreached in landing.unreached.items():
            held = {key for key in self.collection(namespace).keys if unreached.holds(key)}
            self.touched[namespace] -= held
            for entry in self.world.source.between(when(landing.start), when(landing.end)):
                if entry.namespace == namespace and entry.key in held:
                    self.skipped[namespace].add(entry.key)

    def committing(
        self,
        namespace: Namespace,
        landing: LandBatch,
        closings: Iterable[Closing],
        buffers: Mapping[WindowId, Mapping[str, int]],
        rows: Mapping[str, CommitRow],
        *,
        appended: Collection[str],
    ) -> None:
        table = self.world.tables[namespace]
        seen: set[str] = set()
        for closing in closings:
            if closing.window.id not in buffers:
                raise Violation("O1", f"{closing.window.id} closes, but its buffer is gone")
            buffer = buffers[closing.window.id]
            twice = seen & set(buffer)
            if twice:
                raise Violation("O5", f"{twice} have two READs in the commit of batch {landing.batch_id}")
            seen |= set(buffer)
            self.reads_are_of_their_window(closing, buffer)
        for key, row in rows.items():
            before = table.rows.get(key)
            if key in appended and before is not None:
                raise Violation("O5", f"{namespace} {key} is appended, but {before} is there")
            if isinstance(row, Read) and before is not None and before.from_read:
                older = row.content != before.doc and self.is_older(namespace, key, row.content, before.doc)
                if older:
                    raise Violation(
                        "O4", f"{namespace} {key}: READ {row} would replace the newer READ {before}"
                    )

    def is_older(self, namespace: Namespace, key: str, one: object, two: object) -> bool:
        docs = self.collection(namespace).history[key][1]
        assert isinstance(one, int)
        assert isinstance(two, int)
        return docs.index(one) < docs.index(two)

    def reads_are_of_their_window(self, closing: Closing, buffer: Mapping[str, int]) -> None:
        window, process = closing.window, self.process
        assert window.high_seen is not None
        assert process.machine is not None
        assert process.machine.landing is not None
        low, high = when(closing.low), when(window.high_seen)
        if high > when(process.machine.landing.end):
            raise Violation("O1", f"{window} closes before its high watermark")
        for key in process.members(window.namespace, window.target):
            states = self.collection(window.namespace).states(key, low, high)
            if key in buffer:
                fits = buffer[key] in states
            else:
                fits = any(s is None or (window.filter is not None and s % 2) for s in states)
            if not fits:
                raise Violation(
                    "O1",
                    f"{key}: READ {buffer.get(key)} but between {low} and {high} it was {states}: {window}",
                )

    def landed(self, namespace: Namespace, landing: LandBatch, closings: Iterable[Closing]) -> None:
        """Right after a commit, with the READs of these windows."""
        closings = list(closings)
        table, unreached = self.world.tables[namespace], landing.unreached.get(namespace)
        touched, end = self.touched[namespace], when(landing.end)
        for entry in self.world.source.between(when(landing.start), end):
            if entry.namespace != namespace:
                continue
            if entry.op == "fill":
                touched.clear()  # what a rename brings is not known before it is read
            elif entry.op != "drop" and not (unreached is not None and unreached.holds(entry.key)):
                touched.add(entry.key)
        for closing in closings:
            whole = closing.window.filter is None and not closing.superseded
            if closing.window.namespace == namespace and whole:
                touched.update(self.process.members(namespace, closing.window.target))
        if not self.sound(namespace):
            touched.clear()
            return
        touched |= set(table.rows)
        if unreached is not None:
            early = [key for key in table.rows if unreached.holds(key)]
            if early:
                raise Violation("O5", f"{namespace}: {early} are in the table, but lie in {unreached}")
        self.skipped[namespace] -= touched
        self.reads_are_visible(namespace, closings)
        if self.world.scenario.exact:
            for key in sorted(touched):
                row, state = table.rows.get(key), self.collection(namespace).state(key, end)
                held = row.doc if row else None
                if held != state:
                    where = f"in version {table.version} of batch {landing.batch_id}"
                    raise Violation(
                        "O4", f"{namespace} {key} is {held} {where}, but was {state} at its end {end}"
                    )

    def reads_are_visible(self, namespace: Namespace, closings: Iterable[Closing]) -> None:
        """A READ has landed, or something newer has: only an event that lands something may supersede it
        (O1)."""
        process = self.process
        waiting = {(name, again.key) for name, again in self.machine.progress.rereads}
        for closing in closings:
            if closing.window.namespace != namespace or closing.superseded:
                continue
            for key, doc in process.buffers[closing.window.id].items():
                row, low = self.world.tables[namespace].rows.get(key), when(closing.low)
                since = self.collection(namespace).states(key, low, self.world.source.clock)
                fits = (row.doc if row else None) in since
                # Within one transaction a key may have had several states; only the last is in its history.
                fits = fits or (row is not None and self.world.source.written[row.doc] > low)
                # An event before the READ, then one without its document: the event lands, or has landed, and the id
                # is on the list of those that are read again, or comes onto it with this batch. (A first load drops a
                # READ for any event.)
                mine = [e for e in process.events[namespace] if e.key == key]
                kept = [e for e in chain(*process.keys.of(namespace)) if e.key == key]
                again = (namespace, key) in waiting or not all(e.lands for e in mine)
                fits = fits or (again and any(e.lands for e in (*mine, *kept)))
                if not fits:
                    raise Violation("O1", f"{namespace} {key}: READ {doc} was superseded by {row}")

    # Progress

    def saving(self, progress: Progress) -> None:
        """Everything that this progress claims must be in the tables."""
        if not self.left_out <= progress.suspended.keys():
            raise Violation("O9", f"{self.left_out} were left out; saving {progress}")
        position = when(progress.position)
        if len({r.id for r in progress.requests}) < len(progress.requests):
            raise Violation("O8", f"a request exists twice; saving {progress}")
        for namespace, table in self.world.tables.items():
            if not self.sound(namespace):
                continue
            collection = self.collection(namespace)
            requests = self.ever(progress)
            tasks = [(r.id, t) for r in requests for t in r.tasks if t.namespace == namespace]
            excuses = self.excuses(progress, namespace)
            waiting = {b.key for n, b in progress.rereads if n == namespace}
            for key in collection.keys:
                need = self.needed(collection, key, position, tasks)
                # A lookup in vain, and in a replay not: the delete that it proves is still to come, and heals
                # it.
                vanished = (namespace, key, need) in self.world.vanished
                if need < 0 or vanished or key in waiting or any(self.excused(key, *e) for e in excuses):
                    continue
                row = table.rows.get(key)
                states = collection.states(key, need, self.world.source.clock)
                if (row.doc if row else None) not in states:
                    message = f"{namespace} {key} is {row} in the table, but has been {states} since {need}"
                    raise Violation("O3", f"{message}; saving {progress}")

    def ever(self, progress: Progress) -> list[RequestProgress]:
        """The requests of this state, and those that have ended so long ago that it has forgotten them."""
        known = {request.id for request in progress.requests}
        return [*(r for r in self.over.values() if r.id not in known), *progress.requests]

    def excuses(self, progress: Progress, namespace: Namespace) -> list[tuple[TaskProgress, bool]]:
        """The collection's tasks, and of each whether it reads what a rename brought, what could not be read again id
        by id, or what was there before the collection joined."""
        return [
            (task, request.origin in (Origin.RENAME, Origin.REREAD, Origin.INITIAL))
            for request in self.ever(progress)
            for task in request.tasks
            if task.namespace == namespace
        ]

    def needed(
        self, collection: Documents, key: str, position: int, tasks: list[tuple[str, TaskProgress]]
    ) -> int:
        """The table must show this key at or after this time (-1: it need not show it at all)."""
        times = collection.history[key][0]
        need = max((t for t in times if self.world.stream_start < t <= position), default=-1)
        for request_id, task in tasks:
            if self.has_read(task, key):
                need = max(need, self.begun.get((request_id, task.namespace), -1))
        return need

    def holds(self, task: TaskProgress, key: str) -> bool:
        """Whether the task reads this key, whatever its document."""
        if task.keys:
            return key in {bound.key for bound in task.keys}
        within = task.range is None or key in self.process.members(task.namespace, task.range)
        return within and task.filter is None

    def has_read(self, task: TaskProgress, key: str) -> bool:
        if task.frontier is None or not self.holds(task, key):
            return False
        if task.keys:
            return key <= task.frontier.key
        rank = self.collection(task.namespace).rank
        return rank[key] <= rank[task.frontier.key]

    def excused(self, key: str, task: TaskProgress, fills: bool) -> bool:
        """A first load, or one that reads what a rename brought or what the stream could not give (``fills``), running
        or given up, has not come to this key yet.

        Where the table's commit survived a crash and the progress of its batch did not, the task may be no
        first load any more, or not even be opened: the events that were skipped then come with its scan all
        the same.
        """
        if task.state is TaskState.DONE or task.filter is not None:
            return False
        if not task.first_load and not fills and key not in self.skipped[task.namespace]:
            return False
        if task.last is None:
            return True
        rank = self.collection(task.namespace).rank
        after = rank[task.frontier.key] if task.frontier else -1
        return after < rank[key] <= rank[task.last.key]

    def committed(self, batch_id: int) -> None:
        """Spark counts the batch as done: from here on nothing of it may be undone."""
        saved = self.world.sink.newest_below(batch_id + 1)
        if saved.batch_id != batch_id:
            raise Violation("O6", f"batch {batch_id} is committed, saved is {saved.batch_id}")
        order = list(TaskState)
        for request in self.durable.requests:
            after = saved.request(request.id)
            if after is None and request.ended:
                continue
            if after is None:
                raise Violation("O6", f"request {request.id} is forgotten")
            assert after is not None
            for old, new in zip(request.tasks, after.tasks, strict=True):
                if new.resumed > old.resumed:
                    continue  # it failed, and went on
                back = order.index(new.state) < order.index(old.state) or (old.ended and new != old)
                rank = self.collection(old.namespace).rank
                frontier = [rank[b.key] if b else -1 for b in (old.frontier, new.frontier)]
                by_key = _key(old) > _key(new)  # single ids are read in the order of their keys
                if back or (by_key if old.keys else frontier[0] > frontier[1]):
                    raise Violation("O6", f"went back from {old} to {new}")
        self.only_what_was_stopped_is(saved)
        self.reports_tell(saved)
        self.durable = saved
        self.over.update({r.id: r for r in saved.requests if r.ended})

    def chunk_landed(self, window: Window) -> None:
        """A window landed, as far as the machine knows; a crash may forget it."""
        if window.request_id is None or not isinstance(window.target, KeyRange):
            return
        rank = self.collection(window.namespace).rank
        known = self.landed_ranges.setdefault((window.request_id, window.namespace), set())
        assert window.target.upto is not None
        after = rank[window.target.after.key] if window.target.after else -1
        upto = rank[window.target.upto.key]
        again = {(a, u) for a, u in known if a < upto and after < u}
        self.relanded |= {(window.request_id, window.namespace, a, u) for a, u in again}
        known.add((after, upto))

    # The end

    def left_stale(self, namespace: Namespace, saved: Progress) -> bool:
        """Whether an operator stopped the read that was to bring the table up to date."""
        cures = (r.task(namespace) for r in self.ever(saved) if r.id == self.stale.get(namespace))
        return any(task is not None and task.state is TaskState.STOPPED for task in cures)

    def at_rest(self) -> None:
        saved, world = self.durable, self.world
        for request in world.sink.asked:
            known = saved.request(request.id)
            if not (request.id in self.over or (known is not None and known.ended)):
                raise Violation("O2", f"request {request.id} has not ended: {known}")
            causes = (
                "read_fails",
                "read_fails_definitely",
                "open_fails",
                "hidden",
                "buffers_lost",
                "open_document_lost",
                "late",
            )
            innocent = world.scenario.in_stream and not any(world.faults.get(cause) for cause in causes)
            if innocent and known and known.failed:
                raise Violation("O2", f"{known} failed, but nothing went wrong")
        for namespace, table in world.tables.items():
            if self.left_stale(namespace, saved):
                continue
            collection = self.collection(namespace)
            excuses = self.excuses(saved, namespace)
            done = [t for t, _ in excuses if t.state is TaskState.DONE]
            given_up = (TaskState.FAILED, TaskState.STOPPED)
            whole = any(t.filter is None and not t.keys and t.range is None for t in done)
            whole = whole and not any((fills or t.first_load) and t.state in given_up for t, fills in excuses)
            told = saved.coverage is None or namespace in saved.coverage.unread
            for key in collection.keys:
                owed = collection.history[key][0][-1] > world.stream_start or any(
                    self.holds(t, key) for t in done
                )
                excusing = [task for task, fills in excuses if self.excused(key, task, fills)]
                silent = not told and all(t.first_load and t.state is TaskState.STOPPED for t in excusing)
                if whole or (owed and (silent or not excusing)):
                    row, state = table.rows.get(key), collection.state(key, world.source.clock)
                    equal = (row.doc if row else None) == state
                    if not equal:
                        raise Violation(
                            "O2", f"{namespace} {key} is {row} in the table and {state} in the collection"
                        )
        disturbed = sum(world.faults.get(fault, 0) for fault in ("altered", "removed", "put_back", "stolen"))
        lives = world.restarts + self.resumed + disturbed
        most = lives * world.scenario.windows_in_flight * len(world.tables)
        if len(self.relanded) > most:
            raise Violation("O6", f"{self.relanded} landed again after {lives} restarts")


def _key(task: TaskProgress) -> str:
    return task.frontier.key if task.frontier else ""

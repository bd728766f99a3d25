"""One life of the engine in the simulated world: it drives the machine exactly as the real engine does.

Everything it does is a *job*, a generator that stops at every point where a crash may come or something else
may happen in between. The batch is one job; every other effect of the machine is a job of its own beside it.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import chain
from typing import TYPE_CHECKING

from snapshotter.core.machine import Machine
from snapshotter.core.rules.streamed_keys import StreamedKeys
from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values import namespace_changes
from snapshotter.core.values.chunks import KeyList
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.namespace_changes import NamespaceChange
from snapshotter.core.values.outcome import Uncounted
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.window import WatermarkObservation, Window, WindowId
from streaming.delta.table_identity import TableMark
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.commit_rule import Read, Reconciling, StreamedEvent, commit_rows

from .joining import begin
from .reading import Job, Reading, bound
from .sink import all_new, outcome_of, said_of
from .source import at, when

if TYPE_CHECKING:
    from .world import World

Batch = dict[Namespace, list[StreamedEvent]]
ELSEWHERE = Namespace("shop", "elsewhere")


class Process(Reading):
    def __init__(self, world: World, run: str) -> None:
        self.world, self.run = world, run
        self.source, self.sink, self.rng, self.scenario = world.source, world.sink, world.rng, world.scenario
        self.machine: Machine | None = None
        self.keys: StreamedKeys[list[StreamedEvent]] = StreamedKeys()
        self.buffers: dict[WindowId, dict[str, int]] = {}
        self.nonce = self.dead = False
        self.before = Progress()
        self.first = True
        self.captured = world.captured
        self.landing_windows: list[Window] = []
        self.committing: Namespace | None = None
        self.events: Batch = {}
        self.jobs: list[Job] = [self.stream(), self.tidy()]

    # Jobs that are always there

    def tidy(self) -> Job:
        """At start, other runs' open documents are removed."""
        for window in list(self.source.open_documents):
            if window.run != self.run:
                yield "tidy"
                self.delete_open_document(window)

    def stream(self) -> Job:
        """Spark: log the end of the next batch, run it, commit it."""
        while True:
            yield "poll"
            if len(self.sink.offsets) == self.sink.committed + 1:
                start = self.sink.offsets[-1][1] if self.sink.offsets else self.world.stream_start
                now = self.source.clock
                end = self.rng.choice([now, now, self.rng.randint(start, now)])
                if self.holding and not self.world.happens("impatient"):
                    end = start
                if end == start and not self.nonce:
                    continue
                self.nonce = False
                self.sink.offsets.append((start, end))
                yield "offset logged"
            batch_id = self.sink.committed + 1
            yield from self.batch(batch_id, *self.sink.offsets[batch_id])

    @property
    def holding(self) -> bool:
        return self.machine is not None and self.machine.holding

    def batch(self, batch_id: int, start: int, end: int) -> Job:
        world = self.world
        if self.machine is None:
            self.start_machine(batch_id)
        assert self.machine is not None
        events, arrived = self.arrive(batch_id, start, end)
        self.events = {namespace: events.get(namespace, []) for namespace in world.tables}
        yield "batch read"
        landing = self.step(arrived)[-1]
        assert isinstance(landing, eff.LandBatch)
        world.oracles.planned(landing)
        outcomes: dict[WindowId, inp.Outcome] = {}
        done: set[Namespace] = set()
        marks: dict[Namespace, TableMark] = {}
        while len(done) < len(world.tables):
            namespace = self.rng.choice([n for n in world.tables if n not in done])
            yield f"commit {namespace}"
            if not self.lands(namespace, landing, events):
                done.add(namespace)
                continue
            before = self.mark_of(namespace)
            if (fault := self.look(namespace, before)) is not None:
                landing = self.suspend(namespace, fault, batch_id)
                continue
            closing = [c.window.id for c in landing.closings if c.window.namespace == namespace]
            if closing and world.happens("buffers_lost"):
                lost = frozenset(self.rng.sample(closing, self.rng.randint(1, len(closing))))
                landing = self.step(inp.BuffersLost(batch_id, lost))[-1]
                assert isinstance(landing, eff.LandBatch)
            before, self.committing = world.tables[namespace].mark(), namespace
            outcomes |= yield from self.commit(namespace, landing, events.get(namespace, []))
            self.committing = None
            if (fault := self.look(namespace, before)) is not None:
                landing = self.suspend(namespace, fault, batch_id)
                continue
            if (mark := self.mark_after(namespace, before)) is not None:
                marks[namespace] = mark
            done.add(namespace)
        yield "landed"
        self.landing_windows = [c.window for c in landing.closings]
        lane = self.step(inp.BatchLanded(batch_id, outcomes, world.waited(), marks))
        yield from self.finish(batch_id, lane)

    @staticmethod
    def lands(namespace: Namespace, landing: eff.LandBatch, events: Batch) -> bool:
        """Whether the batch has something for this table."""
        closes = any(c.window.namespace == namespace for c in landing.closings)
        there = bool(events.get(namespace)) or closes or namespace in landing.truncated
        return there and namespace not in landing.left_out

    def mark_after(self, namespace: Namespace, before: TableMark | None) -> TableMark | None:
        """What is kept of a table after a landing; ``before``: what it was before."""
        return self.world.tables[namespace].mark()

    def mark_of(self, namespace: Namespace) -> TableMark | None:
        assert self.machine is not None
        return self.machine.progress.tables.get(namespace)

    def look(self, namespace: Namespace, mark: TableMark | None) -> str | None:
        return self.world.tables[namespace].fault(mark)

    def suspend(self, namespace: Namespace, fault: str, batch_id: int | None) -> eff.LandBatch:
        """What is left of the batch's landing."""
        repair = self.scenario.repairs and fault != "owned"
        told = inp.CollectionSuspended(namespace, fault, f"it is {fault}", "read it again", batch_id, repair)
        landing = self.step(told)[-1]
        assert isinstance(landing, eff.LandBatch)
        return landing

    def finish(self, batch_id: int, lane: list[eff.Effect]) -> Job:
        """The durable lane after the landing: save, then Spark's commit, then what operators hear."""
        assert self.machine is not None
        yield "save"
        save = lane.pop(0)
        assert isinstance(save, eff.SaveProgress)
        self.world.oracles.saving(save.progress)
        self.sink.save(save.progress)
        self.sink.forget(self.before)
        self.before = save.progress
        if lane and isinstance(lane[0], eff.SaveControls):
            lane.pop(0)
            yield "journal"
            self.decide(self.machine.controls)
        floors: dict[Namespace, ClusterTime] = {}
        for window in self.machine.windows.values():
            floors[window.namespace] = min(window.floor, floors.get(window.namespace, window.floor))
        self.keys.forget(floors)
        yield "spark commit"
        self.sink.committed = batch_id
        self.world.oracles.committed(batch_id)
        for announce in lane:
            yield "announce"
            assert isinstance(announce, eff.Announce)
            self.world.oracles.announced(announce)

    # The batch

    def start_machine(self, batch_id: int) -> None:
        self.before = self.sink.load(batch_id).capturing(self.captured.__contains__)
        if self.scenario.late:
            self.before, loads = begin(self.before, self.sink, self.world.tables, self.captured)
            self.world.oracles.stale.update(
                {wanted.namespace: load.id for load in loads for wanted in load.wanted}
            )
        in_stream, controls = self.scenario.in_stream, self.sink.controls
        limits = self.scenario.limits
        self.machine = Machine(self.run, self.before, limits, in_stream=in_stream, controls=controls)
        self.first = True
        self.step(inp.SignalsTaken(tuple(self.sink.journal), controls))
        self.world.oracles.started(self.machine)

    def arrive(self, batch_id: int, start: int, end: int) -> tuple[Batch, inp.BatchArrived]:
        """Read the batch's events: everything that the engine tells the machine about a batch."""
        assert self.machine is not None
        events: Batch = {}
        incomplete: dict[Namespace, dict[str, bool]] = {}
        changes: list[NamespaceChange] = []
        for entry in self.source.between(start, end):
            if entry.namespace not in self.captured:
                continue
            if entry.op in ("drop", "fill"):
                ends = (entry.namespace, None) if entry.op == "drop" else (ELSEWHERE, entry.namespace)
                changes.append(NamespaceChange(ends[0], at(entry.time), entry.ord, ends[1]))
                events[entry.namespace], incomplete[entry.namespace] = [], {}
                continue
            doc, lands = entry.doc, True
            if entry.op == "u":
                doc = self.world.document_of(entry)
                lands = doc is not None
            events.setdefault(entry.namespace, []).append(
                StreamedEvent(entry.key, at(entry.time), entry.ord, lands, doc)
            )
            incomplete.setdefault(entry.namespace, {})[entry.key] = not lands
        landed_upto = {}
        if self.first:
            for task in self.machine.first_loads():
                assert task.last is not None
                after = task.frontier.key if task.frontier else ""
                held = [k for k in self.world.tables[task.namespace].rows if after < k <= task.last.key]
                if held:
                    landed_upto[task.namespace] = max(held)
        uncounted = self.uncounted(batch_id) if self.first else {}
        self.first = False
        changed = namespace_changes.resolve(changes, self.captured.__contains__)
        return events, inp.BatchArrived(
            batch_id,
            at(start),
            at(end),
            observations=tuple(self.observations(start, end)),
            incomplete={n: tuple(bound(k) for k, is_ in ks.items() if is_) for n, ks in incomplete.items()},
            empty_tables=frozenset(n for n in self.machine.beginning() if not self.world.tables[n].rows),
            recorded=frozenset(n for n, t in self.world.tables.items() if t.recorded >= batch_id),
            landed_upto=landed_upto,
            behind=self.source.clock - end > self.scenario.behind,
            truncated=changed.truncated,
            requests=changed.requests,
            streams=bool(events),
            streamed=frozenset(events),
            uncounted=uncounted,
        )

    def uncounted(self, batch_id: int) -> dict[Namespace, tuple[Uncounted, ...]]:
        """What an earlier attempt at this batch has found, by what the tables say."""
        assert self.machine is not None
        asked = self.world.tables.keys() - self.machine.progress.left_out
        return {namespace: self.world.tables[namespace].uncounted(batch_id) for namespace in asked}

    def observations(self, start: int, end: int) -> list[WatermarkObservation]:
        return [
            WatermarkObservation(*entry.mark, at(entry.time))
            for entry in self.source.between(start, end)
            if entry.mark is not None and entry.mark[0] not in self.world.hidden
        ]

    def commit(
        self, namespace: Namespace, landing: eff.LandBatch, events: list[StreamedEvent]
    ) -> Generator[str, None, dict[WindowId, inp.Outcome]]:
        """The commit of one table by the plain rule; or two, where READs proven new are appended behind the rest."""
        unreached = landing.unreached.get(namespace)
        batch = [e for e in events if unreached is None or not unreached.holds(e.key)]
        kept = list(chain(*self.keys.of(namespace)))
        if namespace in landing.truncated:
            self.keys.truncated([namespace])
        if namespace in landing.keep:
            self.keys.keep(namespace, landing.batch_id, landing.end, batch)
        closings = [c for c in landing.closings if c.window.namespace == namespace]
        reads = [
            Read(key, c.low, c.window.id.number, doc)
            for c in closings
            if not c.superseded
            for key, doc in self.buffers[c.window.id].items()
        ]
        reconciling = [
            Reconciling(
                KeyList(tuple(map(bound, self.members(namespace, w.target)))),
                c.low,
                w.id.number,
                rows_too=w.filter is not None,
            )
            for c in closings
            if (w := c.window) and c.reconcile and not c.superseded
        ]
        truncated = namespace in landing.truncated
        held = self.world.tables[namespace].rows if not truncated else {}
        appends = all_new(closings) and not truncated
        rows = commit_rows(batch, kept, reads, table=held, reconciling=reconciling, proven_new=appends)
        outcomes = {
            w: outcome_of(rows, w.number, len(self.buffers[w]), held)
            for w in (c.window.id for c in closings)
            if w in self.buffers
        }
        new = {key: row for key, row in rows.items() if appends and isinstance(row, Read)}
        oracles, table = self.world.oracles, self.world.tables[namespace]
        oracles.may_land(namespace, landing)
        oracles.committing(namespace, landing, closings, self.buffers, rows, appended=new.keys())
        first = {key: row for key, row in rows.items() if key not in new}
        said, landed = said_of(closings, outcomes), False
        if first or truncated:
            landed = table.commit(landing.batch_id, first, () if new else said, replaces=truncated)
            if landed and new:
                oracles.landed(namespace, landing, closings=())
                yield f"append {namespace}"
        if new and not self.dead:
            landed = table.append(landing.batch_id, new, said, behind=bool(first)) or landed
        if landed and not self.dead:
            oracles.landed(namespace, landing, closings=landing.closings)
            oracles.found(namespace, said)
        return outcomes

    # What the machine asks for

    def step(self, happened: inp.Input) -> list[eff.Effect]:
        """Step the machine; requests become jobs, the durable lane is returned."""
        if self.dead or self.machine is None:
            return []
        lane: list[eff.Effect] = []
        for effect in self.machine.step(happened):
            self.world.saw(self, effect)
            match effect:
                case eff.LandBatch() | eff.SaveProgress() | eff.Announce():
                    lane.append(effect)
                case eff.SaveControls() if lane:
                    lane.append(effect)  # with the batch that shows what is let go
                case eff.SaveControls():
                    self.decide(effect.controls)
                case eff.MakeBatch():
                    self.nonce = True
                case eff.OpenCollection():
                    self.jobs.append(self.open_collection(effect))
                case eff.PlanChunks():
                    self.jobs.append(self.plan_chunks(effect))
                case eff.WriteLow():
                    self.jobs.append(self.write_low(effect.window))
                case eff.ReadChunk():
                    self.jobs.append(self.read_chunk(effect))
                case eff.WriteHigh():
                    self.jobs.append(self.write_high(effect.window, when(effect.not_before)))
                case eff.Discard():
                    self.jobs.append(self.discard(effect.window))
        self.world.oracles.stepped(self.machine)
        return lane

    def decide(self, controls: Controls) -> None:
        if not self.dead:
            self.sink.decide(controls)

"""Rule-breaking changes, planted one at a time, to show that the oracles notice.

Each names the rule it breaks (docs/PROTOCOL.md), where it lives, and the kind of world in which it can
matter. ``plant`` patches the machine, or the simulated engine around it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from snapshotter.core.machine import Machine
from snapshotter.core.rules import batches, queue, streamed_keys
from snapshotter.core.rules.scan import Scan
from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.chunks import KeyList, KeyRange
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.core.values.window import Window, WindowId
from tests.support import commit_rule

from . import process
from .process import Job, Process
from .sink import Durable
from .source import at
from .world import World

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutation:
    name: str
    rule: str
    plant: Plant
    tuned: dict[str, Any] = field(default_factory=dict)


MUTATIONS: list[Mutation] = []


def mutation(rule: str, **tuned: Any) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        MUTATIONS.append(Mutation(plant.__name__, rule, plant, tuned))
        return plant

    return register


# Rules 1 to 3: what supersedes what


@mutation("1")
def only_the_closing_batch_supersedes(patch: pytest.MonkeyPatch) -> None:
    """Streamed keys of earlier batches are not asked for."""
    patch.setattr(streamed_keys.StreamedKeys, "of", lambda self, namespace: [])


@mutation("1")
def only_events_after_the_high_watermark_supersede(patch: pytest.MonkeyPatch) -> None:
    """The READ is taken for the state at its high watermark."""
    patch.setattr(Window, "low", property(lambda self: self.high_seen))


@mutation("2", missing=0.3, writes=0.5)
def an_update_without_its_document_supersedes(patch: pytest.MonkeyPatch) -> None:
    original = commit_rule.surviving
    patch.setattr(
        commit_rule, "surviving", lambda r, e, **new: original(r, [replace(x, lands=True) for x in e], **new)
    )


@mutation("2", missing=0.3)
def an_update_without_its_document_is_not_read_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Progress, "with_reread", lambda self, namespace, bounds: self)


@mutation(
    "2",
    missing=0.6,
    mode="post-image",
    requests=0,
    keys=3,
    collections=1,
    reread_ids=1,
    ticks=400,
    writes=0.4,
)
def an_update_missed_while_its_id_is_read_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    original = Machine._batch_arrived

    def arrived(self: Machine, happened: inp.BatchArrived) -> list[eff.Effect]:
        effects = original(self, happened)
        self.scheduler.missed.clear()
        return effects

    patch.setattr(Machine, "_batch_arrived", arrived)


@mutation("3", mode="post-image")
def the_first_event_of_a_key_lands(patch: pytest.MonkeyPatch) -> None:
    original = commit_rule.latest_events
    patch.setattr(commit_rule, "latest_events", lambda events: original(list(events)[:1]))


# Rules 4 to 6: watermarks


@mutation("4", writes=0.5)
def the_high_watermark_is_written_before_the_last_reader_ends(patch: pytest.MonkeyPatch) -> None:
    original = Process.read_chunk

    def read(self: Process, ask: eff.ReadChunk) -> Job:
        self.buffers[ask.window] = early = {}
        self.step(inp.ChunkRead(ask.window, ask.after_time, 0))
        yield from original(self, ask)
        early.update(self.buffers.get(ask.window, {}))
        self.buffers[ask.window] = early

    step = Process.step

    def tolerant(self: Process, happened: inp.Input) -> list[eff.Effect]:
        known = self.machine.windows.get(getattr(happened, "window", None)) if self.machine else None
        again = isinstance(happened, inp.ChunkRead) and (known is None or known.ended is not None)
        return [] if again else step(self, happened)

    patch.setattr(Process, "read_chunk", read)
    patch.setattr(Process, "step", tolerant)


@mutation("5", strategy="cluster_time", lag=10, writes=0.5, hidden=0.0)
def a_low_watermark_from_behind_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Window, "low", property(lambda self: self.low_seen))
    patch.setattr(Window, "read_after", property(lambda self: self.low_acknowledged))


@mutation("5", writes=0.5, windows_in_flight=1, chunk_docs=5, mode="post-image")
def keys_are_kept_only_once_the_chunk_is_read(patch: pytest.MonkeyPatch) -> None:
    original = batches.plan_landing

    def plan(arrived: Any, windows: Any, *rest: Any) -> eff.LandBatch:
        landing = original(arrived, windows, *rest)
        return replace(landing, keep=frozenset(w.namespace for w in windows.values() if w.ended is not None))

    patch.setattr(batches, "plan_landing", plan)


@mutation("6", strategy="insert_insert", crash=0.03, restart=0.03, zombie=1.0, read_fails=0.0, attempts=1)
def watermarks_of_another_run_count(patch: pytest.MonkeyPatch) -> None:
    original = batches.observe

    def observe(windows: Any, observations: Any, end: Any) -> Any:
        runs = {w.run for w in windows}
        mine = [replace(s, window=WindowId(run, s.window.number)) for s in observations for run in runs]
        return original(windows, mine, end)

    patch.setattr(batches, "observe", observe)


@mutation("6", hidden=0.2, strategy="insert_insert")
def a_hidden_watermark_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Window, "check_passed", lambda self, end: None)


@mutation("6", strategy="insert_delete", open_document_lost=0.1, writes=0.5)
def a_high_watermark_before_the_readers_end_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Window, "check_passed", lambda self, end: None)
    patch.setattr(
        Window,
        "closes_by",
        lambda self, end: (
            self.state == "closing" and bool(self.low_seen and self.high_seen) and self.high_seen <= end
        ),
    )


# Rules 8, 9 and 11: commits, replays, order


@mutation("9", crash=0.02)
def progress_is_saved_before_the_batch_lands(patch: pytest.MonkeyPatch) -> None:
    commit = Process.commit

    def batch(self: Process, batch_id: int, start: int, end: int) -> Job:
        if self.machine is None:
            self.start_machine(batch_id)
        events, arrived = self.arrive(batch_id, start, end)
        self.events = {namespace: events.get(namespace, []) for namespace in self.world.tables}
        landing = self.step(arrived)[-1]
        assert isinstance(landing, eff.LandBatch)
        self.world.oracles.planned(landing)
        lane = self.step(
            inp.BatchLanded(batch_id, {c.window.id: inp.Outcome(0, 0) for c in landing.closings})
        )
        yield from self.finish(batch_id, lane)
        for namespace in self.world.tables:
            yield "commit"
            commit(self, namespace, landing, events.get(namespace, []))

    patch.setattr(Process, "batch", batch)


@mutation("9", crash=0.03)
def spark_commits_the_batch_before_progress_is_saved(patch: pytest.MonkeyPatch) -> None:
    original = Process.finish

    def finish(self: Process, batch_id: int, lane: list[eff.Effect]) -> Job:
        self.sink.committed = batch_id
        yield "spark commit"
        yield from original(self, batch_id, lane)

    patch.setattr(Process, "finish", finish)


@mutation("9")
def announced_before_it_is_saved(patch: pytest.MonkeyPatch) -> None:
    original = Process.finish

    def finish(self: Process, batch_id: int, lane: list[eff.Effect]) -> Job:
        for announce in lane[1:]:
            assert isinstance(announce, eff.Announce)
            self.world.oracles.announced(announce)
        yield from original(self, batch_id, lane[:1])

    patch.setattr(Process, "finish", finish)


@mutation("9", crash=0.03)
def a_replayed_batch_starts_from_its_own_state(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Durable, "load", lambda self, batch_id: self.newest_below(batch_id + 1))


@mutation("9", restart=0.05, zombie=0.0, writes=0.5)
def windows_survive_a_restart_of_the_query(patch: pytest.MonkeyPatch) -> None:
    original = World.start

    def start(self: World) -> None:
        dead = getattr(self, "dead", None)
        original(self)
        assert self.process is not None
        if dead is not None and dead.machine is not None:
            dead.machine.scheduler.landing = dead.machine._arrived = None
            self.process.machine, self.process.buffers, self.process.keys = (
                dead.machine,
                dead.buffers,
                dead.keys,
            )
            self.process.first = False

    crash = World.crash

    def stop(self: World) -> None:
        self.dead = self.process  # type: ignore[attr-defined]
        crash(self)

    patch.setattr(World, "start", start)
    patch.setattr(World, "crash", stop)


@mutation("9", windows_in_flight=4, chunk_docs=1, crash=0.02)
def chunks_close_out_of_order(patch: pytest.MonkeyPatch) -> None:
    def closable(windows: Any, scans: Any, end: Any, limits: Any) -> list[Window]:
        return [w for w in windows.values() if w.closes_by(end)]

    patch.setattr(batches, "closable", closable)


@mutation("9", buffers_lost=0.5, windows_in_flight=4, chunk_docs=1)
def windows_behind_a_lost_one_close(patch: pytest.MonkeyPatch) -> None:
    def without(landing: eff.LandBatch, lost: frozenset[WindowId]) -> eff.LandBatch:
        return replace(landing, closings=tuple(c for c in landing.closings if c.window.id not in lost))

    patch.setattr(batches, "without", without)


# Rule 12: first loads and append


@mutation("12", preloaded=0.9, requests=4)
def a_first_load_into_a_table_that_holds_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        TaskProgress,
        "begun",
        lambda self, table_empty: replace(self, state=TaskState.RUNNING, first_load=True),
    )


@mutation(
    "12",
    read_fails=0.3,
    attempts=6,
    collation=0.0,
    writes=0.4,
    windows_in_flight=4,
    preloaded=0.9,
    chunk_docs=1,
)
def a_second_attempt_is_proven_new(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(batches, "_proven_new", lambda window, upto: isinstance(window.target, KeyRange))


@mutation("12", collation=0.0, writes=0.5, preloaded=0.3, windows_in_flight=4)
def an_id_that_streamed_in_ahead_of_the_read_is_appended(patch: pytest.MonkeyPatch) -> None:
    original = process.commit_rows
    patch.setattr(process, "commit_rows", lambda *b, **more: original(*b, **more | {"proven_new": False}))


@mutation(
    "12",
    crash=0.05,
    collation=0.0,
    writes=0.2,
    preloaded=0.9,
    chunk_docs=1,
    filtered=0.0,
    missing=0.0,
    drops=0.0,
)
def what_an_earlier_run_landed_is_unreached(patch: pytest.MonkeyPatch) -> None:
    original = Process.arrive

    def arrive(self: Process, *batch: int) -> Any:
        events, arrived = original(self, *batch)
        return events, replace(arrived, landed_upto={})

    patch.setattr(Process, "arrive", arrive)


@mutation("12", collation=0.0, writes=0.5, preloaded=0.6, chunk_docs=1)
def events_within_windows_in_flight_do_not_land(patch: pytest.MonkeyPatch) -> None:
    def unreached(self: Machine) -> Any:
        tasks = [task for _, task in queue.first_loads(self.progress)]
        return batches.unreached(
            tasks, {task.namespace: task.frontier for task in tasks}, self.scheduler.landed_upto
        )

    patch.setattr(Machine, "_unreached", unreached)


@mutation(
    "12", missing=0.9, collation=0.0, writes=0.15, preloaded=0.9, requests=4, crash=0.02, mode="post-image"
)
def single_ids_land_ahead_of_a_first_load(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Machine, "_leave_to_first_loads", lambda self, unreached: [])


@mutation("12", collation=0.0, writes=0.5, preloaded=0.6, keys=20)
def a_scan_ends_at_the_last_document_found(patch: pytest.MonkeyPatch) -> None:
    original = Scan.plan

    def plan(self: Scan, bounds: Any, *, exhausted: bool) -> None:
        if exhausted and not bounds:
            self.planning, self.exhausted = False, True
            return
        original(self, bounds, exhausted=False)
        self.exhausted = self.exhausted or exhausted

    patch.setattr(Scan, "plan", plan)


@mutation("5", writes=0.5, preloaded=0.6)
def the_largest_id_is_read_before_the_stream_begins(patch: pytest.MonkeyPatch) -> None:
    original = Process.open_collection
    patch.setattr(
        Process, "open_collection", lambda self, ask: original(self, replace(ask, after_time=at(0)))
    )


# Rule 11: an error leaves everything in a state that goes on


@mutation("11", drain=0.05, read_fails=0.3, attempts=6, windows_in_flight=4)
def a_chunk_that_failed_waits_while_draining(patch: pytest.MonkeyPatch) -> None:
    original = Scan.take
    patch.setattr(
        Scan, "take", lambda self, begun_only=False: None if begun_only else original(self, begun_only=False)
    )


@mutation("11", missing=0.4, writes=0.5)
def ids_to_read_again_are_forgotten_when_their_window_fails(patch: pytest.MonkeyPatch) -> None:
    original = Machine._fail_window

    def fail(self: Machine, window: Window, error: str, **kind: bool) -> list[eff.Effect]:
        if isinstance(window.target, KeyList):
            keys = frozenset(b.key for b in window.target.ids)
            self.scheduler.progress = self.progress.without_rereads(window.namespace, keys)
        return original(self, window, error, **kind)

    patch.setattr(Machine, "_fail_window", fail)

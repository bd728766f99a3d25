"""What an engine says of itself: gathered from its run, written now and then, never in the way of the data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from snapshotter.core.values.chunks import Bound, KeyRange
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.core.values.window import Window, WindowId
from snapshotter.engine import engine_status
from snapshotter.engine.engine_status import Speed, StatusWriter
from snapshotter.engine.run import Run
from snapshotter.engine.source_head import SourceHead
from snapshotter.errors import ConfigurationError
from snapshotter.reporting.outcomes import Refused
from snapshotter.reporting.status import STATUS_FILE, EngineState, RequestState, Status, TableReport
from snapshotter.state.process import Owner
from snapshotter.state.storage import MemoryStorage, StorageError
from streaming.delta.row_writer import By, Choice
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

ORDERS, PEOPLE = Namespace("shop", "orders"), Namespace("shop", "people")
REQUEST = SnapshotRequest("r1", (Wanted(ORDERS), Wanted(PEOPLE)))
OWNER = Owner("host", 42, "place", "start")


def at(head: ClusterTime) -> SourceHead:
    found = SourceHead()
    found.look(head)
    return found


@dataclass
class RunStub:
    """The few things that a status asks of a run."""

    progress: Progress
    id: str = "a1"
    events: int = 5
    head: SourceHead = field(default_factory=lambda: at(ClusterTime(110, 0)))
    windows: tuple[Window, ...] = ()
    written_by: dict[Namespace, Choice] = field(default_factory=dict)
    lands_in: float | None = None
    machine: object = None

    @property
    def pacing(self) -> Any:
        return SimpleNamespace(lands_in=lambda _: self.lands_in)


@dataclass
class Clock:
    now: float = 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    # The module's own: other threads of this process go by the real one.
    monkeypatch.setattr(engine_status, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def run_of(progress: Progress, **more: Any) -> Run:
    return cast(Run, RunStub(progress, **more))


def written(storage: MemoryStorage) -> Status:
    text = storage.read_text(STATUS_FILE)
    assert text is not None
    return Status.from_json(text)


def half_done(rows: int) -> RequestProgress:
    """The first collection runs, the second waits."""
    request = RequestProgress.accepted(REQUEST)
    task = request.tasks[0].opened(Bound(b"z", "z"), 1_000, ordered_keys=True).begun(table_empty=True)
    return request.with_task(task.advanced(Bound(b"a", "a"), Outcome(rows, 10)))


def test_before_the_first_batch_there_is_no_position(clock: Clock) -> None:
    """Requests that wait in the journal are shown as queued."""
    storage = MemoryStorage()
    StatusWriter("shop", OWNER, storage).write(EngineState.RUNNING, None, [REQUEST], [])
    status = written(storage)
    assert (status.name, status.pid, status.host, status.state) == ("shop", 42, "host", EngineState.RUNNING)
    assert (status.batch, status.position, status.lag_seconds, status.run_id) == (None, None, None, None)
    assert [(r.id, r.state) for r in status.requests] == [("r1", RequestState.QUEUED)]


def test_progress_lag_speed_and_what_is_left(clock: Clock) -> None:
    """From two looks ten seconds apart."""
    storage = MemoryStorage()
    writer = StatusWriter("shop", OWNER, storage)
    window = Window(
        WindowId("a1", 3), "r1", ORDERS, KeyRange(None, None), None, 0, ClusterTime(1, 0), True, rows=7
    )
    for rows, events in ((90, 5), (290, 55)):
        progress = Progress(4, ClusterTime(100, 2), (half_done(rows),))
        writer.write(EngineState.RUNNING, run_of(progress, events=events, windows=(window,)), [REQUEST], [])
        clock.now += 10
    status = written(storage)
    assert (status.batch, status.lag_seconds, status.run_id) == (4, 10, "a1")
    assert (status.events_total, status.events_per_second) == (55, 5.0)
    (request,) = status.requests
    assert request.state is RequestState.RUNNING
    orders, people = request.collections
    assert (orders.rows, orders.dropped, orders.chunks_done, orders.estimated_total) == (290, 10, 1, 1_000)
    assert (orders.rows_per_second, orders.eta_seconds) == (20.0, 35.0)
    assert people.state is RequestState.QUEUED
    assert [(w.number, w.collection, w.rows) for w in status.windows] == [(3, "shop.orders", 7)]


def test_it_says_until_when_changes_wait(clock: Clock) -> None:
    """Where a landing is put off; else, and before the first batch, nothing."""
    storage = MemoryStorage()
    writer = StatusWriter("shop", OWNER, storage)
    for batch, lands_in, waits in ((-1, 30.0, False), (4, 30.0, True), (4, None, False)):
        progress = Progress(batch, ClusterTime(100, 2), ())
        writer.write(EngineState.RUNNING, run_of(progress, lands_in=lands_in), [], [])
        clock.now += 10
        at = written(storage).next_landing_at
        assert (at is not None) == waits
        if at is not None:
            assert 25 < (at - datetime.now(UTC)).total_seconds() <= 30


def test_how_tables_are_written(clock: Clock) -> None:
    """By which writer, and why; of those that have landed."""
    storage = MemoryStorage()
    written_by = {PEOPLE: Choice(By.MERGE, "x is off", slower=True), ORDERS: Choice(By.UPSERT, "it is empty")}
    StatusWriter("shop", OWNER, storage).write(
        EngineState.RUNNING, run_of(Progress(4, ClusterTime(1, 0)), written_by=written_by), [], []
    )
    orders, people = written(storage).tables
    assert orders == TableReport(collection="shop.orders", written_by="upsert", reason="it is empty")
    assert (people.written_by, people.reason, people.slower) == ("merge", "x is off", True)


def test_how_requests_end(clock: Clock) -> None:
    """Completed, stopped, failed with the error of each collection, or rejected with the reason; with an error comes
    what to do next. A paused one has not ended."""
    storage = MemoryStorage()
    failed = half_done(5)
    failed = failed.with_task(failed.tasks[0].failed("out of order"))
    failed = failed.with_task(failed.tasks[1].failed("gone"))
    done = RequestProgress.accepted(SnapshotRequest("r2", (Wanted(ORDERS),)))
    done = done.with_task(done.tasks[0].opened(None, 0, ordered_keys=True))
    paused, stopped = (
        RequestProgress.accepted(SnapshotRequest(name, (Wanted(PEOPLE),))) for name in ("r3", "r4")
    )
    paused, stopped = replace(paused, paused=True), stopped.with_task(stopped.tasks[0].stopped())
    progress = Progress(4, ClusterTime(100, 2), (failed, done, paused, stopped))
    writer = StatusWriter("shop", OWNER, storage)
    writer.write(
        EngineState.STOPPED, run_of(progress), [], [Refused("bad", "no such collection", datetime.now(UTC))]
    )
    states = {r.id: (r.state, r.error, r.completed_at is not None) for r in written(storage).requests}
    assert states == {
        "r1": (RequestState.FAILED, "shop.orders: out of order; shop.people: gone", True),
        "r2": (RequestState.COMPLETED, None, True),
        "r3": (RequestState.PAUSED, None, False),
        "r4": (RequestState.STOPPED, None, True),
        "bad": (RequestState.REJECTED, "no such collection", True),
    }
    next_steps = {r.id: r.next_step or "" for r in written(storage).requests}
    assert "resume-snapshot for request r1" in next_steps["r1"]
    assert "under a new id" in next_steps["bad"]
    assert next_steps["r2"] == next_steps["r3"] == ""


def test_written_once_a_second_and_at_every_change_of_state(clock: Clock) -> None:
    """An error, and another state, are told at once."""
    storage = MemoryStorage()
    writer = StatusWriter("shop", OWNER, storage)

    def look(state: EngineState = EngineState.RUNNING, error: BaseException | None = None) -> Status | None:
        storage.delete(STATUS_FILE)
        writer.write(state, None, [], [], error)
        text = storage.read_text(STATUS_FILE)
        return None if text is None else Status.from_json(text)

    assert look() is not None
    clock.now += 0.5
    assert look() is None
    clock.now += 0.6
    assert look() is not None
    told = look(error=ConfigurationError("wrong", "set it right"))
    assert told is not None
    assert told.error is not None
    assert (told.error.kind, told.error.message, told.error.next_step) == (
        "ConfigurationError",
        "wrong",
        "set it right",
    )
    clock.now += 1.1
    later = look()
    assert later is not None
    assert later.error is None
    assert later.last_error == told.error, "whoever looks between two failures sees it too"
    assert look(EngineState.STOPPED) is not None


def test_another_life_of_the_engine_knows_when_requests_came_and_ended(clock: Clock) -> None:
    """And how fast the newest snapshot was, for the next dry run; what was wrong in that life, it does not say."""
    storage = MemoryStorage()
    failed = half_done(5).with_task(half_done(5).tasks[0].failed("gone"))
    failed = failed.with_task(failed.tasks[1].failed("gone"))
    writer = StatusWriter("shop", OWNER, storage)
    writer.speed.newest = 1_234.5
    writer.write(EngineState.FAILED, run_of(Progress(4, requests=(failed,))), [], [], ValueError("wrong"))
    before = written(storage).requests[0]
    assert before.accepted_at is not None
    again = StatusWriter("shop", OWNER, storage)
    assert again.speed.newest == 1_234.5
    again.write(EngineState.RUNNING, None, [], [])
    again.write(EngineState.STOPPED, run_of(Progress(4, requests=(failed,))), [], [])
    after = written(storage)
    assert (after.requests[0].accepted_at, after.requests[0].completed_at) == (
        before.accepted_at,
        before.completed_at,
    )
    assert (after.last_error, after.snapshot_speed) == (None, 1_234.5)


def test_a_status_file_that_is_none_is_written_anew(clock: Clock) -> None:
    """It is a report: an engine starts without it."""
    storage = MemoryStorage()
    storage.write_text(STATUS_FILE, "{half")
    StatusWriter("shop", OWNER, storage).write(EngineState.RUNNING, None, [REQUEST], [])
    assert written(storage).requests[0].accepted_at is not None


def test_a_collection_that_lands_at_once_has_a_speed_too(clock: Clock) -> None:
    """It shows at its end alone: since it was first looked at."""
    writer = StatusWriter("shop", OWNER, MemoryStorage())
    for rows, ended in ((0, False), (19_990, True), (19_990, True)):
        request = half_done(rows)
        tasks = [task.failed("gone") if ended else task for task in request.tasks]
        writer.write(
            EngineState.RUNNING, run_of(Progress(requests=(replace(request, tasks=tuple(tasks)),))), (), ()
        )
        clock.now += 10
    assert writer.speed.newest == 1_999.0


def test_the_time_in_which_a_collection_waits_or_is_paused_is_no_part_of_its_speed(clock: Clock) -> None:
    """It queues for an hour, is paused for another, and lands at once."""
    writer = StatusWriter("shop", OWNER, MemoryStorage())
    queued, begun = RequestProgress.accepted(REQUEST), half_done(0)
    ended = half_done(19_990)
    ended = replace(ended, tasks=tuple(task.failed("gone") for task in ended.tasks))
    for request, seconds in ((queued, 3_600), (replace(begun, paused=True), 3_600), (begun, 10), (ended, 1)):
        writer.write(EngineState.RUNNING, run_of(Progress(requests=(request,))), (), ())
        clock.now += seconds
    assert writer.speed.newest == 1_999.0


def test_what_is_wrong_now_is_said_until_it_is_over(clock: Clock) -> None:
    """Once a second, with the time at which it came."""
    storage = MemoryStorage()
    writer, error = StatusWriter("shop", OWNER, storage), ValueError("wrong")
    writer.write(EngineState.RUNNING, None, [], [], error)
    first = written(storage)
    clock.now += 0.5
    writer.write(EngineState.RUNNING, None, [], [], error)
    assert written(storage).updated_at == first.updated_at
    clock.now += 0.6
    writer.write(EngineState.RUNNING, None, [], [], error)
    later = written(storage)
    assert later.updated_at != first.updated_at
    assert later.error == first.error
    writer.write(EngineState.RUNNING, None, [], [])
    assert (written(storage).error, written(storage).last_error) == (None, first.error)


def test_lives_that_end_before_their_first_batch_forget_nothing(clock: Clock) -> None:
    """What has ended is in the file all the time, with its times."""
    storage = MemoryStorage()
    failed = half_done(5)
    failed = replace(failed, tasks=tuple(task.failed("gone") for task in failed.tasks))
    StatusWriter("shop", OWNER, storage).write(
        EngineState.STOPPED, run_of(Progress(4, requests=(failed,))), [], []
    )
    (before,) = written(storage).requests
    for _ in range(2):
        StatusWriter("shop", OWNER, storage).write(EngineState.STOPPED, None, [], [])
        assert written(storage).requests == (before,)
    StatusWriter("shop", OWNER, storage).write(EngineState.RUNNING, run_of(Progress(5)), [], [])
    assert written(storage).requests == ()


def test_another_run_of_the_same_life_knows_requests_before_its_first_batch(clock: Clock) -> None:
    """It has loaded nothing yet: what the run before has reported is shown until then, and forgotten with it."""
    storage = MemoryStorage()
    writer = StatusWriter("shop", OWNER, storage)
    writer.write(EngineState.RUNNING, run_of(Progress(4, requests=(half_done(5),))), [], [])
    clock.now += 10
    writer.write(EngineState.RUNNING, run_of(Progress(), id="b2"), [], [])
    assert [r.id for r in written(storage).requests] == ["r1"]
    clock.now += 10
    writer.write(EngineState.RUNNING, run_of(Progress(5), id="b2"), [], [])
    assert written(storage).requests == ()


def test_a_status_that_cannot_be_written_stops_nothing(clock: Clock) -> None:
    """It is a report; the checkpoint's own writes fail if the place is really gone."""

    class Broken(MemoryStorage):
        def write_text(self, name: str, text: str) -> None:
            raise StorageError("the disk is full")

    StatusWriter("shop", OWNER, Broken()).write(EngineState.RUNNING, None, [], [])


def test_what_nobody_remembers_is_not_kept(clock: Clock) -> None:
    """Of requests that progress has let go of, nothing stays; those that stay keep their times."""
    storage = MemoryStorage()
    writer = StatusWriter("shop", OWNER, storage)
    before: dict[str, datetime | None] = {}
    for first in range(0, 300, 100):
        wanted = [SnapshotRequest(f"r{n}", (Wanted(ORDERS),)) for n in range(first, first + 101)]
        requests = [RequestProgress.accepted(request) for request in wanted]
        running = [r.with_task(r.tasks[0].opened(Bound(b"z", "z"), 9, ordered_keys=True)) for r in requests]
        writer.write(EngineState.RUNNING, run_of(Progress(first, requests=tuple(running))), [], [])
        times = {r.id: r.accepted_at for r in written(storage).requests}
        assert {name: times[name] for name in times.keys() & before} == {
            name: before[name] for name in times.keys() & before
        }
        before = times
        clock.now += 10
    assert len(writer.times) == 101
    assert len(writer._speeds) == 102


def test_speed_is_of_the_last_seconds() -> None:
    """What was long ago does not count; one look, or none that moved, is no speed."""
    speed = Speed()
    assert speed.at(0.0, 100) == 0.0
    assert speed.at(0.0, 200) == 0.0
    assert speed.at(10.0, 300) == 20.0
    for second in range(11, 41):
        last = speed.at(float(second), 300)
    assert last == 0.0


def test_pauses_are_counted(clock: Clock) -> None:
    """All of a request's pauses together, to the second that is looked at; not what comes after its end."""
    storage = MemoryStorage()
    writer = StatusWriter("shop", OWNER, storage)
    found = []
    stopped = replace(half_done(0).with_task(half_done(0).tasks[0].stopped()), paused=True)
    ended = stopped.with_task(stopped.tasks[1].stopped())
    for paused, seconds in ((False, 5), (True, 30), (False, 7), (True, 2.5)):
        writer.write(
            EngineState.RUNNING, run_of(Progress(requests=(replace(half_done(0), paused=paused),))), (), ()
        )
        found.append(written(storage).requests[0].paused_seconds)
        clock.now += seconds
    for _ in range(2):
        writer.write(EngineState.RUNNING, run_of(Progress(requests=(ended,))), (), ())
        found.append(written(storage).requests[0].paused_seconds)
        clock.now += 60
    assert found == [0, 0, 30, 30, 32.5, 32.5]


@pytest.mark.parametrize(("rows", "speed"), [(9_989, None), (9_990, 999.0)])
def test_a_speed_is_believed_from_ten_thousand_documents_on(
    clock: Clock, rows: int, speed: float | None
) -> None:
    """What a dry run estimates by: READs that were superseded have been read too, so they count."""
    writer = StatusWriter("shop", OWNER, MemoryStorage())
    for so_far in (0, rows):
        writer.write(EngineState.RUNNING, run_of(Progress(requests=(half_done(so_far),))), (), ())
        clock.now += 10
    assert writer.speed.newest == speed


def test_a_speed_is_never_below_zero() -> None:
    """Another run of the engine counts from zero."""
    speed = engine_status.Speed()
    assert [speed.at(now, value) for now, value in enumerate([0, 10, 0, 4])] == [0, 10, 0, 4]

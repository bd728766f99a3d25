"""What an engine does after it has failed, by a clock that the test turns: restarts, their count, and its health."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from pymongo.errors import AutoReconnect

from snapshotter.configuration.patience import RestartPolicy
from snapshotter.engine.idling import Idling
from snapshotter.engine.recovery import Recovery
from snapshotter.errors import DefiniteError, GaveUp
from snapshotter.reporting.health import Health, health_of
from snapshotter.reporting.status import EngineState, RestartReport, Status
from snapshotter.state.storage import MemoryStorage, StorageError

MINUTE = 60_000
ON = RestartPolicy(enabled=True)


def gave_up(text: str = "the network is down") -> GaveUp:
    error = GaveUp(f"gave up after 3 retries: {text}")
    error.__cause__ = AutoReconnect(text)
    return error


@dataclass
class World:
    """An engine's life, and the time it takes. ``lives`` are run one after another; the last may end well."""

    policy: RestartPolicy = ON
    storage: MemoryStorage = field(default_factory=MemoryStorage)
    now: int = 1_000_000
    waits: list[int] = field(default_factory=list)
    told: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    states: list[EngineState] = field(default_factory=list)
    by_hand: bool = False
    former: Status | None = None

    def __post_init__(self) -> None:
        self.stop = threading.Event()
        self.recovery = Recovery(
            self.policy,
            self.storage,
            lambda health, data: self.told.append((health, data)),
            former=self.former,
            now_ms=lambda: self.now,
        )
        self.recovery.begin()

    def keep_going(self, *lives: Callable[[], object]) -> None:
        left = iter(lives)

        def live() -> None:
            next(left)()

        self.recovery.keep_going(live, self.idling(), self.report)

    def idling(self) -> Idling:
        """Nobody waits: the clock jumps to the end."""
        world = self

        class Jumping(Idling):
            __slots__ = ()

            def wait(self, seconds: float, report: Callable[[], object]) -> None:
                report()
                if not world.by_hand:
                    world.waits.append(round(seconds * 1_000))
                    world.now += round(seconds * 1_000)

        return Jumping(self.stop, lambda: self.by_hand, lambda: None, lambda: None, lambda: 0.5)

    def report(self, state: EngineState, error: Exception) -> None:
        self.states.append(state)
        self.fields = self.recovery.look(state, paused=False)

    def restarts(self) -> RestartReport:
        found = self.recovery.look(EngineState.RUNNING, paused=False)["restarts"]
        assert isinstance(found, RestartReport)
        return found


def fails(error: Exception | None = None) -> Callable[[], object]:
    def life() -> None:
        raise error or gave_up()

    return life


def test_seven_restarts_and_then_the_end() -> None:
    """After 0, 2, 6, 12, 20, 30 and 42 minutes; then the error that ended it is raised."""
    world = World()
    with pytest.raises(GaveUp, match="the network is down"):
        world.keep_going(*[fails()] * 8)
    assert world.waits == [n * MINUTE for n in (0, 2, 6, 12, 20, 30, 42)]
    assert world.restarts().count == 7
    assert world.states == [EngineState.FAILED] * 7


def test_without_the_option_the_engine_ends_at_once() -> None:
    """As it always did."""
    world = World(RestartPolicy())
    with pytest.raises(GaveUp):
        world.keep_going(fails())
    assert world.waits == []


@pytest.mark.parametrize(
    "error",
    [
        DefiniteError("no such table"),
        ValueError("a defect"),
        GaveUp("Spark's session is gone", condition="spark-lost"),
    ],
    ids=repr,
)
def test_what_a_restart_cannot_cure_ends_it_at_once(error: Exception) -> None:
    """However many restarts are left."""
    world = World()
    with pytest.raises(type(error)):
        world.keep_going(fails(error))
    assert world.waits == []


def test_the_status_says_when_the_restart_comes() -> None:
    """Broken, with the count, the bound, the time of the last one and of the next."""
    world = World()
    world.keep_going(fails(), fails(), lambda: None)
    report = world.fields["restarts"]
    assert isinstance(report, RestartReport)
    assert world.fields["health"] == "Broken"
    assert (report.enabled, report.count, report.most) == (True, 1, 7)
    assert report.next_at is not None
    assert report.last_at is not None
    assert report.next_at.timestamp() * 1_000 == world.now
    assert world.restarts().next_at is None


def test_the_count_outlives_the_process() -> None:
    """Another process of the engine goes on counting, and only health sets it back."""
    world = World()
    with pytest.raises(GaveUp):
        world.keep_going(*[fails()] * 8)
    again = World(storage=world.storage)
    assert again.restarts().count == 7
    with pytest.raises(GaveUp):
        again.keep_going(fails())
    assert again.waits == []


def test_health_for_long_enough_sets_the_count_back() -> None:
    """Two restarts are forgotten after six healthy minutes, durably; the time of the last one stays."""
    world = World()
    world.keep_going(fails(), fails(), lambda: None)
    world.recovery.landed()
    world.now += 6 * MINUTE - 1
    world.recovery.landed()
    assert world.restarts().count == 2
    world.now += 1
    world.recovery.landed()
    assert world.restarts().count == 0
    assert World(storage=world.storage).restarts().count == 0
    assert world.restarts().last_at is not None


def test_a_failure_in_between_begins_the_time_of_health_anew() -> None:
    """A run that fails and is retried was not healthy."""
    world = World()
    world.keep_going(fails(), lambda: None)
    world.recovery.landed()
    world.now += MINUTE
    world.recovery.failed(AutoReconnect("x"))
    world.recovery.landed()
    world.now += MINUTE
    world.recovery.landed()
    assert world.restarts().count == 1
    world.now += MINUTE
    world.recovery.landed()
    assert world.restarts().count == 0


def test_a_restart_by_hand_does_not_wait_and_is_not_counted() -> None:
    """Whoever restarts it has done something about it; the next failure goes on from the same count."""
    world = World()
    world.keep_going(fails(), fails(), lambda: None)
    assert world.restarts().count == 2
    world.by_hand = True
    world.keep_going(fails(), lambda: None)
    assert world.restarts().count == 2
    assert world.restarts().next_at is None


def test_a_stop_ends_the_wait() -> None:
    """Cleanly: no restart comes, and nothing is raised."""
    world = World()

    def life() -> None:
        world.stop.set()
        raise gave_up()

    with pytest.raises(GaveUp):
        world.keep_going(life)  # it was to stop already, and failed at that
    world.stop.clear()
    asked = World()
    asked.report = lambda state, error: asked.stop.set()  # type: ignore[method-assign]
    asked.keep_going(fails())
    assert asked.restarts().count == 0


def test_a_change_of_health_is_announced_once() -> None:
    """Broken at the first failure, with class, state, next step and error; Active once a run has landed a batch, and
    not with each attempt in between."""
    world = World()
    for _ in range(3):
        world.recovery.failed(AutoReconnect("mongodb://me:pw@h/ is down"))
        world.recovery.look(EngineState.RUNNING, paused=False)
        world.recovery.look(EngineState.RUNNING, paused=False)
    world.recovery.landed()
    world.recovery.look(EngineState.RUNNING, paused=False)
    assert [health for health, _ in world.told] == ["Broken", "Active"]
    data = world.told[0][1]
    assert (data["failure"], data["condition"], data["state"]) == (
        "connection",
        "source-unreachable",
        "running",
    )
    assert "mongodb.connection.string" in data["next_step"]
    assert "pw" not in data["error"]


def test_a_pause_of_the_stream_is_announced_and_its_end() -> None:
    """Paused at once, Active when data flows."""
    world = World()
    world.recovery.landed()
    world.recovery.look(EngineState.RUNNING, paused=True)
    world.recovery.look(EngineState.RUNNING, paused=False)
    assert [health for health, _ in world.told] == ["Paused", "Active"]


def test_a_start_and_a_stop_announce_nothing() -> None:
    """Health does not change by them for anybody who did not ask for it."""
    world = World()
    for state in (EngineState.STARTING, EngineState.RUNNING, EngineState.STOPPING, EngineState.STOPPED):
        world.recovery.look(state, paused=False)
    assert world.told == []


def test_a_process_that_follows_a_broken_one_announces_that_it_is_well() -> None:
    """Once it has landed a batch, and not before."""
    world = World(former=Status(name="shop", state=EngineState.FAILED, health="Broken"))
    world.recovery.look(EngineState.RUNNING, paused=False)
    assert world.told == []
    world.recovery.landed()
    world.recovery.look(EngineState.RUNNING, paused=False)
    assert [health for health, _ in world.told] == ["Active"]


@pytest.mark.parametrize("text", ["{}", "no JSON", json.dumps({"format": 9, "restarts": 1, "last_ms": 1})])
def test_a_count_that_cannot_be_read_is_no_count(text: str) -> None:
    """The file is named, and what to do."""
    storage = MemoryStorage()
    storage.write_text("restarts.json", text)
    with pytest.raises(StorageError, match=r"restarts\.json.*delete it"):
        World(storage=storage)


@pytest.mark.parametrize("state", EngineState)
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("paused", [False, True])
def test_every_state_has_a_health(state: EngineState, broken: bool, paused: bool) -> None:
    """Broken goes before paused, and what has ended is one of the two."""
    health = health_of(state, broken=broken, paused=paused)
    if state is EngineState.FAILED:
        assert health is Health.BROKEN
    elif state is EngineState.STOPPED:
        assert health is Health.PAUSED
    else:
        assert (health is Health.BROKEN) == broken
        assert (health is Health.ACTIVE) == (not broken and not paused)

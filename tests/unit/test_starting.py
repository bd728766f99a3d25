"""Starts that fail, by a clock that the test turns: which are tried again, when, under which name, and what is said."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from snapshotter.configuration.patience import RestartPolicy
from snapshotter.engine import starting
from snapshotter.engine.idling import Idling
from snapshotter.engine.kept_lock import KeptLock
from snapshotter.engine.recovery import Recovery
from snapshotter.engine.starting import Starts
from snapshotter.errors import ConfigurationError, DefiniteError, GaveUp, Stopped, describe
from snapshotter.reporting.status import EngineState, RestartReport
from snapshotter.state.lock import EngineLock, LockHeldError, LockLostError
from snapshotter.state.process import Owner
from snapshotter.state.storage import MemoryStorage, StorageError

MINUTE = 60_000
ON = RestartPolicy(enabled=True)


class Storage(MemoryStorage):
    """May be out of reach."""

    away = False
    fails = 0

    def write_text(self, name: str, text: str) -> None:
        self._there("write", name)
        super().write_text(name, text)

    def create_text(self, name: str, text: str) -> bool:
        self._there("create", name)
        return super().create_text(name, text)

    def _there(self, what: str, name: str) -> None:
        if self.away:
            raise StorageError(f"cannot {what} {name!r} in memory: Stale file handle")


@dataclass
class World:
    """A start, and the time it takes. ``said``: the states of the status, with the restart that it tells of."""

    policy: RestartPolicy = ON
    storage: Storage = field(default_factory=Storage)
    process: str = "a"
    now: int = 1_000_000
    waits: list[int] = field(default_factory=list)
    said: list[tuple[EngineState, object, bool]] = field(default_factory=list)
    closed: int = 0

    def __post_init__(self) -> None:
        world, self.stop = self, threading.Event()
        self.recovery = Recovery(self.policy, self.storage, lambda *told: None, now_ms=lambda: self.now)
        owner = Owner("here", 1, self.process, None)
        self.lock = EngineLock(self.storage, "shop", owner, lambda: self.now)
        self.starts = Starts(self.recovery, KeptLock(self.lock), self.stop, self.report, self.close)

        class Jumping(Idling):
            __slots__ = ()

            def wait(self, seconds: float, report: Callable[[], object]) -> None:
                report()
                world.waits.append(round(seconds * 1_000))
                world.now += round(seconds * 1_000)

        idling = self.starts.idling
        self.starts.idling = Jumping(idling.stop, idling.woken, idling.keep, idling.look, idling.poll)

    def report(self, state: EngineState, error: BaseException | None) -> None:
        found = self.recovery.look(state, paused=False)
        restarts = found["restarts"]
        assert isinstance(restarts, RestartReport)
        self.said.append((state, found["health"], restarts.next_at is not None))

    def close(self) -> None:
        self.closed += 1

    def start(self, *attempts: BaseException | None, named: bool = True) -> None:
        """Each attempt fails with its error; ``named``: once it has the engine's name."""
        left = iter(attempts)

        def start() -> None:
            if named:
                self.starts.take_name()
            if (error := next(left)) is not None:
                raise error

        self.starts.keep_starting(start)


def no_memory() -> Exception:
    return OSError(12, "Cannot allocate memory")


def test_a_start_is_tried_again_as_a_failed_engine_is() -> None:
    """At once, after 2 and 6 minutes; broken, with the time of the next attempt, under the engine's name. The count is
    durable."""
    world = World()
    world.start(no_memory(), no_memory(), StorageError("cannot list: Stale file handle"), None)
    assert world.waits == [0, 2 * MINUTE, 6 * MINUTE]
    assert world.said == [(EngineState.FAILED, "Broken", True)] * 3
    assert world.lock.token == 1
    assert world.closed == 3
    assert json.loads(world.storage.read_text("restarts.json") or "")["restarts"] == 3


def test_a_start_that_waits_before_it_has_its_name_takes_it() -> None:
    """As where MongoDB does not answer: the status says so, and earlier lives' restarts count."""
    storage = Storage()
    World(storage=storage).start(no_memory(), no_memory(), None)
    world = World(storage=storage, process="b", now=10**9)
    world.start(no_memory(), None, named=False)
    assert world.waits == [6 * MINUTE]
    assert world.said == [(EngineState.FAILED, "Broken", True)]
    assert world.lock.token == 2


def test_where_the_state_cannot_be_reached_it_waits_without_a_status() -> None:
    """The restarts are counted in the process, and kept as soon as that can be done."""
    world = World()
    world.storage.away = True

    def back() -> None:
        if len(world.waits) == 2:
            world.storage.away = False
        world.starts.take_name()

    world.starts.keep_starting(back)
    assert world.waits == [0, 2 * MINUTE]
    assert world.said == []
    assert world.recovery.restarts == 2
    assert json.loads(world.storage.read_text("restarts.json") or "")["restarts"] == 2
    assert world.lock.token is not None


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError("an option is wrong"),
        DefiniteError("no privilege", condition="source-denied"),
        PermissionError(13, "Permission denied"),
        RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."),
        ValueError("a defect"),
    ],
    ids=repr,
)
def test_what_a_restart_cannot_cure_ends_the_start(error: Exception) -> None:
    """At once, with its own error; the name is let go."""
    world = World()
    with pytest.raises(type(error)) as raised:
        world.start(error)
    assert raised.value is error
    assert (world.waits, world.lock.token) == ([], None)
    assert world.said == [(EngineState.FAILED, "Broken", False)]


def test_another_engine_of_the_name_is_never_waited_for() -> None:
    """Nor is anything written under its name."""
    storage = Storage()
    World(storage=storage).start(None)
    world = World(storage=storage, process="b")
    with pytest.raises(LockHeldError):
        world.start(None)
    with pytest.raises(LockHeldError):
        world.start(no_memory(), named=False)
    assert (world.waits, world.said) == ([], [])


def test_a_name_that_another_engine_has_taken_over_meanwhile_ends_the_start() -> None:
    """The wait for MongoDB may be longer than a lock lasts."""
    world = World()
    world.starts.take_name()
    later = World(storage=world.storage, process="b", now=world.now + 10 * MINUTE)
    later.starts.take_name()
    with pytest.raises(LockLostError):
        world.starts.take_name()


def test_what_earlier_lives_have_counted_is_read_once_the_state_is_there_again() -> None:
    """The lock may be had, and the count not be read."""
    storage = Storage()
    World(storage=storage).start(no_memory(), no_memory(), None)
    world = World(storage=storage, process="b", now=10**9)
    reads, storage.fails = storage.read_text, 1

    def read_text(name: str) -> str | None:
        if name == "restarts.json" and storage.fails:
            storage.fails -= 1
            raise StorageError("cannot read: Stale file handle")
        return reads(name)

    storage.read_text = read_text  # type: ignore[method-assign]
    world.start(None, None)
    assert world.recovery.begun
    assert world.recovery.restarts == 2, "as earlier lives, which is more than its own"


def test_attempts_come_to_an_end() -> None:
    """With the exit code of what may go well later, and the state that the last one was in."""
    world = World(RestartPolicy(enabled=True, most=2))
    with pytest.raises(GaveUp, match="gave up after 2 restarts") as raised:
        world.start(*[no_memory()] * 3)
    found = describe(raised.value)
    assert (found.condition, found.exit_code) == ("memory-short", 4)
    assert world.said[-1] == (EngineState.FAILED, "Broken", False)
    assert world.lock.token is None


def test_without_the_option_a_start_is_tried_once() -> None:
    """And nothing is written before preflight has passed."""
    world = World(RestartPolicy())
    with pytest.raises(OSError, match="memory"):
        world.start(no_memory(), named=False)
    assert (world.waits, world.said, world.storage.list_names("lock/shop")) == ([], [], [])


def test_a_stop_ends_the_wait() -> None:
    """It is no failure: the engine has not started. One that was to stop before takes no name at all."""
    world = World()
    world.starts.idling.stop.set()
    with pytest.raises(Stopped, match=starting.NOT_STARTED):
        world.start(no_memory())
    assert world.lock.token is None
    world = World()
    report = world.report

    def stop(state: EngineState, error: BaseException | None) -> None:
        report(state, error)
        world.stop.set()

    world.starts._report = stop
    with pytest.raises(Stopped, match=starting.NOT_STARTED):
        world.start(no_memory())
    assert world.said[-1][0] is EngineState.STOPPED
    assert world.lock.token is None

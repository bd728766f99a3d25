"""How a process ends its engine: what is said, what is waited for, and with which code it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from snapshotter.configuration.settings import Settings
from snapshotter.engine import assembly, engine_runner
from snapshotter.engine.engine_runner import End, Event, Life
from snapshotter.engine.interrupts import NOT_STARTED
from snapshotter.errors import EXIT_INTERRUPTED, EXIT_OK, Stopped
from snapshotter.reporting.status import EngineState, Position, Status, WindowReport
from snapshotter.reporting.views import SilentView

STOPPED = "stopped at 2023-11-14 22:13:20 UTC (position 1700000000.3)"


WINDOW = WindowReport(collection="shop.orders", number=1, state="reading")
SHOWN = Status(
    name="shop",
    state=EngineState.RUNNING,
    position=Position(t=1_700_000_000, i=3),
    windows=(WINDOW, WINDOW),
)


class Engine:
    """Does what ``life`` says, in the place of an engine: it is given the event that stops it."""

    def __init__(
        self, life: Callable[[threading.Event], None], stop: threading.Event, *, named: bool
    ) -> None:
        self._life, self._stop, self.named = life, stop, named
        self.status, self.newest, self.session, self.ours = self, SHOWN, self, False
        self.abandoned, self.run_state = False, None

    def run(self, *, once: bool) -> None:
        self._life(self._stop)

    def stop(self) -> None:
        """As a session, of which nothing is left."""

    def abandon(self) -> None:
        self.abandoned = True


class Hearing(SilentView):
    """Keeps what is announced."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def announce(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def hearing() -> Hearing:
    return Hearing()


def living(
    monkeypatch: pytest.MonkeyPatch,
    life: Callable[[threading.Event], None],
    *,
    named: bool = True,
    once: bool = False,
    made: list[Callable[[], object]] | None = None,
) -> Life:
    """An engine that has begun to live. ``made`` gets what makes its session."""

    def engine(spark: Callable[[], object], _config: object, _view: object, stop: threading.Event) -> Engine:
        if made is not None:
            made.append(spark)
        return Engine(life, stop, named=named)

    monkeypatch.setattr(engine_runner, "_made", engine)
    options: dict[str, Any] = {
        "name": "shop",
        "mongodb.connection.string": "mongodb://localhost/?replicaSet=rs",
        "delta.warehouse": "lake",
    }
    settings = Settings.from_options(options, {})
    begun = Life(settings, assembly.engine_config(settings), SilentView(), once=once)
    begun.start()
    return begun


def test_a_stop_lets_windows_land(monkeypatch: pytest.MonkeyPatch, hearing: Hearing) -> None:
    """How many is said, and then where it stopped."""
    end = engine_runner._stopped(living(monkeypatch, assert_set), hearing)
    assert hearing.said == ["stopping: 2 windows are landing (Ctrl+C again ends at once; nothing is lost)"]
    assert end == End(EXIT_OK, STOPPED)


def assert_set(stop: threading.Event) -> None:
    assert stop.wait(60)


def test_asked_again_it_ends_at_once(monkeypatch: pytest.MonkeyPatch, hearing: Hearing) -> None:
    """In the midst of what it does: the name is let go of, and the code says that it was interrupted."""
    over = threading.Event()
    life = living(monkeypatch, lambda _: assert_set(over))
    life.events.put(Event.ASKED)
    assert engine_runner._stopped(life, hearing) == End(EXIT_INTERRUPTED, STOPPED, at_once=True)
    assert life.engine is not None
    assert life.engine.abandoned  # type: ignore[attr-defined] # the stand-in's
    over.set()


@pytest.mark.parametrize("once", [True, False])
def test_a_run_that_ends_by_itself_has_a_jvm_of_a_short_life(
    monkeypatch: pytest.MonkeyPatch, *, once: bool
) -> None:
    """Only that one compiles once."""
    asked: list[bool] = []
    monkeypatch.setattr(assembly, "spark_session", lambda _settings, *, brief: asked.append(brief))

    def makes(_stop: threading.Event) -> None:
        made.pop()()

    made: list[Callable[[], object]] = []
    life = living(monkeypatch, makes, once=once, made=made)
    assert ended(life) == End()
    assert asked == [once]


def test_so_it_does_when_time_is_up(monkeypatch: pytest.MonkeyPatch, hearing: Hearing) -> None:
    """A clean end to whoever asked: what is under way is repeated."""
    monkeypatch.setattr(engine_runner, "STOP_SECONDS", 0.05)
    over = threading.Event()
    life = living(monkeypatch, lambda _: assert_set(over))
    end = engine_runner._stopped(life, hearing)
    assert end == End(EXIT_OK, f"{STOPPED}: the next start repeats what was under way", at_once=True)
    over.set()


def test_an_engine_without_its_name_has_nothing_to_end(
    monkeypatch: pytest.MonkeyPatch, hearing: Hearing
) -> None:
    """It may wait for a server that does not answer: nobody waits for that."""
    monkeypatch.setattr(engine_runner, "_UNTOUCHED_SECONDS", 0.05)
    over = threading.Event()
    life = living(monkeypatch, lambda _: assert_set(over), named=False)
    assert engine_runner._stopped(life, hearing) == End(EXIT_OK, NOT_STARTED, at_once=True)
    assert hearing.said == []
    over.set()


def test_what_ends_it_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except for a stop before it had started, which is none of its failures. Nothing is said of an end that nobody has
    asked for."""

    def fails(_: threading.Event) -> None:
        raise ValueError("no room")

    def stopped(_: threading.Event) -> None:
        raise Stopped(NOT_STARTED)

    with pytest.raises(ValueError, match="no room"):
        ended(living(monkeypatch, fails))
    assert ended(living(monkeypatch, stopped)) == End(words=NOT_STARTED)
    assert ended(living(monkeypatch, lambda _: None)) == End()


def ended(life: Life) -> End:
    assert life.events.get(timeout=60) is Event.ENDED
    return life.end()


def test_what_is_said_of_no_window_and_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is several; and where nothing has landed there is no position to name."""
    assert engine_runner.stopping(0) == "stopping (Ctrl+C again ends at once; nothing is lost)"
    assert engine_runner.stopping(1).startswith("stopping: 1 window is landing (")
    life = living(monkeypatch, assert_set)
    life.stop.set()
    life.join(60)
    assert life.engine is not None
    life.engine.status.newest = SHOWN.model_copy(update={"position": None})
    assert life.stopped_at() == "stopped"

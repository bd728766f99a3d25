"""Running an engine in the foreground: from settings to an exit code, with a clean end on SIGTERM and SIGINT.

The engine lives on a thread of its own, and the main one waits, for its end or for signals. So a signal interrupts
nothing: not a call of Spark's or of a driver's in the midst of what it does, nor a line that is being written.

    a signal          before the engine has its name: it has touched nothing, and ends at once
                      else: windows in flight land, and the batch under way (`Engine.stop`)
    another one       it ends at once
    ten seconds on    so it does: whatever is still under way is repeated by the next start

To end at once is what a crash does, and is as safe: the JVM is ended first, so that nothing can land any more, then the
engine's name is let go of.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from functools import partial
from queue import Empty, SimpleQueue

from pyspark.sql import SparkSession

from snapshotter import spark_start
from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.configuration.settings import Settings
from snapshotter.engine import assembly, preflight
from snapshotter.engine.connecting import reach
from snapshotter.engine.engine import Engine
from snapshotter.engine.idling import Idling
from snapshotter.engine.interrupts import NOT_STARTED, WAIT_SECONDS, told_of_signals
from snapshotter.engine.readiness import servers
from snapshotter.engine.recovery import Recovery
from snapshotter.engine.winding_up import all_of
from snapshotter.errors import EXIT_INTERRUPTED, EXIT_OK, Stopped
from snapshotter.reporting.status import EngineState, Status
from snapshotter.reporting.views import View
from snapshotter.state.storage import MemoryStorage
from snapshotter.state.storages import needs_spark
from streaming.mongo.deployment import connect
from streaming.positions import ClusterTime

STOP_SECONDS = 7.5
"""From the first signal on. With what it takes to end at once, an engine has stopped within ten seconds."""
_UNTOUCHED_SECONDS = 0.5
_ABANDON_SECONDS = 1.0


class Event(Enum):
    """What the main thread waits for."""

    ASKED = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class End:
    """How it has ended: with this exit ``code``; ``words`` are for the person who has ended it. ``at_once``: threads
    are in the midst of something, and must not be waited for."""

    code: int = EXIT_OK
    words: str = ""
    at_once: bool = False


def run(settings: Settings, *, once: bool, view: View) -> End:
    """Run an engine with these ``settings`` until it is stopped, or (``once``) until it has caught up and every queued
    snapshot is finished. ``view`` is shown warnings and every status.

    Raises whatever ends it otherwise; the command line makes an exit code of it.
    """
    for warning in settings.warnings:
        view.message(f"warning: {warning}")
    view.doing("checking the options")
    assembly.check(settings)
    life = Life(settings, assembly.engine_config(settings), view, once=once)
    with told_of_signals(lambda: life.events.put(Event.ASKED)):
        life.start()
        if life.event() is Event.ENDED:
            return life.end()
        return _stopped(life, view)


class Life(threading.Thread):
    """An engine's of these ``settings``, and of the ``config`` that was made of them, from its making to its end;
    ``view`` and ``once`` as in `run`. ``events`` has its end, and is for whoever asks for that."""

    def __init__(self, settings: Settings, config: EngineConfig, view: View, *, once: bool) -> None:
        super().__init__(name="engine", daemon=True)
        self._settings, self._config, self._view, self._once = settings, config, view, once
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.stop = threading.Event()
        self.engine: Engine | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            spark = partial(assembly.spark_session, self._settings, brief=self._once)
            engine = _made(spark, self._config, self._view, self.stop)
            self.engine = engine
            try:
                engine.run(once=self._once)
            finally:
                all_of(engine.session.stop)
        except BaseException as error:  # noqa: BLE001 - raised where its end is waited for
            self._error = error
        finally:
            self.events.put(Event.ENDED)

    def event(self, seconds: float = math.inf) -> Event | None:
        """The next one, waited for on the main thread; None where nothing happens within so many ``seconds``."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            with suppress(Empty):
                return self.events.get(timeout=min(left, WAIT_SECONDS))
        return None

    @property
    def shown(self) -> Status | None:
        """The newest status. Whoever waits for nobody goes by it: a run that is asked may be in the midst of a step."""
        return None if self.engine is None else self.engine.status.newest

    @property
    def untouched(self) -> bool:
        """Whether it has done nothing yet that would have to be ended."""
        return self.engine is None or not self.engine.named

    def end(self) -> End:
        """How it has ended. Raises what it has ended with."""
        if isinstance(self._error, Stopped):
            return End(words=self._error.message)
        if self._error is not None:
            raise self._error
        return End(words=self.stopped_at() if self.stop.is_set() else "")

    def stopped_at(self) -> str:
        """Up to where all has landed: there the next start goes on."""
        shown = self.shown
        if shown is None or shown.position is None:
            return "stopped"
        position = ClusterTime(shown.position.t, shown.position.i)
        at = datetime.fromtimestamp(position.t, UTC)
        return f"stopped at {at:%Y-%m-%d %H:%M:%S} UTC (position {position})"

    def end_at_once(self) -> None:
        """In the midst of whatever it does."""
        engine = self.engine
        if engine is None:
            return
        if engine.run_state is not None:
            engine.run_state.lane.break_off()
        if engine.session.ours and not spark_start.end_at_once():
            return  # what may still land keeps the name until this process has gone
        # That asks the run, which may be in the midst of something.
        leaving = threading.Thread(target=engine.abandon, name="abandon", daemon=True)
        leaving.start()
        leaving.join(_ABANDON_SECONDS)


def _stopped(life: Life, view: View) -> End:
    """Somebody has asked for the end."""
    life.stop.set()
    if life.untouched and (end := _untouched(life)) is not None:
        return end
    view.announce(stopping(len(life.shown.windows) if life.shown is not None else 0))
    event = life.event(STOP_SECONDS)
    if event is Event.ENDED:
        return life.end()
    life.end_at_once()
    if event is Event.ASKED:
        return End(EXIT_INTERRUPTED, life.stopped_at(), at_once=True)
    words = f"{life.stopped_at()}: the next start repeats what was under way"
    return End(EXIT_OK, words, at_once=True)


def _untouched(life: Life) -> End | None:
    """It ends by itself, unless it waits for a server just now. None where it has taken its name meanwhile."""
    if life.event(_UNTOUCHED_SECONDS) is Event.ENDED:
        return life.end()
    return End(words=NOT_STARTED, at_once=True) if life.untouched else None


def stopping(windows: int) -> str:
    """What is said to whoever has asked for the end, with so many ``windows`` in flight."""
    are = "is" if windows == 1 else "are"
    what = f": {windows} window{'s' * (windows > 1)} {are} landing" if windows else ""
    return f"stopping{what} (Ctrl+C again ends at once; nothing is lost)"


def _made(
    spark: Callable[[], SparkSession], config: EngineConfig, view: View, stop: threading.Event
) -> Engine:
    """The engine, whose session ``spark`` makes. What keeps it from being made, and may be cured by a restart, is
    waited for as `engine.starting` does what keeps it from starting; nothing can say so in the status yet. ``stop``
    ends that."""
    before = partial(preflight.check, connect(config.uri), config)
    early = Recovery(config.restart_policy, MemoryStorage(), _unheard)
    made: list[Engine] = []

    def make() -> None:
        # Before a JVM is started for nothing; an engine that has its state at hand waits for MongoDB by itself, and its
        # status says so.
        far = needs_spark(config.state_location)
        if far or not config.restart_policy.enabled:
            view.doing(f"checking MongoDB at {servers(config.uri)}")
            reach(before, config.reconnects, stop, view.message)
        if far:
            view.doing("starting Spark, which reaches the engine's state")
        made.append(Engine(spark, config, view, stop))

    if not early.enabled:
        make()
        return made[-1]
    early.keep_going(make, Idling(stop, lambda: False, _nothing, _nothing, lambda: 1.0), _unsaid)
    if not made:
        raise Stopped(NOT_STARTED)
    made[-1].recovery.going_on_from(early)
    return made[-1]


def _unheard(health: str, told: Mapping[str, str]) -> None:
    """No channel is open yet."""


def _nothing() -> None:
    """There is no lock yet, and no channel."""


def _unsaid(state: EngineState, error: Exception) -> None:
    """There is no status yet; the log has it."""

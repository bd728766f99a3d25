"""Running an engine in the foreground: from settings to an exit code, with clean ends on SIGTERM and SIGINT."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.configuration.settings import Settings
from snapshotter.engine import assembly, preflight
from snapshotter.engine.connecting import reach
from snapshotter.engine.engine import Engine
from snapshotter.engine.idling import Idling
from snapshotter.engine.recovery import Recovery
from snapshotter.errors import EXIT_OK, Stopped
from snapshotter.reporting.progress_view import View
from snapshotter.reporting.status import EngineState
from snapshotter.state.storage import MemoryStorage
from snapshotter.state.storages import needs_spark
from streaming.mongo.deployment import connect


def run(settings: Settings, *, once: bool, view: View) -> int:
    """Run an engine with these ``settings`` until it is stopped, or (``once``) until it has caught up and every queued
    snapshot is finished. ``view`` is shown warnings and every status. Returns 0.

    Raises whatever ends it otherwise; the command line makes an exit code of it.
    """
    for warning in settings.warnings:
        view.message(f"warning: {warning}")
    assembly.check(settings)
    config = assembly.engine_config(settings)
    with stopped_by_signals(_leave):
        engine = _made(settings, config, view)

    def ask() -> None:
        engine.stop()
        if engine.session.starting:  # only that start would be waited for
            _leave()

    try:
        with stopped_by_signals(ask):
            engine.run(once=once)
    except Stopped as stopped:
        view.message(stopped.message)
    finally:
        engine.session.stop()
    return EXIT_OK


def _made(settings: Settings, config: EngineConfig, view: View) -> Engine:
    """The engine. What keeps it from being made, and may be cured by a restart, is waited for as `engine.starting` does
    what keeps it from starting; nothing can say so in the status yet."""
    before, stop = partial(preflight.check, connect(config.uri), config), threading.Event()
    early = Recovery(config.restart_policy, MemoryStorage(), _unheard)
    made: list[Engine] = []

    def make() -> None:
        # Before a JVM is started for nothing; an engine that has its state at hand waits for MongoDB by itself, and its
        # status says so.
        if needs_spark(config.state_location) or not config.restart_policy.enabled:
            reach(before, config.reconnects, stop, view.message)
        made.append(Engine(partial(assembly.spark_session, settings), config, view))

    if not early.enabled:
        make()
        return made[-1]
    early.keep_going(make, Idling(stop, lambda: False, _nothing, _nothing, lambda: 1.0), _unsaid)
    made[-1].recovery.going_on_from(early)
    return made[-1]


def _unheard(health: str, told: Mapping[str, str]) -> None:
    """No channel is open yet."""


def _nothing() -> None:
    """There is no lock yet, and no channel."""


def _unsaid(state: EngineState, error: Exception) -> None:
    """There is no status yet; the log has it."""


def _leave() -> None:
    """Nothing has been started that would have to be ended."""
    raise SystemExit(EXIT_OK)


@contextmanager
def stopped_by_signals(ask: Callable[[], None]) -> Iterator[None]:
    """Let SIGTERM and SIGINT call ``ask``, on the main thread, in the midst of what it does. Only the main thread can
    set handlers: on any other, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(*_: object) -> None:
        ask()

    kinds = (signal.SIGTERM, signal.SIGINT)
    former = {kind: signal.signal(kind, handler) for kind in kinds}
    try:
        yield
    finally:
        for kind, old in former.items():
            signal.signal(kind, old)

"""Running an engine in the foreground: from settings to an exit code, with clean ends on SIGTERM and SIGINT."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from snapshotter.configuration.settings import Settings
from snapshotter.engine import assembly, preflight
from snapshotter.engine.connecting import reach
from snapshotter.engine.engine import Engine
from snapshotter.errors import EXIT_OK, Stopped
from snapshotter.reporting.progress_view import View
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
    before = partial(preflight.check, connect(config.uri), config)
    # Before a JVM is started for nothing.
    with stopped_by_signals(_leave):
        reach(before, config.reconnects, threading.Event(), view.message)
    engine = Engine(partial(assembly.spark_session, settings), config, view)

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

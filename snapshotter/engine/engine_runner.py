"""Running an engine in the foreground: from settings to an exit code, with clean ends on SIGTERM and SIGINT."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from snapshotter.configuration.settings import Settings
from snapshotter.engine import assembly, preflight
from snapshotter.engine.engine import Engine
from snapshotter.errors import EXIT_OK
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
    preflight.check(connect(config.uri), config)  # before a JVM is started for nothing
    engine = Engine(partial(assembly.spark_session, settings), config, view)
    try:
        with stopped_by_signals(engine):
            engine.run(once=once)
    finally:
        engine.session.stop()
    return EXIT_OK


@contextmanager
def stopped_by_signals(engine: Engine) -> Iterator[None]:
    """Let SIGTERM and SIGINT ask the engine for a clean end; while Spark starts they raise SystemExit, for only that
    start would be waited for. Only the main thread can set handlers: on any other, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ask(*_: object) -> None:
        engine.stop()
        if engine.session.starting:
            raise SystemExit(EXIT_OK)

    kinds = (signal.SIGTERM, signal.SIGINT)
    before = {kind: signal.signal(kind, ask) for kind in kinds}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)

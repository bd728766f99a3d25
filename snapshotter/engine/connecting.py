"""A MongoDB that is away when the engine starts is waited for, as Debezium documents it.

The first attempt is made at once. Each failed one is said, with the number and the time of the next; the pause before
that doubles from ``connect.backoff.initial.delay.ms`` up to ``connect.backoff.max.delay.ms``, and after
``connect.max.attempts`` of them (20 minutes by default) the start is given up. Only a server that cannot be reached is
waited for: what is wrong with an option, with credentials or with privileges is raised at once.

Once it runs, an engine that loses its source goes by ``errors.max.retries`` (`snapshotter.engine.restarts`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog

from snapshotter.configuration.patience import Reconnects
from snapshotter.engine.interrupts import NOT_STARTED
from snapshotter.errors import GaveUp, Stopped, describe

_log = structlog.get_logger("snapshotter.engine")


def reach(
    check: Callable[[], object],
    reconnects: Reconnects,
    stop: threading.Event,
    say: Callable[[str], object] | None = None,
) -> None:
    """Do ``check``, which asks the server, until it goes well, as often as ``reconnects`` allows. ``say`` tells a
    person of each failed attempt; without it the log does. ``stop`` ends a pause; then Stopped is raised. Raises GaveUp
    once the attempts are used up, and any other error at once."""
    attempt = 0
    while True:
        try:
            check()
            return
        except Exception as error:
            found = describe(error)
            if found.condition != "source-unreachable":
                raise
            if attempt >= reconnects.attempts:
                raise GaveUp(
                    f"gave up after {attempt} attempts to reconnect (connect.max.attempts): {found.message}",
                    found.next_step,
                ) from error
            attempt += 1
            pause, message = reconnects.pause_ms(attempt) / 1_000, found.message
        at = datetime.now(UTC) + timedelta(seconds=pause)
        text = (
            f"MongoDB cannot be reached, and is waited for: attempt {attempt} of {reconnects.attempts} in "
            f"{pause:g} s, at {at:%H:%M:%S} UTC: {message}"
        )
        if say is not None:
            say(text)
        else:
            _log.warning(text)
        if stop.wait(pause):
            raise Stopped(NOT_STARTED)

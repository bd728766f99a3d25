"""Waiting between runs: the lock is kept, signals are accepted, and the status is written.

An engine waits before a retry, before a start that is to be delayed, before a restart, and while its stream is paused.
In none of these does it let go of its name, and whatever ends a wait is seen within a poll.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from snapshotter.errors import DefiniteError
from snapshotter.failures import classify
from snapshotter.log import warn_of
from streaming.positions import ClusterTime

_log = structlog.get_logger("snapshotter.engine")


@dataclass(slots=True)
class Idling:
    """``stop`` ends every wait, and so does ``woken`` where it says so. ``keep`` renews the lock, ``look`` takes the
    signals that have come, and ``poll`` says every how many seconds."""

    stop: threading.Event
    woken: Callable[[], bool]
    keep: Callable[[], object]
    look: Callable[[], object]
    poll: Callable[[], float]
    clock: Callable[[], float] = field(default=time.monotonic)

    def wait(self, seconds: float, report: Callable[[], object]) -> None:
        """Wait for so many ``seconds``, or until something ends it. ``report`` is called now and then. An error of the
        lock or of a channel that will not pass is raised."""
        until = self.clock() + seconds
        self._attend(lambda: 0.0 if self.woken() else until - self.clock(), report)

    def rest(self, while_: Callable[[], bool], report: Callable[[], object]) -> None:
        """Wait for as long as ``while_`` says so, or until a stop; otherwise as `wait`."""
        self._attend(lambda: self.poll() if while_() else 0.0, report)

    def _attend(self, left: Callable[[], float], report: Callable[[], object]) -> None:
        report()
        while (seconds := left()) > 0:
            if self.stop.wait(min(seconds, self.poll())):
                return
            try:
                self.keep()
                self.look()
            except Exception as error:
                if not classify(error).may_pass:
                    raise
                warn_of(_log, "signals wait", error)
            report()


def tell_pause(position: ClusterTime, *, once: bool) -> None:
    """Say that the stream stands at this ``position``. Raises DefiniteError where nobody waits for it to go on
    (``once``)."""
    if once:
        raise DefiniteError("the stream is paused, so there is no end to wait for", condition="stream-paused")
    _log.warning("the stream is paused: nothing lands until it is resumed", position=str(position))

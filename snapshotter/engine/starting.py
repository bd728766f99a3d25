"""A start that fails for a cause that a restart may cure, tried again as a failed engine is (`engine.recovery`).

    MongoDB does not answer within `connect.max.attempts` } the engine's name is taken for the wait, if nobody has it
    the state cannot be reached                           } waits without a name, and without a status
    Spark does not start, the warehouse cannot be reached   the name is kept, and the status says when it tries again

Waits, count and bound are those of restarts, and so is what is never tried again: options, another engine of the name,
defects. What the first attempt has made durable (the position, a new generation of the state) the next one finds.

Between two attempts no signal is taken, for it is not yet known which state they would be decided on; the metrics'
port is closed, because the next start looks whether it is free.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import structlog

from snapshotter.engine.idling import Idling
from snapshotter.engine.interrupts import NOT_STARTED
from snapshotter.engine.kept_lock import RENEW_SECONDS, KeptLock
from snapshotter.engine.recovery import Recovery
from snapshotter.engine.winding_up import all_of
from snapshotter.errors import GaveUp, Stopped, describe
from snapshotter.log import warn_of
from snapshotter.reporting.status import EngineState
from snapshotter.state.lock import LockError, renewing

_log = structlog.get_logger("snapshotter.engine")
_POLL_SECONDS = 0.5
Report = Callable[[EngineState, BaseException | None], None]


class Starts:
    """Attempts at one start. ``recovery`` says when there is another one. ``kept`` is the engine's lock, ``stop`` ends
    a wait, ``report`` writes the status, and ``close`` lets go of what an attempt has opened."""

    def __init__(
        self,
        recovery: Recovery,
        kept: KeptLock,
        stop: threading.Event,
        report: Report,
        close: Callable[[], object],
    ) -> None:
        self._recovery, self._kept, self._report, self._close = recovery, kept, report, close
        self.idling = Idling(stop, lambda: False, self._keep, lambda: None, lambda: _POLL_SECONDS)

    def take_name(self) -> None:
        """Take the lock, unless an attempt before has it. Raises LockHeldError where another engine has it,
        LockLostError where another one has taken over since, and Stopped where the end has been asked for."""
        if self.idling.stop.is_set():
            raise Stopped(NOT_STARTED)
        if self._kept.lock.token is None:
            self._kept.lock.acquire()
        else:
            self._kept.check()
        if not self._recovery.begun:
            self._recovery.begin()

    @contextmanager
    def keeping_name(self) -> Iterator[None]:
        """What takes its time within does not let the lock grow old, where an attempt before has it."""
        if self._kept.lock.token is None:
            yield
            return
        with renewing(self._kept.lock, RENEW_SECONDS):
            yield

    def keep_starting(self, start: Callable[[], None]) -> None:
        """``start``, and again after failures that a restart may cure. Raises what it fails with for good, and Stopped
        where a stop has ended the wait; then the lock is let go."""
        started = False

        def attempt() -> None:
            nonlocal started
            self._attempt(start)
            started = True

        try:
            if self._recovery.enabled:
                self._recovery.keep_going(attempt, self.idling, self._say)
            else:
                attempt()
            if not started:
                raise Stopped(NOT_STARTED)
        except Stopped:
            all_of(partial(self._say, EngineState.STOPPED, None), self._kept.lock.release, self._close)
            raise
        except Exception as error:
            ended = self._ended(error)
            self._end(ended)
            if ended is not error:
                raise ended from error
            raise
        except BaseException as error:
            self._end(error)
            raise

    def _end(self, error: BaseException) -> None:
        all_of(partial(self._say, EngineState.FAILED, error), self._kept.lock.release, self._close)

    def _ended(self, error: Exception) -> Exception:
        """What the start ends with: whoever has tried it as often as the options allow has given up."""
        if self.idling.stop.is_set() or not self._recovery.may_restart(error):
            return error
        found, said = describe(error), "(engine.auto.restart.max.restarts)"
        ended = GaveUp(
            f"gave up after {self._recovery.restarts} restarts {said}: {found.message}",
            found.next_step,
            condition=found.condition,
        )
        ended.__cause__ = error
        return ended

    def _attempt(self, start: Callable[[], None]) -> None:
        try:
            start()
        except Exception as error:
            self._close()
            if self._recovery.may_restart(error) and self._kept.lock.token is None:
                self._name_for_the_wait()
            raise

    def _name_for_the_wait(self) -> None:
        """So that the status may say when it goes on, and earlier lives' restarts count. Another engine of this name is
        no reason to wait."""
        try:
            self.take_name()
        except LockError:
            raise
        except Exception as error:  # noqa: BLE001 - what keeps it from starting is the other error
            warn_of(_log, "the state cannot be reached, so the status does not tell of the wait", error)

    def _keep(self) -> None:
        if self._kept.lock.token is not None:
            self._kept.keep()

    def _say(self, state: EngineState, error: BaseException | None) -> None:
        """Only whoever has the name writes under it."""
        if self._kept.lock.token is not None:
            self._report(state, error)

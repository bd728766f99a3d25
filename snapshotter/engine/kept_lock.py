"""The engine's lock as its threads use it: batches check it, and the control loop keeps it from growing old."""

from __future__ import annotations

import threading
import time

from snapshotter.state.lock import EngineLock

RENEW_SECONDS = 10.0


class KeptLock:
    """One thread at a time has the lock in hand."""

    def __init__(self, lock: EngineLock) -> None:
        self.lock = lock
        self._one_at_a_time = threading.Lock()
        self._renewed = 0.0

    def keep(self) -> None:
        """Renew it if that is due. Raises LockLostError where another engine has taken over."""
        if time.monotonic() - self._renewed > RENEW_SECONDS:
            with self._one_at_a_time:
                self.lock.renew()
            self._renewed = time.monotonic()

    def check(self) -> int:
        """The fencing token. Raises LockLostError where another engine has taken over."""
        with self._one_at_a_time:
            return self.lock.check()

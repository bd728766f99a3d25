"""The engine's lock, for a command that changes what an engine would otherwise own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from snapshotter.state.lock import EngineLock
from snapshotter.state.process import this_process
from snapshotter.state.storage import Storage


@contextmanager
def locked(storage: Storage, name: str) -> Iterator[int]:
    """Hold the lock of the engine ``name`` within, and give its token. Raises LockHeldError, with the holder's address,
    where the engine runs."""
    lock = EngineLock(storage, name, this_process(), lambda: int(time.time() * 1000))
    token = lock.acquire()
    try:
        yield token
    finally:
        lock.release()

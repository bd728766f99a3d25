"""SIGINT and SIGTERM: told to whoever wants to know. It needs nothing, so it is there before an engine is.

Handlers run on the main thread alone, and it has to come back to Python for that. The system gives a signal to any
thread of a process: to the main one as a rule, but to another where the main one was stopped (SIGSTOP, a debugger, a
container that is paused) and has not run yet since it was continued. Nothing wakes the main thread then. So whoever
waits on it for a signal waits no longer than `WAIT_SECONDS` at a time.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

WAIT_SECONDS = 0.2
"""The longest that a main thread may wait in one go where a signal must reach it."""
NOT_STARTED = "stopped before it had started: nothing was touched"


@contextmanager
def told_of_signals(tell: Callable[[], object]) -> Iterator[None]:
    """Let SIGTERM and SIGINT call ``tell``, on the main thread, in the midst of what it does: it may raise, but not
    wait for anybody. Whoever waits meanwhile does so in steps of `WAIT_SECONDS`. Only the main thread can set handlers:
    on any other, nothing changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(*_: object) -> None:
        tell()

    kinds = (signal.SIGTERM, signal.SIGINT)
    former = {kind: signal.signal(kind, handler) for kind in kinds}
    try:
        yield
    finally:
        for kind, old in former.items():
            signal.signal(kind, old)

"""SIGINT and SIGTERM: told to whoever wants to know. It needs nothing, so it is there before an engine is."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

NOT_STARTED = "stopped before it had started: nothing was touched"


@contextmanager
def told_of_signals(tell: Callable[[], object]) -> Iterator[None]:
    """Let SIGTERM and SIGINT call ``tell``, on the main thread, in the midst of what it does: it may raise, but not
    wait for anybody. Only the main thread can set handlers: on any other, nothing changes."""
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

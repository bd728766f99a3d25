"""Work that is done in the background: one task after another, on a thread that ends when nothing waits.

What a signal asks for comes on the thread of a batch or of the control loop, which must not wait for it. Nothing of it
is durable: what waits when the engine ends is not done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class BackgroundWorker:
    """``submit`` from any thread. The work raises nothing."""

    def __init__(self, name: str, waiting_max: int) -> None:
        self._name = name
        self._waiting_max = waiting_max
        self._waiting: deque[Callable[[], None]] = deque()
        self._guard = threading.Lock()
        self._works = False

    def submit(self, work: Callable[[], None]) -> bool:
        """Have it done in time; False where too much waits already."""
        with self._guard:
            if len(self._waiting) >= self._waiting_max:
                return False
            self._waiting.append(work)
            if not self._works:
                self._works = True
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return True

    def _work(self) -> None:
        while True:
            with self._guard:
                # Under the guard: a submit either finds this thread at work, or starts another.
                if not self._waiting:
                    self._works = False
                    return
                work = self._waiting.popleft()
            work()

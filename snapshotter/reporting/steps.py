"""What is being done, for whoever waits for it: said at once, and again every few seconds for as long as it takes.

A start takes seconds, or minutes on a busy machine, and most of them are spent in calls that say nothing. So it is not
the work that speaks but a clock beside it: a display that is drawn anew anyway shows `Step.text`, and for lines there
is a thread (`SpokenSteps`), which lives only while something is being done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

EVERY_SECONDS = 2.0


class Step:
    """One thing that is done: ``what`` it is, and since when. ``now`` gives seconds, from any origin."""

    def __init__(self, what: str, now: Callable[[], float] = time.monotonic) -> None:
        self.what, self._now, self._since = what, now, now()

    @property
    def seconds(self) -> int:
        """For how long."""
        return int(self._now() - self._since)

    @property
    def text(self) -> str:
        """``starting Spark (8 s)``; without the time in the first second."""
        return f"{self.what} ({self.seconds} s)" if self.seconds else self.what


class SpokenSteps:
    """Says steps by ``say``: each at once, and again every so many seconds."""

    def __init__(self, say: Callable[[Step], None], every_seconds: float = EVERY_SECONDS) -> None:
        self._say, self._every = say, every_seconds
        self._changed = threading.Condition()
        self._step: Step | None = None
        self._thread: threading.Thread | None = None

    def begin(self, what: str | None) -> None:
        """Do this from here on; None: nothing that would have to be said. What is done already goes on."""
        with self._changed:
            if (self._step.what if self._step else None) == what:
                return
            self._step = None if what is None else Step(what)
            if self._step is not None:
                self._say(self._step)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._speak, name="steps", daemon=True)
                    self._thread.start()
            self._changed.notify_all()

    @property
    def busy(self) -> bool:
        """Whether something is being done that is said."""
        return self._step is not None

    def _speak(self) -> None:
        with self._changed:
            while (step := self._step) is not None:
                if not self._changed.wait_for(lambda: self._step is not step, self._every):
                    self._say(step)
            self._thread = None

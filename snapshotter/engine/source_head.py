"""How far the source has come, and how far what has landed is behind it.

Cluster times tell when something was committed. On a server where nobody writes they stand still for up to ten seconds,
so right behind such a pause the difference of two of them is the pause: an event that came a moment ago would look as
late as that. What landed in time was known then: at a look at which nothing was left to land, nothing was late. So a
position is never further behind than the newest such look.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from streaming.positions import ORIGIN, ClusterTime

_LOOKS = 4_096
"""Of so many seconds the source's time is kept; what is further behind than that is told by cluster times alone."""


class SourceHead:
    """The newest time of the source that was seen. ``clock`` gives seconds; several threads may ask."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._looks: deque[tuple[float, ClusterTime]] = deque(maxlen=_LOOKS)
        self.newest = ORIGIN

    def look(self, head: ClusterTime) -> None:
        """The source is there now."""
        with self._guard:
            self.newest, looks = max(self.newest, head), self._looks
            stands = bool(looks) and looks[-1][1] == self.newest
            same_second = len(looks) > 1 and looks[-1][1].t == looks[-2][1].t
            if (
                stands or same_second
            ):  # the newest look of a time is the one that counts; of a second, the first too
                looks.pop()
            looks.append((self._clock(), self.newest))

    def behind(self, position: ClusterTime) -> float:
        """By how many seconds ``position`` is behind."""
        with self._guard:
            while len(self._looks) > 1 and self._looks[1][1] <= position:
                self._looks.popleft()
            apart = max(0.0, float(self.newest.t - position.t))
            if self.newest <= position or not self._looks or self._looks[0][1] > position:
                return apart
            return min(apart, round(self._clock() - self._looks[0][0], 1))

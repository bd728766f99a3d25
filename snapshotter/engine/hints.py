"""What the engine asks of its source between batches (`streaming.source.hints`): when to make one, how dense events
are.

The nonce moves the offset when the stream is idle and something waits for a batch. The density of recent batches lets
the next one be sized without counting first, and the collections that they had most events of let the server find these
with less work.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from streaming.namespaces import Namespace
from streaming.source.hints import Hints, read_hints, write_hints

KNOWN_MAX = 20
"""Of how many collections the server is told: an event of another one is compared with each."""


class HintsWriter:
    """Owns the file at ``path``. The nonce goes on from what the file holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._nonce = read_hints(str(path)).nonce
        self._events = 0.0
        self._seconds = 0.0
        self._wait = 0
        self._hold = 0
        self._counts: Counter[Namespace] = Counter()
        self._write()

    def request_batch(self) -> None:
        """Ask for a batch, even if nothing has happened at the source."""
        with self._lock:
            self._nonce += 1
            self._write()

    def wait(self, seconds: int) -> None:
        """Until changed, a batch begins when the stream is ``seconds`` ahead (0: at once), or at a
        `request_batch`."""
        with self._lock:
            if seconds != self._wait:
                self._wait = seconds
                self._write()

    def hold(self, seconds: int) -> None:
        """Until changed, the position stands still while the stream is less than ``seconds`` ahead of it; a
        batch that is asked for has no events."""
        with self._lock:
            if seconds != self._hold:
                self._hold = seconds
                self._write()

    def meet(self, namespaces: Mapping[Namespace, int]) -> None:
        """A batch had so many events of these collections; those of older batches fade, and the rarest go."""
        if not namespaces:
            return
        with self._lock:
            before = self._counts
            faded = Counter({name: count // 2 for name, count in before.items()})
            self._counts = Counter(dict((faded + Counter(namespaces)).most_common(KNOWN_MAX)))
            if self._counts.keys() != before.keys():
                self._write()

    def learn(self, events: int, seconds: float) -> None:
        """A batch of ``events`` spanned ``seconds`` of cluster time; older batches fade."""
        with self._lock:
            self._events = 0.5 * self._events + events
            self._seconds = 0.5 * self._seconds + max(seconds, 0.001)
            self._write()

    @property
    def events_per_second(self) -> float | None:
        """How dense events were in recent batches; None before the first."""
        return self._events / self._seconds if self._seconds else None

    def _write(self) -> None:
        known = tuple(sorted(self._counts))
        write_hints(self.path, Hints(self._nonce, self.events_per_second, self._wait, self._hold, known))


def scratch_hints(owner: object) -> HintsWriter:
    """In a folder of its own, which goes with its owner."""
    scratch = mkdtemp(prefix="snapshotter-")
    weakref.finalize(owner, rmtree, scratch, ignore_errors=True)
    return HintsWriter(Path(scratch) / "hints.json")

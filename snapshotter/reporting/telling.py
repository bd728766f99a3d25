"""When operators are told: once Spark has committed the batch, and at least once.

What a batch has to tell is the difference between two saved states (`core.rules.announcements`), so it needs no
record of its own: ``told.json`` says up to which batch all of it has been told, and whoever starts after a crash
tells the rest. Told before Spark's commit, a request could be said to be completed, and a replay of the batch would
read its chunks again.

Threads: batches add, the control loop tells. What is told goes into queues of others, which never wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import structlog

from snapshotter.core.rules import announcements
from snapshotter.core.values.effects import Announce
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.reporting.notices import Notifier
from snapshotter.state.progress_store import ProgressStore

_log = structlog.get_logger("snapshotter.engine")
_KEPT = 10_000


class Telling:
    """``told`` are the newest announcements, for whoever asks in the process; ``listeners`` are called with each."""

    def __init__(self, notifier: Notifier, store: Callable[[], ProgressStore]) -> None:
        self.told: deque[Announce] = deque(maxlen=_KEPT)
        self.listeners: list[Callable[[Announce], None]] = []
        self._notifier = notifier
        self._store = store
        self._waiting: deque[tuple[int, Announce, RequestProgress | None]] = deque()
        self._queue, self._one_at_a_time = threading.Lock(), threading.Lock()

    def begin(self, progress: Progress) -> None:
        """A run begins from this state, whose batch is committed: what was waiting for a batch that will be repeated is
        forgotten, and what an earlier run did not come to tell is told."""
        with self._queue:
            self._waiting.clear()
        told = self._store().told()
        if told is None:
            self._store().note_told(progress.batch_id)
            return
        if told < progress.batch_id:
            for announced in announcements.between(self._store().known_at(told), progress):
                self.add(progress, announced)
            self.committed(progress.batch_id)

    def add(self, progress: Progress, announced: Announce) -> None:
        """To be told once the batch of this state is committed."""
        with self._queue:
            self._waiting.append((progress.batch_id, announced, progress.request(announced.request_id)))

    @property
    def waits_for(self) -> int | None:
        """The batch whose commit is waited for; None where there is nothing to tell."""
        with self._queue:
            return self._waiting[0][0] if self._waiting else None

    def pending(self, request_id: str) -> bool:
        """Whether something about this request has not been told yet."""
        with self._queue:
            return any(announced.request_id == request_id for _, announced, _ in self._waiting)

    def committed(self, batch_id: int) -> None:
        """Spark has committed the batches up to this one."""
        with self._one_at_a_time:
            told = False
            while (waited := self.waits_for) is not None and waited <= batch_id:
                with self._queue:
                    _, announced, request = self._waiting[0]
                self.now(announced, request)
                told = True
                with self._queue:
                    self._waiting.popleft()
            if told:
                self._store().note_told(batch_id)

    def now(self, announced: Announce, request: RequestProgress | None = None) -> None:
        """Tell it at once: it is of no batch."""
        _log.info(announced.kind, id=announced.request_id, collection=str(announced.namespace or ""))
        self._notifier.announce(announced, request, announced.data)
        self.told.append(announced)
        for listener in self.listeners:
            listener(announced)

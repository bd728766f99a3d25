"""When operators are notified: after Spark has committed the batch, and at least once.

What a batch has to announce is the difference between two saved states (`core.rules.announcements`), so it needs no
record of its own: ``told.json`` says up to which batch every channel has taken everything, and a start after a crash
announces the rest again, to all of them. Announced before Spark's commit, a request could be said to be completed, and
a replay of the batch would read its chunks again.

Threads: batches add, the control loop announces. Announcements go into the queues of channels, which never wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile

import structlog

from snapshotter.core.rules import announcements
from snapshotter.core.values.effects import Announce
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.reporting.notices import Mark, Notifier, done_with
from snapshotter.state.progress_store import ProgressStore

_log = structlog.get_logger("snapshotter.engine")
_KEPT = 10_000
_SAID_BEFORE = ("SUSPENDED", announcements.GAP_OPENED)
"""The log has them from where they were found, with all there is to say."""


@dataclass(frozen=True, slots=True)
class _Told:
    """Up to this state, of this generation, everything is with the channels; ``mark`` says when they are done with
    it."""

    generation: int
    progress: Progress
    mark: Mark = ()


class Announcer:
    """``announced`` are the newest announcements, for callers in this process; ``listeners`` are called with each.
    ``load_ended`` is told when an initial load has ended, and whether with all that it was to read."""

    def __init__(
        self,
        notifier: Notifier,
        store: Callable[[], ProgressStore],
        load_ended: Callable[[bool], None] = lambda _: None,
    ) -> None:
        """``notifier`` sends what is announced; ``store`` is that of the present generation."""
        self.announced: deque[Announce] = deque(maxlen=_KEPT)
        self.listeners: list[Callable[[Announce], None]] = []
        self._notifier = notifier
        self._store = store
        self._load_ended = load_ended
        self._waiting: deque[tuple[Progress, Announce]] = deque()
        self._sent: deque[_Told] = deque()
        self._newest: _Told | None = None
        self._queue, self._one_at_a_time = threading.Lock(), threading.Lock()

    def begin(self, progress: Progress) -> None:
        """A run begins from this state, whose batch is committed: what was waiting for a batch that will be repeated is
        forgotten, and what an earlier run did not come to announce is announced."""
        with self._queue:
            self._waiting.clear()
        with self._one_at_a_time:
            known = self._told_before(progress)
        if known.batch_id < progress.batch_id:
            for announcement in announcements.between(known, progress):
                self.add(progress, announcement)
            self.committed(progress.batch_id)

    def _told_before(self, progress: Progress) -> Progress:
        """The state up to which all is with the channels: by an earlier run in this process, or (as they have taken it)
        in an earlier one."""
        store = self._store()
        if self._newest is not None and self._newest.generation == store.generation.number:
            return self._newest.progress
        upto = store.announced_upto()
        if upto is None:
            store.note_announced(progress.batch_id)
        known = progress if upto is None else store.known_at(upto)
        self._newest = _Told(store.generation.number, known)
        return known

    def add(self, progress: Progress, announcement: Announce) -> None:
        """To be announced once the batch of this state is committed."""
        with self._queue:
            self._waiting.append((progress, announcement))

    def look(self, is_committed: Callable[[int], bool]) -> None:
        """Announce what waits for batches that Spark has committed, which ``is_committed`` tells, and note which
        batches the channels are done with."""
        if (batch := self.waits_for) is not None and is_committed(batch):
            self.committed(batch)
        with self._one_at_a_time:
            self._note()

    def close(self) -> None:
        """Close the channels, which take what waits for them, and note what they have taken."""
        self._notifier.close()
        with self._one_at_a_time:
            self._note()

    @property
    def waits_for(self) -> int | None:
        """The batch whose commit is waited for; None where there is nothing to announce."""
        with self._queue:
            return self._waiting[0][0].batch_id if self._waiting else None

    def pending(self, request_id: str) -> bool:
        """Whether something about this request has not been announced yet."""
        with self._queue:
            return any(announcement.request_id == request_id for _, announcement in self._waiting)

    def committed(self, batch_id: int) -> None:
        """Announce what waits for the batches up to this one, which Spark has committed."""
        with self._one_at_a_time:
            upto: Progress | None = None
            while (waited := self.waits_for) is not None and waited <= batch_id:
                with self._queue:
                    upto, announcement = self._waiting[0]
                self.announce(announcement, upto.request(announcement.request_id))
                # Only now, so that ``pending`` is true until the channels have it.
                with self._queue:
                    self._waiting.popleft()
            if upto is not None:
                self._newest = _Told(self._store().generation.number, upto, self._notifier.mark())
                self._sent.append(self._newest)
            self._note()

    def _note(self) -> None:
        """Call it under the lock of those that announce."""
        store = self._store()
        while self._sent and self._sent[0].generation != store.generation.number:
            self._sent.popleft()  # of a position that was lost: the new generation counts its own batches
        taken = list(takewhile(lambda told: done_with(told.mark), self._sent))
        if taken:
            store.note_announced(taken[-1].progress.batch_id)
            for _ in taken:
                self._sent.popleft()

    def announce(self, announcement: Announce, request: RequestProgress | None = None) -> None:
        """Announce it at once: it belongs to no batch, or to one that is committed. ``request``: its progress, where
        the announcement is about one."""
        if announcement.kind not in _SAID_BEFORE and not self._notifier.in_log:
            named = str(announcement.namespace or "")
            _log.info(announcement.kind, id=announcement.request_id, collection=named)
        self._notifier.announce(announcement, request, announcement.data)
        self.announced.append(announcement)
        for listener in self.listeners:
            listener(announcement)
        if request is not None and request.origin is Origin.INITIAL and announcements.ends(announcement):
            self._load_ended(announcement.kind == announcements.COMPLETED)

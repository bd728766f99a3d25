"""One channel's way out: a bounded queue, and the thread that hands what waits in it to the channel.

A notification is only put in the queue, which never waits: where it is full, the oldest notification
makes room. So a channel that is slow, down, or stuck for ever costs the engine some memory, and nothing else.

Invariants
- The order is that of ``offer``. The batch in hand is sent until the channel has taken it, before any later one.
- Nothing is lost in silence: dropped notifications are counted, and logged when dropping begins and when it is over.
- ``closing`` is prompt: each channel gets one more try, and one that has not taken it by the deadline is left behind
  (its thread is a daemon).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

import structlog

from signals.notifications.channel import NotificationChannel
from signals.notifications.notification import Notification
from snapshotter.errors import cause_of
from snapshotter.log import warn_of

_log = structlog.get_logger("snapshotter.notifications")
_BATCH = 500
_RETRY_SECONDS = 0.5
_RETRY_SECONDS_MAX = 60.0
_PATIENCE_SECONDS = 60.0


class DeliveryQueue:
    """Begins at once to send to ``channel``, and closes it in the end. ``capacity``: how many notifications may wait;
    beyond it the oldest are dropped. ``retry_seconds`` is the first pause after a failure; each further one is twice as
    long."""

    def __init__(
        self, channel: NotificationChannel, capacity: int, retry_seconds: float = _RETRY_SECONDS
    ) -> None:
        self.name = channel.name
        self.dropped = 0
        self.offered = 0
        self.error: str | None = None
        self._channel = channel
        self._capacity = capacity
        self._retry_seconds = retry_seconds
        self._waiting: deque[Notification] = deque()
        self._in_hand = 0
        self._first_in_hand = 0
        self._since = 0.0
        self._full = False
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=f"notifications-{self.name}", daemon=True)
        self._thread.start()

    @property
    def left(self) -> int:
        """How many the channel has not taken yet."""
        with self._changed:
            return self._in_hand + len(self._waiting)

    def done_with(self, count: int) -> bool:
        """Whether nothing of the first ``count`` that were offered waits any more. Of a channel that has had one batch
        in hand for a minute that is said, too: it is broken, and nobody waits for it."""
        with self._changed:
            if self._in_hand and time.monotonic() - self._since > _PATIENCE_SECONDS:
                return True
            in_hand = self._in_hand > 0 and self._first_in_hand <= count
            return not in_hand and not (self._waiting and self._first_waiting <= count)

    @property
    def _first_waiting(self) -> int:
        """The number of the oldest that waits; what is dropped is the oldest, too, so numbers have no gaps."""
        return self.offered - len(self._waiting) + 1

    def offer(self, notification: Notification) -> None:
        """Put it in the queue; never waits for the channel."""
        with self._changed:
            self.offered += 1
            if len(self._waiting) >= self._capacity:
                self._waiting.popleft()
                self.dropped += 1
                if not self._full:
                    self._full = True
                    _log.warning(
                        "a notification channel does not keep up: its oldest notifications are dropped",
                        channel=self.name,
                        waiting=self._capacity,
                        dropped=self.dropped,
                        error=self.error or "",
                    )
            self._waiting.append(notification)
            self._changed.notify_all()

    def closing(self) -> None:
        """Nothing more will be offered: send what waits, then end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def await_end(self, deadline: float) -> None:
        """Wait until the channel is closed, or until ``deadline`` (by the monotonic clock), when it is left behind."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            _log.warning(
                "a notification channel is left behind: it did not take its notifications in time",
                channel=self.name,
                left=self.left,
                error=self.error or "",
            )

    # The channel's thread

    def _run(self) -> None:
        while batch := self._take():
            if not self._sent(batch):
                break
        try:
            self._channel.close()
        except Exception as error:  # noqa: BLE001 - a channel may be anybody's code, and this is its end
            warn_of(_log, "a notification channel did not close", error, channel=self.name)

    def _take(self) -> list[Notification]:
        """Wait for notifications, and take the oldest; an empty list is the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if linger := self._channel.linger_seconds:
                self._changed.wait_for(lambda: self._closing or len(self._waiting) >= _BATCH, linger)
            self._first_in_hand = self._first_waiting
            batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            self._in_hand, self._since = len(batch), time.monotonic()
            return batch

    def _sent(self, batch: Sequence[Notification]) -> bool:
        """Send until it is taken; False where it was given up at the end."""
        pause = self._retry_seconds
        while True:
            last_try = self._closing
            try:
                self._channel.send(batch)
            except Exception as error:  # noqa: BLE001 - whatever a channel raises, the engine goes on
                self._failed(error, pause)
            else:
                self._succeeded()
                return True
            with self._changed:
                if last_try:
                    _log.warning("notifications are given up", channel=self.name, lost=self.left)
                    return False
                self._changed.wait_for(lambda: self._closing, pause)
            pause = min(2 * pause, _RETRY_SECONDS_MAX)

    def _failed(self, error: Exception, pause: float) -> None:
        self.error = f"{type(error).__name__}: {cause_of(error)}"
        _log.warning(
            "a notification channel failed, and is tried again",
            channel=self.name,
            error=self.error,
            left=self.left,
            wait_seconds=pause,
        )

    def _succeeded(self) -> None:
        with self._changed:
            self._in_hand = 0
            failed, full = self.error is not None, self._full
            self.error, self._full = None, False
        if failed or full:
            _log.info("a notification channel works again", channel=self.name, dropped=self.dropped)

"""The port by which notifications leave: the log, a topic, a table, a listener in the process, or one of your own.

A channel need not be quick, nor always there. Each has a thread of its own that hands it what waits, the oldest first;
it may block as long as it likes, and raise when it could not send. Nothing but its own notifications waits for it.

Pure: standard library only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from signals.notifications.notification import Notification


class NotificationChannel(ABC):
    """Called by one thread only. Delivery is at least once: a batch whose ``send`` raised is given again, the same
    batch, before any other.

    ``name`` is for the log. ``linger_seconds``: how long the first of a batch waits for others, where each ``send`` is
    dear.
    """

    name: str = "channel"
    linger_seconds: float = 0.0

    @abstractmethod
    def send(self, batch: Sequence[Notification]) -> None:
        """Send all of them, in order; at least one. Returns once they are safe; any exception means another try."""

    def close(self) -> None:  # noqa: B027 - most channels have nothing to close
        """The last call."""


class ListenerChannel(NotificationChannel):
    """Hands each notification to a function of this process."""

    def __init__(self, listener: Callable[[Notification], None], name: str = "in-process") -> None:
        self.name = name
        self._listener = listener
        self._heard = 0

    def send(self, batch: Sequence[Notification]) -> None:
        # What the listener has taken of a batch is not given to it again because a later one failed.
        for notification in batch[self._heard :]:
            self._listener(notification)
            self._heard += 1
        self._heard = 0

"""The signal channels of one engine, those that its control loop looks at: opened at its start, closed at its end.

The signal collection is not among them, for what is inserted there comes with the stream. The inbox and the queue of
the program always are; ``signal.enabled.channels`` names the others.

What a look finds comes in groups: whoever looks makes a group's outcome durable, and by asking for the next has it
acknowledged. Where something fails, all of its group is shown again. A look that finds very much is cut off, so that
the control loop keeps its lock and its status alive: the rest is shown again, too.

A channel that is down says so in the status, and in the log once that has lasted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import structlog

from signals.actions import Action
from signals.channels.channel import (
    DistantChannel,
    SignalChannel,
)
from snapshotter.diagnosis import named
from snapshotter.errors import redact
from snapshotter.reporting.outcomes import Refusal
from snapshotter.reporting.status import ChannelReport

POLL_SIZE = 200
"""How many signals are handled together."""
_LOOK_SECONDS = 2.0
_TROUBLE_SECONDS = 5.0
_log = structlog.get_logger("snapshotter.signals")


@dataclass(slots=True)
class _Watched:
    """A channel, and for how long it has been in trouble."""

    channel: SignalChannel
    trouble: str | None = None
    since: float = 0.0
    warned: bool = False


@dataclass(frozen=True, slots=True)
class PolledSignals:
    """Signals of one channel that are handled together, and what came with them and is no signal."""

    actions: tuple[Action, ...]
    refused: tuple[Refusal, ...]


class Channels:
    """The ``channels`` for one thread, that of the control loop. ``clock`` gives seconds, and only goes up. ``asked``
    is told of each signal that comes when it was sent, in seconds since the epoch (0: nobody knows)."""

    def __init__(
        self,
        channels: Iterable[SignalChannel],
        clock: Callable[[], float] = time.monotonic,
        asked: Callable[[str, float], None] = lambda _id, _seconds: None,
    ) -> None:
        self._asked = asked
        self._watched = [_Watched(channel) for channel in channels]
        self._clock = clock
        self._took = False

    def look(self) -> Iterator[PolledSignals]:
        """What waits, in groups. A group is acknowledged when the next one is asked for: by then its outcome must be
        durable."""
        self._took = False
        for watched in self._watched:
            yield from self._take(watched.channel)
            self._examine(watched)

    def quiet(self) -> bool:
        """Whether the last look found nothing, and nothing is known to be on its way."""
        distant = [w.channel for w in self._watched if isinstance(w.channel, DistantChannel)]
        return not self._took and not any(channel.behind() for channel in distant)

    def reports(self) -> tuple[ChannelReport, ...]:
        """As the last look found them."""
        return tuple(
            ChannelReport(name=w.channel.name, trouble=w.trouble, **named(w.trouble)) for w in self._watched
        )

    def close(self) -> None:
        """Let go of them all."""
        for watched in self._watched:
            watched.channel.close()
        self._watched.clear()

    def _take(self, channel: SignalChannel) -> Iterator[PolledSignals]:
        enough = self._clock() + _LOOK_SECONDS
        waiting = channel.poll()
        self._took = self._took or bool(waiting)
        for start in range(0, len(waiting), POLL_SIZE):
            polled = waiting[start : start + POLL_SIZE]
            for one in polled:
                self._asked(one.id, one.sent_at_ms / 1000)
            refused = (Refusal(one.id, str(one.error)) for one in polled if one.action is None)
            yield PolledSignals(tuple(one.action for one in polled if one.action is not None), tuple(refused))
            channel.ack(*(received.name for received in polled))
            if self._clock() > enough:
                break

    def _examine(self, watched: _Watched) -> None:
        found = watched.channel.health()
        now, name = self._clock(), watched.channel.name
        if found is None:
            if watched.warned:
                _log.info("the signal channel works again", channel=name)
            watched.trouble, watched.warned = None, False
            return
        watched.since = now if watched.trouble is None else watched.since
        watched.trouble = redact(found)
        if not watched.warned and now - watched.since >= _TROUBLE_SECONDS:
            watched.warned = True
            _log.warning("a signal channel does not work", channel=name, why=watched.trouble)

"""Signals that were refused: the newest of them, each once, in bounded memory. They may come from several threads.

A batch that is repeated shows its signals again, and that is no news: whoever has sent a signal anew under its id would
take the old rejection for the answer. The time at which a signal was sent tells the two apart.

Ids and reasons come from outside and may be huge, so both are cut to a length that a person reads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime

from snapshotter.reporting.outcomes import Refused

KEPT = 1_000
_ID_MAX = 1_024
_WHY_MAX = 4_000


class Refusals:
    """What ``status`` shows. ``clock`` gives the time in UTC."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._newest: OrderedDict[tuple[str, str], tuple[datetime, datetime | None]] = OrderedDict()

    def add(self, signal_id: str, why: str, sent: datetime | None = None) -> tuple[str, str]:
        """A signal, by its ``signal_id``, is refused, and ``why``. Returns the two as they are reported: the reason
        names the signal. What was ``sent`` no later than what is known of the same is that very signal."""
        found = reported(signal_id, why)
        with self._guard:
            _, known = self._newest.get(found, (None, None))
            if sent is None or known is None or known < sent:
                self._newest[found] = self._clock(), sent
                self._newest.move_to_end(found)
            if len(self._newest) > KEPT:
                self._newest.popitem(last=False)
        return found

    def __contains__(self, reported: tuple[str, str]) -> bool:
        """Whether it is among them, as `add` returned it."""
        with self._guard:
            return reported in self._newest

    @property
    def newest(self) -> list[Refused]:
        """The one that was refused last is at the end."""
        with self._guard:
            return [Refused(*found, *times) for found, times in self._newest.items()]


def reported(signal_id: str, why: str) -> tuple[str, str]:
    """An id and a reason as they are told: cut, and the reason names the signal."""
    if signal_id not in why[: 2 * _WHY_MAX]:
        why = f"signal {signal_id[:_ID_MAX]!r}: {why}"
    return _cut(signal_id, _ID_MAX), _cut(why, _WHY_MAX)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"

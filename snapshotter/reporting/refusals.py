"""Signals that were refused: the newest of them, each once, in bounded memory. They may come from several threads.

Ids and reasons come from outside and may be huge, so both are cut to a length that a person reads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

KEPT = 1_000
_ID_MAX = 1_024
_WHY_MAX = 4_000


class Refusals:
    """What ``status`` shows."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._newest: OrderedDict[tuple[str, str], None] = OrderedDict()

    def add(self, signal_id: str, why: str) -> tuple[str, str]:
        """Returns the two as they are reported: the reason names the signal."""
        found = reported(signal_id, why)
        with self._guard:
            self._newest[found] = None
            if len(self._newest) > KEPT:
                self._newest.popitem(last=False)
        return found

    def __contains__(self, reported: tuple[str, str]) -> bool:
        """Whether it is among them, as `add` returned it."""
        with self._guard:
            return reported in self._newest

    @property
    def newest(self) -> list[tuple[str, str]]:
        """Ids and reasons, the newest at the end."""
        with self._guard:
            return list(self._newest)


def reported(signal_id: str, why: str) -> tuple[str, str]:
    """An id and a reason as they are told: cut, and the reason names the signal."""
    if signal_id not in why[: 2 * _WHY_MAX]:
        why = f"signal {signal_id[:_ID_MAX]!r}: {why}"
    return _cut(signal_id, _ID_MAX), _cut(why, _WHY_MAX)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}…"

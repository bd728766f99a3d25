"""The strip of windows: each from its low watermark to the commit that closed it, as the page draws it. Pure.

Moments are milliseconds since the epoch; those that have not come yet are None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from snapshotter.page.model import milliseconds
from snapshotter.reporting.window_log import LandedWindow, OpenWindow

STRIP_MS = 130_000
"""A little more than the page shows, so that a window leaves by the left edge."""
STRIP_MAX = 400


def landed(window: LandedWindow) -> dict[str, Any]:
    """A window whose rows are visible."""
    return {
        "id": window.id,
        "number": window.number,
        "collection": window.collection,
        "request": window.request_id,
        "low": milliseconds(window.low_at),
        "read": milliseconds(window.read_at),
        "high": milliseconds(window.high_at),
        "landed": milliseconds(window.landed_at),
        "rows": window.rows,
        "superseded": window.dropped,
        "deleted": window.deleted,
        "batch": window.batch,
    }


def in_flight(window: OpenWindow) -> dict[str, Any]:
    """A window that is open: of its READs nothing is known yet."""
    return {
        "id": window.id,
        "number": window.number,
        "collection": window.collection,
        "low": milliseconds(window.low_at),
        "read": milliseconds(window.read_at),
        "high": milliseconds(window.high_at),
        "landed": None,
    }


def strip_of(
    windows: Sequence[LandedWindow], flying: Iterable[OpenWindow], now_ms: int
) -> list[dict[str, Any]]:
    """The windows of the last two minutes up to ``now_ms``: of ``windows``, in the order in which they landed, then
    those that are ``flying``."""
    recent: list[dict[str, Any]] = []
    for window in islice(reversed(windows), STRIP_MAX):
        if now_ms - 1000 * window.landed_at.timestamp() >= STRIP_MS:
            break
        recent.append(landed(window))
    return recent[::-1] + [in_flight(window) for window in flying]

"""Times, numbers and tables as a person reads them: one way to say them, wherever they are shown.

Pure: standard library only, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

_STYLE = "text-align: left; white-space: nowrap; padding: 0.2em 0.8em 0.2em 0"


def duration(seconds: float | None) -> str:
    """Seconds as a person says them: 5s, 2m05s, 1h02m, 3d04h; a dash where nobody knows."""
    if seconds is None:
        return "-"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 100 else f"{hours // 24}d{hours % 24:02d}h"


def ago(seconds: float) -> str:
    """How long ago it was, roughly: ``40 s``, ``3 min``, ``5 h``, ``2 days``."""
    if seconds < 100:
        return f"{max(0, seconds):.0f} s"
    if seconds < 100 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"


def moment(at: datetime | None, now: datetime | None = None) -> str:
    """A time in UTC: of the day of ``now`` by its hour alone, of any other day with its date. A dash for None."""
    if at is None:
        return "-"
    there = at.astimezone(UTC)
    same_day = now is not None and there.date() == now.astimezone(UTC).date()
    return f"{there:%H:%M:%S}" if same_day else f"{there:%Y-%m-%d %H:%M:%S}"


def narrowed(*, filters: bool, keys: bool, ranges: bool, reconcile: bool = False) -> tuple[str, ...]:
    """What narrows a snapshot (``filters``, ``keys``, ``ranges``), and whether it deletes (``reconcile``), by the words
    of its signal."""
    words = (("filter", filters), ("keys", keys), ("range", ranges), ("reconcile", reconcile))
    return tuple(word for word, true in words if true)


def html_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table for a notebook, with a ``caption`` above its ``headings`` and ``rows``; every cell is text, whatever is
    in it. Without headings the caption stands alone."""
    head = "".join(f'<th style="{_STYLE}">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_STYLE}">{escape(str(cell))}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if headings else ""
    return f"<p>{escape(caption)}</p>{table}"

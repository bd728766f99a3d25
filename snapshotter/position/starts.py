"""Where a life of the position is to begin, as an operator writes it: ``now``, ``oldest``, a time, a resume token, or a
file that ``position export`` wrote.

A time is the first that is read: what carries it is read (again) rather than lost. A resume token is kept whole, and
the stream begins behind it; nothing here looks into one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import bson
from bson.errors import BSONError

from streaming.positions import ClusterTime

EXPECTED = (
    "now, oldest, an ISO 8601 time, a 64-bit BSON timestamp, seconds.increment, a resume token (its hex _data, or "
    'JSON {"_data": "..."}), or a file that position export wrote'
)
_PAIR = re.compile(r"(\d{1,10})\.(\d{1,10})")
_TOKEN = re.compile(r"(?:[0-9a-fA-F]{2}){9,}")
_NUMBER_DIGITS = 20


class Named(StrEnum):
    """Ends of the oplog."""

    NOW = "now"
    OLDEST = "oldest"


@dataclass(frozen=True, slots=True)
class Start:
    """Exactly one is set: an end of the oplog (``named``), a ``time``, or a ``token`` (raw BSON). ``inclusive``: what
    carries the time is read; else the stream begins behind it, as it does behind a token."""

    named: Named | None = None
    time: ClusterTime | None = None
    token: bytes | None = None
    inclusive: bool = True

    def __str__(self) -> str:
        if self.named is not None:
            return self.named.value
        return "a resume token" if self.time is None else str(self.time)


def parse_start(text: str) -> Start:
    """What one text means, but for a file. Raises ValueError, which says what is expected."""
    text = text.strip()
    if text in (*Named,):
        return Start(named=Named(text))
    if text.startswith("{"):
        return Start(token=token_of_json(text))
    if len(text) <= _NUMBER_DIGITS and text.isdecimal():
        return Start(time=_of_number(int(text)))
    if pair := _PAIR.fullmatch(text):
        return Start(time=ClusterTime(int(pair[1]), int(pair[2])))
    if _TOKEN.fullmatch(text):
        return Start(token=bson.encode({"_data": text}))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no position: expected {EXPECTED}") from None
    return Start(time=time_of(moment))


def token_of_json(text: str) -> bytes:
    """The raw token in ``{"_data": "..."}``. Raises ValueError."""
    try:
        value = json.loads(text)
        data = value.get("_data") if isinstance(value, dict) else None
        raw = bson.encode(value) if isinstance(data, str) else None
    except (ValueError, BSONError, TypeError, OverflowError) as error:
        raise ValueError(f'{text[:80]!r} is no resume token {{"_data": "..."}}: {error}') from error
    if raw is None:
        raise ValueError(f'{text[:80]!r} is no resume token {{"_data": "..."}}: it has no _data')
    return raw


def time_of(moment: datetime) -> ClusterTime:
    """The first cluster time of the second that ``moment`` lies in; without a zone it is UTC. Raises ValueError."""
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    seconds = int(moment.timestamp())
    if seconds <= 0:
        raise ValueError(f"{moment.isoformat()} lies before every oplog")
    return ClusterTime(seconds, 0)


def _of_number(value: int) -> ClusterTime:
    if value < 1 << 32:
        raise ValueError(
            f"{value} is no 64-bit BSON timestamp (seconds << 32 | increment); for a time in seconds write {value}.0"
        )
    if value >= 1 << 64:
        raise ValueError(f"{value} is no 64-bit BSON timestamp: it is too large")
    return ClusterTime.from_int(value)

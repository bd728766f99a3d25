"""Where a position may be set to: every form that an operator may write, and what is none."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshotter.position.own_file import export, parse_export, read_start
from snapshotter.position.starts import Named, Start, parse_start, time_of
from streaming.positions import ClusterTime

TIMES = st.builds(ClusterTime, st.integers(1, (1 << 32) - 1), st.integers(0, (1 << 32) - 1))


@given(TIMES)
def test_a_time_is_read_as_it_is_shown(time: ClusterTime) -> None:
    """As 64-bit BSON timestamp, and as seconds and increment: what carries it is read again."""
    assert parse_start(str(time.to_int())) == parse_start(f" {time} ") == Start(time=time)
    assert Start(time=time).inclusive


@given(st.datetimes(datetime(1971, 1, 1), datetime(2105, 1, 1)), st.integers(-12, 14))  # noqa: DTZ001 - a zone is added
def test_a_moment_is_its_second(moment: datetime, hours: int) -> None:
    """In any zone; without one it is UTC, and what lies within its second is read."""
    aware = moment.replace(tzinfo=timezone(timedelta(hours=hours)))
    expected = ClusterTime(int(aware.timestamp()), 0)
    assert parse_start(aware.isoformat()) == Start(time=expected)
    assert time_of(aware.astimezone(UTC).replace(tzinfo=None)) == expected


@given(st.binary(min_size=9, max_size=60))
def test_a_token_stays_whole(data: bytes) -> None:
    """By its hex, or as JSON; nothing of it is looked at."""
    text = data.hex().upper()
    if text.isdecimal() and len(text) <= 20:
        return
    raw = bson.encode({"_data": text})
    assert parse_start(text).token == raw
    assert parse_start(json.dumps({"_data": text})).token == raw


def test_more_of_a_token_than_its_data_stays() -> None:
    """A token of another server version may hold more."""
    token = parse_start('{"_data": "8265", "_typeBits": 1}').token
    assert token == bson.encode({"_data": "8265", "_typeBits": 1})


def test_ends_of_the_oplog_have_names() -> None:
    """``now`` and ``oldest``."""
    assert [parse_start(name).named for name in ("now", "oldest")] == [Named.NOW, Named.OLDEST]
    assert str(parse_start("oldest")) == "oldest"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("soon", "expected now, oldest, an ISO 8601 time"),
        ("", "expected now"),
        ("1764000000", "for a time in seconds write 1764000000.0"),
        (str(1 << 64), "too large"),
        ("{}", "it has no _data"),
        ('{"_data": 5}', "it has no _data"),
        ("{_data: 1}", "no resume token"),
        ("1960-01-01", "before every oplog"),
        ("4294967296.0", "32-bit"),
    ],
)
def test_what_is_no_position_is_refused(text: str, said: str) -> None:
    """With what was expected."""
    with pytest.raises(ValueError, match=said):
        read_start(text)


@given(TIMES)
def test_an_export_is_read_behind_its_position(time: ClusterTime) -> None:
    """All up to it has landed."""
    assert parse_export(export("shop", time)) == Start(time=time, inclusive=False)


def test_a_file_is_read_where_no_form_fits(tmp_path: Path) -> None:
    """One of ``position export``; what others have stored is for import, and said to be."""
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    ours.write_text(export("shop", ClusterTime(1764000000, 7)))
    theirs.write_text('{"sec": 5}')
    assert read_start(str(ours)).time == ClusterTime(1764000000, 7)
    with pytest.raises(ValueError, match="position import"):
        read_start(str(theirs))
    for broken in (
        "x",
        '{"snapshotter": "position", "format": 9}',
        '{"snapshotter": "position", "format": 1}',
    ):
        theirs.write_text(broken)
        with pytest.raises(ValueError, match="position export"):
            read_start(str(theirs))

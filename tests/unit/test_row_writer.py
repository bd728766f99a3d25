"""Which writer a landing gets, decided from values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.delta.row_writer import NOTHING_KNOWN, By, How, Known, choose

PROVEN = Known(5, distinct=True, held=True, deletes=0)
FEED = "the table has a feed"


@pytest.mark.parametrize(
    ("known", "lacks", "off", "by", "reason"),
    [
        (PROVEN, None, None, By.UPSERT, "deletion vectors"),
        (PROVEN, None, "a.switch", By.MERGE, "a.switch is off"),
        (PROVEN, FEED, None, By.MERGE, "has a feed"),
        (NOTHING_KNOWN, None, None, By.MERGE, "not proven distinct"),
        (replace(PROVEN, held=False), None, None, By.MERGE, "not proven distinct"),
        (replace(PROVEN, deletes=None), None, None, By.MERGE, "not proven distinct"),
    ],
)
def test_who_merges_and_why(known: Known, lacks: str | None, off: str | None, by: By, reason: str) -> None:
    """Ours where it may be; what keeps us from it can be changed, so it is said to be slower."""
    found = choose("merge", known, lambda: lacks, off)
    assert found.by is by
    assert reason in found.reason
    assert found.slower == (off is not None or lacks is not None)


def asked() -> str | None:
    raise AssertionError("asked")


@pytest.mark.parametrize(("how", "by"), [("append", By.APPEND), ("replace", By.MERGE), ("insert", By.MERGE)])
def test_what_is_no_merge_of_known_rows(how: How, by: By) -> None:
    """An append is one whoever writes it, and a backfill is made of appends; the two others only Delta does. The table
    is asked nothing for it: that takes calls into the JVM, at each landing."""
    assert choose(how, PROVEN, asked, None).by is by

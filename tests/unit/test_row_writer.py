"""Which writer a landing gets, decided from values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streaming.delta.row_writer import NOTHING_KNOWN, By, How, Known, TableFacts, choose

MB = 10**6
PROVEN = Known(5, distinct=True, held=True, deletes=0)
LARGE = TableFacts(files=lambda: 9, size_bytes=lambda: 20 * MB, small_bytes=4 * MB, lacks=lambda: None)
SMALL = replace(LARGE, size_bytes=lambda: 2 * MB)
FEED = replace(LARGE, lacks=lambda: "the table has a feed")


@pytest.mark.parametrize(
    ("known", "table", "off", "more", "by", "reason"),
    [
        (PROVEN, LARGE, None, {}, By.UPSERT, "large (20.0 MB)"),
        (PROVEN, SMALL, None, {}, By.MERGE, "small (2.0 MB)"),
        (PROVEN, SMALL, None, {"adds": True}, By.UPSERT, "join the commit"),
        (PROVEN, SMALL, None, {"heals": True}, By.UPSERT, "several rows"),
        (PROVEN, replace(SMALL, files=lambda: 0, size_bytes=lambda: 0), None, {}, By.UPSERT, "empty"),
        (replace(PROVEN, size_bytes=70 * MB), SMALL, None, {}, By.UPSERT, "batch is large (70.0 MB)"),
        (PROVEN, LARGE, "a.switch", {"adds": True}, By.MERGE, "a.switch is off"),
        (PROVEN, FEED, None, {"adds": True}, By.MERGE, "has a feed"),
        (NOTHING_KNOWN, LARGE, None, {}, By.MERGE, "not proven distinct"),
        (replace(PROVEN, held=False), LARGE, None, {}, By.MERGE, "not proven distinct"),
        (replace(PROVEN, deletes=None), LARGE, None, {}, By.MERGE, "not proven distinct"),
    ],
)
def test_who_merges_and_why(
    known: Known, table: TableFacts, off: str | None, more: dict[str, bool], by: By, reason: str
) -> None:
    """Ours where it may be and is worth it; what keeps us from it can be changed, so it is said to be slower."""
    found = choose("merge", known, table, off, **more)
    assert found.by is by
    assert reason in found.reason
    assert found.slower == (off is not None or table is FEED)


@pytest.mark.parametrize(("how", "by"), [("append", By.APPEND), ("replace", By.MERGE), ("insert", By.MERGE)])
def test_what_is_no_merge_of_known_rows(how: How, by: By) -> None:
    """An append is one whoever writes it; the two others only Delta does."""
    assert choose(how, PROVEN, LARGE, None).by is by


def test_a_small_table_is_not_asked_for_its_features() -> None:
    """That takes calls into the JVM, at each landing."""

    def asked() -> str | None:
        raise AssertionError("asked")

    assert choose("merge", PROVEN, replace(SMALL, lacks=asked), None).by is By.MERGE


def test_an_append_asks_nothing_of_the_table() -> None:
    """It is one whatever the table is, and a backfill is made of appends."""

    def asked() -> int:
        raise AssertionError("asked")

    unasked = replace(LARGE, files=asked, size_bytes=asked)
    assert choose("append", PROVEN, unasked, None).by is By.APPEND
    assert choose("merge", PROVEN, unasked, None, adds=True).by is By.UPSERT

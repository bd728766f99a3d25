"""`bench.sizing`: the ceilings of a cluster, from what its parts take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.sizing import (
    CHUNK_DOCUMENTS,
    MEASURED,
    MILLION,
    Parts,
    Shape,
    backfill,
    batch,
    bound,
    stream,
    tables,
)
from tests.support.sources import ROOT

PARTS = Parts(
    read_mongod=2,
    read_executors=10,
    read_driver=1,
    landing_million=1,
    change_mongod=20,
    change_executors=40,
    change_driver=10,
    cursor_million=20,
    cycle_seconds=1,
)


def test_a_backfill_is_as_fast_as_its_slowest_part() -> None:
    """Executors first; then so many chunks at a time, or what windows in flight leave for a commit; then commits, or
    the server."""
    assert bound(backfill(PARTS, Shape(1))) == ("executors", 100_000)
    ten = Shape(10)
    assert bound(backfill(PARTS, ten)) == ("chunks at a time", 200_000)
    few = replace(ten, threads=10)
    assert backfill(PARTS, few)["chunks at a time"] == 600_000
    rows = few.windows * CHUNK_DOCUMENTS
    assert bound(backfill(PARTS, few)) == ("driver, commits", pytest.approx(rows / (1 + rows / MILLION)))
    assert bound(backfill(PARTS, ten.opened())) == ("driver, commits", pytest.approx(600_000 / 1.6))
    large = replace(Shape(100).opened(), commit_rows=10 * MILLION)
    assert bound(backfill(PARTS, large)) == ("driver, commits", pytest.approx(10 * MILLION / 11))
    assert bound(backfill(PARTS, replace(large, mongod_cores=1))) == ("mongod", 500_000)


def test_beside_changes_options_do_not_open_more_windows() -> None:
    """However many cores there are."""
    shape = Shape(100).opened()
    assert backfill(PARTS, shape)["chunks at a time"] == 10 * MILLION
    assert backfill(PARTS, shape.beside_changes())["chunks at a time"] == pytest.approx(1_100_000)


def test_the_phases_of_a_batch_add_up() -> None:
    """Cursors are no more than `engine.stream.readers`, so workers beyond shorten one of the phases alone."""
    assert batch(PARTS, Shape(1)) == {"fixed": 1.0, "cursors": 4.0, "executors": 8.0}
    assert batch(PARTS, Shape(100)) == {"fixed": 1.0, "cursors": 1.0, "executors": pytest.approx(0.08)}
    rates = stream(PARTS, Shape(1))
    assert rates["batch, executors"] == pytest.approx(200_000 / 13)
    assert bound(stream(PARTS, Shape(100, stream_readers=1)))[0] == "batch, cursors"
    assert bound(stream(PARTS, Shape(100, mongod_cores=1))) == ("mongod", 50_000)


def test_the_page_has_what_is_computed() -> None:
    """``docs/sizing.md``, as ``python -m bench.sizing`` prints it, and each part by its value."""
    page = (ROOT / "docs" / "sizing.md").read_text(encoding="utf-8")
    assert tables(MEASURED) in page, "put what `python -m bench.sizing` prints into docs/sizing.md"
    values = [getattr(MEASURED, name) for name in Parts.__slots__]
    assert [value for value in values if f"| {value:g} |" not in page] == []

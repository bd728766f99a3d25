"""Soft deletes, by whatever writes rows by key: Delta's own MERGE, with and without deletion vectors, and our upsert.

One contract for all, beside that of `test_row_writers`; the last test names the difference.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from streaming.delta.comparison import Found
from streaming.delta.state_merge import DeltaMerge
from tests.support import tables
from tests.support.row_writers import WRITERS, Bench, Change, counts


@pytest.fixture(
    params=[pytest.param(w, marks=[pytest.mark.thorough] * (w == "merge, files rewritten")) for w in WRITERS]
)
def soft(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Bench:
    """Of a table that keeps the rows of deleted documents."""
    return Bench(spark, tmp_path / "ord ers", WRITERS[request.param], soft=True)


def test_batch_after_batch_the_rows_say_what_happened(soft: Bench, rng: random.Random) -> None:
    """A deleted row keeps its document, under the time and the operation of the newest delete; one that comes again is
    live, as its document says. A delete of a key that the table has never had leaves no row. No row is ever without
    the mark, and to Delta a soft delete is an update."""
    keys = [f"k{n:02}" for n in range(12)]
    expected: dict[str, tuple[int | None, bool | None, int, str]] = {}
    for batch in range(6):
        changes: list[Change] = [
            (k, batch, rng.choice("cudd")) for k in rng.sample(keys, rng.randrange(1, 9))
        ]
        before = dict(expected)
        for key, n, op in changes:
            if op != "d":
                expected[key] = (n, False, batch, op)
            elif key in expected:
                expected[key] = (expected[key][0], True, batch, "d")
        commit = soft.at(batch).write(batch, *changes)
        inserted = len(expected.keys() - before.keys())
        updated = sum(key in before for key, _, _ in changes)
        assert counts(commit) == (inserted, updated, 0)
        assert commit is not None
        assert commit.count("numSourceRows") == len(changes)
        assert soft.marked() == expected


def test_what_somebody_added_stays_too(soft: Bench) -> None:
    """A delete knows nothing of other columns, and nothing takes the row's place; what revives it does."""
    soft.write(0, ("a", 1, "c"), ("b", 2, "c"))
    name = f"delta.`{soft.path}`"
    soft.spark.sql(f"ALTER TABLE {name} ADD COLUMNS (theirs STRING)")
    soft.spark.sql(f"UPDATE {name} SET theirs = 'x'")
    soft.schema = soft.schema.add("theirs", "string")
    for batch, change in (1, ("a", None, "d")), (2, ("b", 3, "u")):
        source = soft.source([change])
        assert source.rows is not None
        rows = source.rows.withColumn("theirs", F.lit(None).cast("string"))
        soft.write_source(batch, replace(source, rows=rows))
    found = {row["_key"]: (row["n"], row["theirs"]) for row in tables.rows(soft.path, "_key, n, theirs")}
    assert found == {"a": (1, "x"), "b": (3, None)}


def test_a_read_equals_no_deleted_row(soft: Bench) -> None:
    """It brings it back, also with the same document, and is told from one that changes a live row. Once more read, it
    is equal."""
    soft.write(0, ("a", 1, "c"), ("b", 2, "c"), ("c", 3, "c"), ("d", 4, "c"))
    soft.at(2).write(1, ("a", None, "d"), ("b", None, "d"))
    reads: list[tuple[str, int | None]] = [("a", 1), ("b", 20), ("c", 3), ("d", 40), ("e", 5)]
    assert soft.at(3).read(2, *reads) == Found(changed=1, unchanged=1, revived=2)
    live = {key: (n, False, 3, "r") for key, n in reads} | {"c": (3, False, 1, "c")}
    assert soft.marked() == live
    assert soft.at(4).read(3, *reads) == Found(unchanged=5)
    assert soft.marked() == live


def test_all_reads_are_written_where_that_is_wanted(soft: Bench) -> None:
    """Deleted rows are revived by that, and live ones changed; deletes beside them are soft."""
    soft.write(0, ("a", 1, "c"), ("b", 2, "c"), ("c", 3, "c"))
    soft.at(2).write(1, ("a", None, "d"))
    found = soft.at(3).read(2, ("a", 1), ("b", 2), beside=[("c", None, "d"), ("x", None, "d")], rewrite=True)
    assert found == Found(changed=1, revived=1)
    assert soft.marked() == {"a": (1, False, 3, "r"), "b": (2, False, 3, "r"), "c": (3, True, 3, "d")}


def test_rows_without_the_mark_are_live(soft: Bench) -> None:
    """As after a switch: an equal READ leaves them as they are, and a delete marks them."""
    soft.write(0, ("a", 1, "c"), ("b", 2, "c"))
    soft.spark.sql(f"UPDATE delta.`{soft.path}` SET _deleted = NULL")
    assert soft.at(2).read(1, ("a", 1), ("b", 2)) == Found(unchanged=2)
    soft.at(3).write(2, ("b", None, "d"))
    assert soft.marked() == {"a": (1, None, 1, "c"), "b": (2, True, 3, "d")}


def test_rows_proven_new_are_appended_as_live(soft: Bench) -> None:
    """They have the mark as well."""
    soft.write(0, ("a", 1, "r"), ("b", 2, "r"), how="append")
    assert soft.marked() == {"a": (1, False, 1, "r"), "b": (2, False, 1, "r")}


def test_difference_a_deleted_key_that_has_two_rows(soft: Bench) -> None:
    """The same: an upsert keeps one of them."""
    soft.write(0, ("a", 1, "c"), how="append")
    soft.write(1, ("a", 1, "c"), how="append")
    soft.write(2, ("a", None, "d"))
    found = tables.rows(soft.path, "_key, n, _deleted")
    row = {"_key": "a", "n": 1, "_deleted": True}
    assert found == [row] * (2 if isinstance(soft.writer, DeltaMerge) else 1)

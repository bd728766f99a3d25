"""What writes rows by key into a state table: Delta's own MERGE, with and without deletion vectors, and our upsert.

One contract for all (`streaming.delta.row_writer.RowWriter`); the tests at the end name each difference.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from streaming.delta.comparison import Found
from streaming.delta.old_rows import Unsound
from streaming.delta.row_writer import Batch, Source
from streaming.delta.state_merge import DUPLICATE, OUTSIDE, DeltaMerge
from streaming.delta.table_demands import Unsupported
from streaming.delta.transaction import Transaction
from tests.support.row_writers import ALL_WRITERS, READERS, WRITERS, Bench, Change, InFiles, counts


@pytest.fixture(params=ALL_WRITERS)
def bench(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path / "ord ers", ALL_WRITERS[request.param])


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path / "ord ers", READERS[request.param])


def test_batch_after_batch_the_table_is_what_the_changes_say(bench: Bench, rng: random.Random) -> None:
    """Rows and counts, for inserts, updates, deletes, and deletes of keys that nobody has."""
    keys = [f"k{n:02}" for n in range(12)]
    expected: dict[str, int] = {}
    for batch in range(6):
        changes: list[Change] = [(k, batch, rng.choice("cud")) for k in rng.sample(keys, rng.randrange(1, 9))]
        kept = {key: n for key, n, op in changes if op != "d" and n is not None}
        removed = {key for key, _, op in changes if op == "d"}
        commit = bench.write(batch, *changes)
        assert counts(commit) == (
            len(kept.keys() - expected.keys()),
            len(kept.keys() & expected.keys()),
            len(removed & expected.keys()),
        )
        expected = {key: n for key, n in {**expected, **kept}.items() if key not in removed}
        assert bench.rows() == sorted(expected.items())


def test_the_commit_records_its_batch_and_says_what_it_was_given(bench: Bench) -> None:
    """The batch under the application's id, for whoever asks whether it has landed; also one that changes nothing."""
    for batch, op in enumerate("cd"):
        commit = bench.write(batch, ("a" if op == "c" else "z", 1, op))
        newest = bench.log.newest()
        assert newest is not None
        assert newest.recorded("e") == batch
        assert commit is not None
        assert (commit.operation, commit.user_metadata) == ("MERGE", f'{{"batch": {batch}}}')


def test_a_batch_that_is_recorded_is_left_out(bench: Bench) -> None:
    """Whatever it holds this time, merged or appended."""
    bench.write(7, ("a", 1, "c"))
    version = bench.version()
    bench.write(7, ("b", 1, "c"))
    bench.write(6, ("c", 1, "r"), how="append")
    assert (bench.rows(), bench.version()) == ([("a", 1)], version)


def test_rows_of_new_keys_are_appended(bench: Bench) -> None:
    """In a commit that records the batch."""
    bench.write(0, ("a", 1, "c"))
    commit = bench.write(1, ("b", 2, "r"), ("c", 3, "r"), how="append")
    assert commit is not None
    assert (commit.operation, commit.count("numOutputRows")) == ("WRITE", 2)
    assert bench.rows() == [("a", 1), ("b", 2), ("c", 3)]
    newest = bench.log.newest()
    assert newest is not None
    assert newest.recorded("e") == 1


def test_a_key_outside_the_ranges_fails_before_anything_is_written(bench: Bench) -> None:
    """It would be inserted beside its old row."""
    bench.write(0, ("a", 0, "c"), ("m", 0, "c"))
    version = bench.version()
    with pytest.raises(Exception, match=OUTSIDE):
        bench.write(1, ("a", 1, "u"), ("m", 1, "u"), ranges=[("a", "b")])
    assert (bench.rows(), bench.version()) == ([("a", 0), ("m", 0)], version)


def test_keys_may_lie_anywhere_where_no_ranges_are_given(bench: Bench) -> None:
    """The whole table is searched then."""
    bench.write(0, ("a", 0, "c"), ("m", 0, "c"))
    source = bench.source([("m", 1, "u"), ("z", 1, "c")])
    bench.write_source(1, Source(source.rows, None, source.known))
    assert bench.rows() == [("a", 0), ("m", 1), ("z", 1)]


def test_what_a_reader_keeps_in_sparks_cache_is_refreshed(bench: Bench) -> None:
    """Else whoever cached the table would go on seeing what was there before."""
    bench.write(0, ("a", 1, "c"))
    kept = bench.spark.read.format("delta").load(str(bench.path)).cache()
    try:
        assert kept.count() == 1
        bench.write(1, ("b", 2, "c"))
        assert bench.spark.read.format("delta").load(str(bench.path)).count() == 2
    finally:
        kept.unpersist()


def test_reads_that_equal_their_rows_are_not_written(reader: Bench) -> None:
    """Counted instead. What differs takes the place of its row, what is new comes besides, and when or by what a row
    was written is no difference. Where all are equal the batch is recorded, and no file comes or goes."""
    reader.write(0, ("a", 1, "c"), ("b", 2, "u"), ("c", 3, "r"))
    found = reader.read(1, ("a", 1), ("b", 20), ("c", 3), ("d", 4))
    assert (found, reader.rows()) == (Found(1, 2), [("a", 1), ("b", 20), ("c", 3), ("d", 4)])
    files = reader.files()
    assert reader.read(2, ("a", 1), ("b", 20), ("c", 3), ("d", 4)) == Found(0, 4)
    assert reader.files() == files
    newest = reader.log.newest()
    assert newest is not None
    assert newest.recorded("e") == 2


def test_reads_land_beside_other_rows(reader: Bench) -> None:
    """In the one commit of the batch: events are written whatever the table has, and deletes are deletes."""
    reader.write(0, *((key, 1, "c") for key in "abcd"))
    found = reader.read(1, ("c", 1), ("d", 4), beside=[("a", 1, "u"), ("b", None, "d"), ("e", 5, "c")])
    assert (found, reader.rows()) == (Found(1, 1), [("a", 1), ("c", 1), ("d", 4), ("e", 5)])
    assert reader.version() == 2


def test_all_reads_are_written_where_that_is_wanted(reader: Bench) -> None:
    """Those that equal their rows count as changed."""
    reader.write(0, ("a", 1, "c"), ("b", 2, "c"))
    files = reader.files()
    assert reader.read(1, ("a", 1), ("b", 2), ("c", 3), rewrite=True) == Found(2, 0)
    assert reader.rows() == [("a", 1), ("b", 2), ("c", 3)]
    assert reader.files() != files


def test_nulls_and_what_is_rescued_are_compared(reader: Bench) -> None:
    """A null is no value, and a row that somebody has altered by hand differs, in our columns only."""
    reader.write(0, ("a", None, "c"), ("b", 2, "c"), ("c", 3, "c"), ("d", 4, "c"))
    name = f"delta.`{reader.path}`"
    reader.spark.sql(f"UPDATE {name} SET _rescued_data = '{{}}' WHERE _key = 'b'")
    reader.spark.sql(f"UPDATE {name} SET _cluster_time = 99, _op = 'u' WHERE _key = 'c'")
    reader.spark.sql(f"ALTER TABLE {name} ADD COLUMNS (theirs STRING)")
    reader.spark.sql(f"UPDATE {name} SET theirs = 'x' WHERE _key = 'd'")
    reads: list[tuple[str, int | None]] = [("a", None), ("b", 2), ("c", 3), ("d", 4)]
    assert reader.read(1, *reads, theirs=True) == Found(1, 3)
    assert reader.read(2, ("a", 1), ("b", None), theirs=True) == Found(2, 0)


def test_a_key_that_has_several_rows_equals_none_of_them(reader: Bench) -> None:
    """As after two engines: it is written, so that it can be left with one row."""
    reader.write(0, ("a", 1, "c"), ("b", 2, "c"), how="append")
    reader.write(1, ("a", 1, "c"), how="append")
    assert reader.read(2, ("a", 1), ("b", 2)) == Found(1, 1)


# The differences


def test_difference_how_old_rows_go(bench: Bench) -> None:
    """Marked in deletion vectors, or with their file, which is rewritten without them."""
    bench.write(0, *((f"k{n}", n, "c") for n in range(9)))
    commit = bench.write(1, ("k3", 30, "u"))
    assert commit is not None
    marked = commit.count("numTargetDeletionVectorsAdded"), commit.count("numTargetRowsCopied")
    rewrites = isinstance(bench.writer, DeltaMerge) and not bench.writer.vectors
    assert marked == ((0, 8) if rewrites else (1, 0))


def test_difference_a_key_that_comes_twice(bench: Bench) -> None:
    """A MERGE looks for it unless it is promised that there is none. An upsert needs the promise; it looks where the
    driver has the keys of rows that lie in files."""
    twice = ("a", 1, "c"), ("a", 2, "c")
    if isinstance(bench.writer, DeltaMerge):
        with pytest.raises(Exception, match=DUPLICATE):
            bench.write(0, *twice, distinct=False)
        assert bench.rows() == []
    elif isinstance(bench.writer, InFiles) and bench.writer.kept is not None:
        with pytest.raises(Unsound):
            bench.write(0, *twice, distinct=True)
        assert bench.rows() == []
    else:
        bench.write(0, *twice, distinct=True)
        assert bench.rows() == [("a", 1), ("a", 2)], "why `choose` gives it no source without the promise"


def test_difference_a_key_that_has_two_rows_in_the_table(bench: Bench) -> None:
    """As after two engines: a MERGE updates each of them, an upsert leaves one. So what heals is upserted."""
    bench.write(0, ("a", 1, "c"), how="append")
    bench.write(1, ("a", 2, "c"), how="append")
    bench.write(2, ("a", 3, "u"))
    assert bench.rows() == [("a", 3)] * (2 if isinstance(bench.writer, DeltaMerge) else 1)


def test_difference_a_table_that_asks_more_of_its_writers(bench: Bench) -> None:
    """A MERGE writes the change data feed; an upsert refuses the table, and nothing is written."""
    bench.write(0, ("a", 1, "c"))
    name = f"delta.`{bench.path}`"
    bench.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    if isinstance(bench.writer, DeltaMerge):
        bench.write(1, ("a", 2, "u"))
        feed = bench.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 3)
        kinds = {row["_change_type"] for row in feed.load(str(bench.path)).collect()}
        assert kinds == {"update_preimage", "update_postimage"}
    else:
        for how in "merge", "append":
            with pytest.raises(Unsupported, match="changeDataFeed"):
                bench.write(1, ("a", 2, "u"), how=how)
        assert bench.rows() == [("a", 1)]


def test_difference_two_that_append_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta's append reads nothing, so both succeed; ours counts its ranges as read, and the second is a conflict."""
    other = Bench(bench.spark, bench.path, WRITERS["merge, old rows marked"])
    mark = Batch("another", 0, "{}")
    if isinstance(bench.writer, DeltaMerge):
        bench.write(0, ("a", 1, "r"), how="append")
        other.writer.append(other.source([("a", 1, "r")]), mark)
        assert bench.rows() == [("a", 1)] * 2
        return
    wrote = Transaction.write

    def while_it_writes(transaction: Transaction, rows: DataFrame) -> tuple[int, int]:
        monkeypatch.undo()
        other.writer.append(other.source([("a", 1, "r")]), mark)
        return wrote(transaction, rows)

    monkeypatch.setattr(Transaction, "write", while_it_writes)
    with pytest.raises(Exception, match=r"[Cc]oncurrent"):
        bench.write(0, ("a", 1, "r"), how="append")
    assert bench.rows() == [("a", 1)]

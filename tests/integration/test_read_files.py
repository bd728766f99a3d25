"""READs in files of a table's folder whose keys the table may have: what of them a commit adds, and what it takes
out."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
import pytest
from delta.exceptions import ConcurrentAppendException

from streaming.delta import new_files, state_upsert
from streaming.delta.attempts import Altered
from streaming.delta.comparison import Found
from streaming.delta.file_matching import Matched, Matching, OldFile, Task, tasks
from streaming.delta.landed import Landed
from streaming.delta.marked_rows import marked_rows, rows_in
from streaming.delta.new_files import FileGone, NewFile, hide
from streaming.delta.row_writer import By, Known
from streaming.delta.state_merge import OUTSIDE
from streaming.delta.state_upsert import Upsert
from streaming.delta.transaction import Transaction
from streaming.jvm import packages, singleton
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from tests.support.new_files import PLAN, TIME, Made, made, some, written

__all__ = ["made"]


def grown(rows: dict[str, int], every: int = 1) -> dict[str, int]:
    """The same with another value at one key in so many."""
    return {key: n + 1_000 if n % every == 0 else n for key, n in rows.items()}


def leftover(made: Made) -> set[str]:
    """Files of READs that no version names."""
    return {file.name for file in made.path.glob("reads-*")} - made.named()


def test_the_files_themselves_take_the_place_of_rows(made: Made) -> None:
    """All differ: the table has the new file, and the old one is gone, without a deletion vector."""
    old, new = written(made.path, some(0, 50)), written(made.path, grown(some(0, 60)), 2)
    made.append(0, [old])
    version = made.table.version()
    assert made.read(1, [new]) == Landed(True, version + 1, 60, 10, 50, 0, Found(50, 0))
    assert made.rows() == grown(some(0, 60))
    assert (made.named(), made.table.named) == ({new.name}, {new.name})
    assert not [add for add in made.actions("add") if add.get("deletionVector")]


def test_what_equals_its_row_is_marked_in_the_new_file(made: Made) -> None:
    """Its row stays where it is; those that differ are marked in the old one: one commit."""
    old, new = written(made.path, some(0, 50)), written(made.path, grown(some(0, 50), 2), 2)
    made.append(0, [old])
    version = made.table.version()
    assert made.read(1, [new]) == Landed(True, version + 1, 25, 0, 25, 0, Found(25, 25))
    assert made.rows() == grown(some(0, 50), 2)
    assert made.named() == {old.name, new.name}
    assert made.table.recorded_batch() == 1


def test_where_little_differs_it_is_written_alone(made: Made) -> None:
    """One new file with those rows, of several that were read; nobody reads past rows that are never seen. They hold as
    of the latest time of any, so that no row is of an earlier time than the one before. Those files are not named."""
    made.append(0, [written(made.path, some(0, 100))])
    before = made.named()
    read = [written(made.path, grown(some(at, 50), 10), 2, TIME + at) for at in (50, 0)]
    assert made.read(1, read).found == Found(10, 90)
    assert made.rows() == grown(some(0, 100), 10)
    (new,) = made.named() - before
    assert new not in {file.name for file in read}
    (said,) = (json.loads(add["stats"]) for add in made.actions("add") if add["path"] == new)
    assert said["numRecords"] == 10
    assert said["minValues"] == {"_key": "k0000", "_cluster_time": TIME + 50}
    assert said["maxValues"] == {"_key": "k0090", "_cluster_time": TIME + 50}


def test_of_a_sound_table_nothing_is_written(made: Made) -> None:
    """The batch is recorded."""
    made.append(0, [written(made.path, some(0, 30)), written(made.path, some(30, 30), 2)])
    before = made.named()
    assert made.read(1, [written(made.path, some(0, 60), 3)]).found == Found(0, 60)
    assert (made.named(), made.table.named) == (before, frozenset())
    assert made.table.recorded_batch() == 1


def test_all_is_written_where_that_is_wanted(made: Made) -> None:
    """Whatever the table has."""
    made.append(0, [written(made.path, some(0, 30))])
    new = written(made.path, some(0, 30), 2)
    assert made.read(1, [new], rewrite=True).found == Found(30, 0)
    assert made.named() == {new.name}


def test_reads_that_gave_way_take_no_row_out(made: Made) -> None:
    """Their events say what becomes of it, in the same commit: updated, deleted, or left as an earlier batch has it."""
    made.append(0, [written(made.path, some(0, 10))])
    read = written(made.path, grown(some(0, 10)), 2)
    new = hide(made.folder, read, pa.array(["k0001", "k0002", "k0003"]))
    landed = made.read(1, [new], {"k0001": (7, "u"), "k0002": (None, "d")})
    assert landed == Landed(True, landed.version, 9, 0, 8, 1, Found(7, 0))
    expected = grown(some(0, 10)) | {"k0001": 7, "k0003": 3}
    del expected["k0002"]
    assert made.rows() == expected


def test_rows_that_are_marked_already_are_not_met(made: Made) -> None:
    """Keys that were deleted come back; marks of before stay. A key that has two rows equals neither."""
    made.append(0, [written(made.path, some(0, 40)), written(made.path, {"k0030": 30, "k0031": -1}, 2)])
    gone = dict.fromkeys(list(some(0, 40))[:30:3], (None, "d"))
    made.merge(1, gone, [])
    found = made.read(2, [written(made.path, some(0, 40), 3)]).found
    assert found == Found(2, 28)
    assert made.rows() == some(0, 40)


def test_many_files_are_met_by_many(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several row groups each, by several workers, some of them with rows of no READ's key."""
    monkeypatch.setattr(new_files, "GROUP_BYTES", 1)
    monkeypatch.setattr("streaming.delta.file_matching._TASK_ROWS", 20)
    spread = [{f"k{n:04}": n for n in range(at, 100, 7)} for at in range(7)]
    made.append(0, [written(made.path, rows) for rows in spread])
    made.merge(1, {f"k{n:04}": (n, "u") for n in range(0, 100, 9)}, [])
    read = [written(made.path, grown(some(at, 15), 3), 2) for at in (10, 25, 40, 55)]
    assert made.read(2, read).found == Found(20, 40)
    assert made.rows() == some(0, 100) | grown(some(10, 60), 3)


def test_columns_that_came_later_are_null_in_older_files(made: Made) -> None:
    """In the table's, and in those that were read before the table had them: null equals null."""
    made.append(0, [written(made.path, some(0, 20))])
    before = written(made.path, grown(some(0, 20), 2), 2)
    made.table.evolve(TablePlan((*PLAN.columns, Column("later", Scalar("string")))))
    assert made.read(1, [before]).found == Found(10, 10)
    assert made.rows() == grown(some(0, 20), 2)


@pytest.mark.parametrize("changes", [{"k0042": 1}, {}], ids=["some", "none"])
def test_someone_elses_update_is_a_conflict(
    made: Made, monkeypatch: pytest.MonkeyPatch, changes: dict[str, int]
) -> None:
    """Also of rows that our commit leaves as they are, for they were equal, were it all of them: everything is looked
    at again, and the file that was written for it goes."""
    made.append(0, [written(made.path, some(0, 40)), written(made.path, some(40, 40), 2)])
    matched = state_upsert.match

    def while_it_looks(session: Any, job: Matching) -> Matched:
        monkeypatch.undo()
        found = matched(session, job)
        made.spark.sql(f"UPDATE delta.`{made.path}` SET n = -1 WHERE _key = 'k0007'")
        return found

    monkeypatch.setattr(state_upsert, "match", while_it_looks)
    new = written(made.path, some(0, 80) | changes, 3)
    assert made.read(1, [new]).found == Found(1 + len(changes), 79 - len(changes))
    assert made.rows() == some(0, 80) | changes
    assert leftover(made) == {new.name}, "that one goes with its buffer"


@pytest.mark.parametrize("gone", [True, False])
def test_a_file_that_is_gone_or_another_is_named_by_no_commit(made: Made, gone: bool) -> None:
    """Whether it is missed by whoever looks into it, or last of all; one that was cut off, or written over, has another
    size."""
    made.append(0, [written(made.path, some(0, 40))])
    version, new = made.table.version(), written(made.path, grown(some(0, 40)), 2)
    if gone:
        (made.path / new.name).unlink()
    else:
        other = written(made.path, grown(some(0, 40), 2), 3)
        (made.path / other.name).rename(made.path / new.name)
        assert (made.path / new.name).stat().st_size != new.size_bytes
    with pytest.raises(FileGone, match=new.name):
        made.read(1, [new])
    assert made.table.version() == version


def test_what_a_crash_before_the_commit_leaves_goes(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were read, and what was written anew of them: nobody sees either, and the next run removes them."""
    made.append(0, [written(made.path, some(0, 40))])
    before, new = made.rows(), written(made.path, grown(some(0, 40), 10), 2)

    class Killed(BaseException):
        pass

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    monkeypatch.setattr("streaming.delta.transaction.Transaction.commit", killed)
    with pytest.raises(Killed):
        made.read(1, [new])
    monkeypatch.undo()
    assert (made.rows(), len(leftover(made))) == (before, 2)
    made.opened().clear_leftovers(made.folder)
    assert (made.rows(), leftover(made)) == (before, set())


@pytest.mark.parametrize(
    "alteration",
    ["SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')", "ADD CONSTRAINT sane CHECK (n < 5000)"],
)
def test_a_table_that_asks_more_of_its_writers_reads_the_files(made: Made, alteration: str) -> None:
    """The same comes of it, by way of rows; none of the files is the table's."""
    made.append(0, [written(made.path, some(0, 40))])
    made.spark.sql(f"ALTER TABLE delta.`{made.path}` {alteration}")
    new = hide(made.folder, written(made.path, grown(some(0, 40), 2), 2), pa.array(["k0004"]))
    assert made.read(1, [new]).found == Found(19, 20)
    assert made.rows() == grown(some(0, 40), 2) | {"k0004": 4}
    assert made.table.named == frozenset()
    assert new.name not in made.named()


def damaged(name: str, vector: Any, low: str, high: str) -> OldFile:
    return OldFile(name, vector and {**vector, "cardinality": 9}, low, high)


@pytest.mark.parametrize(
    ("what", "value", "why"),
    [
        ("streaming.delta.state_upsert.FILES_MAX", 0, "more than 0 files"),
        ("streaming.delta.file_matching.OldFile.reached", property(lambda _: False), "outside of its folder"),
        ("streaming.delta.listed_file.OldFile", damaged, "ValueError: a deletion vector has 1 rows, and 9"),
    ],
    ids=["many", "elsewhere", "strange"],
)
def test_where_workers_cannot_look_into_files_rows_are_compared(
    made: Made, monkeypatch: pytest.MonkeyPatch, what: str, value: Any, why: str
) -> None:
    """Very many of them, say, or one of a kind that only Spark knows. The commit is our own all the same, and `status`
    has the reason."""
    made.append(0, [written(made.path, some(0, 10))])
    made.merge(1, {"k0009": (None, "d")}, [])
    monkeypatch.setattr(what, value)
    assert made.read(2, [written(made.path, grown(some(0, 10), 2), 2)]).found == Found(5, 4)
    assert made.rows() == grown(some(0, 10), 2)
    chosen = made.table.written_by
    assert chosen is not None
    assert (chosen.by, chosen.slower) == (By.UPSERT, True)
    assert why in chosen.reason


def test_a_commit_whose_answer_is_lost_is_found(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can tell then which files it named, so none counts as left over."""
    made.append(0, [written(made.path, some(0, 10))])
    merge = Upsert.merge

    def lost(writer: Upsert, *given: Any) -> Found:
        monkeypatch.undo()
        merge(writer, *given)
        writer.named = None
        raise Altered("the answer of the commit is lost")

    monkeypatch.setattr(Upsert, "merge", lost)
    new = written(made.path, grown(some(0, 10)), 2)
    landed = made.read(1, [new])
    assert (landed.wrote, landed.found, made.table.named) == (True, Found(10, 0), None)
    assert made.rows() == grown(some(0, 10))


def test_a_conflict_with_the_commit_itself_takes_nothing_away(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storage's answer is lost, and asked again it says that the version is there: Delta takes the very commit for
    another writer's. What had been written anew is in the table, and stays."""
    made.append(0, [written(made.path, some(0, 100))])
    commit = Transaction.commit

    def lost(transaction: Transaction, *given: Any) -> None:
        monkeypatch.undo()
        commit(transaction, *given)
        raise ConcurrentAppendException("files were added by a concurrent update")

    monkeypatch.setattr(Transaction, "commit", lost)
    new = written(made.path, grown(some(0, 100), 10), 2)
    made.read(1, [new])
    assert made.rows() == grown(some(0, 100), 10)
    assert made.table.recorded_batch() == 1


PATTERNS: list[tuple[str, Sequence[int]]] = [
    ("n % 97 = 0", range(0, 150_000, 97)),
    ("n BETWEEN 70000 AND 140000", range(70_000, 140_001)),
    ("n % 2 = 1 OR n < 9", sorted({*range(1, 150_000, 2), *range(9)})),
    ("n = 149999", [149_999]),
]


def test_marks_are_read_as_delta_writes_them(made: Made) -> None:
    """Of few rows and of many, alone and in runs, in the log and beside it."""
    files = [
        written(made.path, {f"{at}{n:06}": n for n in range(150_000)}, at) for at in range(len(PATTERNS))
    ]
    made.append(0, files)
    which = " OR ".join(f"_key LIKE '{at}%' AND ({what})" for at, (what, _) in enumerate(PATTERNS))
    made.spark.sql(f"DELETE FROM delta.`{made.path}` WHERE {which}")
    vectors = {add["path"]: add["deletionVector"] for add in made.actions("add")}
    for file, (_, expected) in zip(files, PATTERNS, strict=True):
        assert marked_rows(made.folder, vectors[file.name]).tolist() == list(expected)
    made.append(1, [written(made.path, {"z1": 1, "z2": 2, "z3": 3}).without([0, 2])])
    (add,) = made.actions("add")
    assert marked_rows(made.folder, add["deletionVector"]).tolist() == [0, 2]
    with pytest.raises(ValueError, match="and 7 in the log"):
        marked_rows(made.folder, {**add["deletionVector"], "cardinality": 7})


@pytest.mark.parametrize("containers", [1, 5])
def test_runs_of_marks_are_read(made: Made, containers: int) -> None:
    """Delta may write them as their first and last row, with few of them and with more."""
    rows = [
        (at << 16) + n for at in range(containers) for n in (3, *range(10, 60_000), *range(60_100, 60_200))
    ]
    jvm, gateway = packages(made.spark), cast("Any", made.spark.sparkContext._gateway)
    array = gateway.new_array(gateway.jvm.long, len(rows))
    jvm.java.nio.ByteBuffer.wrap(struct.pack(f">{len(rows)}q", *rows)).asLongBuffer().get(array)
    vectors = jvm.org.apache.spark.sql.delta.deletionvectors
    numbers = singleton(jvm.scala.collection.immutable, "ArraySeq").unsafeWrapArray(array)
    bitmap = singleton(vectors, "RoaringBitmapArray").apply(numbers)
    bitmap.runOptimize()
    data = bytes(bitmap.serializeAsByteArray(singleton(vectors, "RoaringBitmapArrayFormat").Portable()))
    assert len(data) < 200
    assert rows_in(data).tolist() == rows


def test_work_is_divided_by_keys() -> None:
    """Each file is looked at once, with all that may have rows of its keys; few rows are one worker's."""

    def read(number: int, rows: int) -> NewFile:
        return NewFile(f"r{number}", 1, rows, f"k{number}0", f"k{number}9", 1)

    old = [OldFile("a", None, "k00", "k15"), OldFile("b", None, "k20", "k20"), OldFile("c")]
    new = [read(2, 30_000), read(0, 30_000), read(1, 30_000)]
    found = tasks(new, old, 2)
    assert found == (
        Task((new[1], new[2]), (old[0], old[2])),
        Task((new[0],), (old[1], old[2])),
    )
    few: Sequence[NewFile] = [read(0, 5), read(1, 5)]
    assert tasks(few, [], 8) == (Task(tuple(few), ()),)


def test_a_file_beyond_the_ranges_is_refused(made: Made) -> None:
    """Its keys would be inserted beside their rows, which nobody looked for. Nothing of it is in the table."""
    made.append(0, [written(made.path, some(0, 40))])
    version, new = made.table.version(), written(made.path, some(0, 40), 2)
    given = {"metadata": {}, "how": "merge", "known": Known(40, True, True, 0), "reads": [new]}
    with pytest.raises(ValueError, match=OUTSIDE):
        made.table.land(None, batch_id=1, key_ranges=[("k0000", "k0038")], **given)
    assert made.table.version() == version


def test_a_job_that_fails_leaves_nothing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker has written already what another should have gone on with."""
    made.append(0, [written(made.path, some(0, 40))])
    monkeypatch.setattr("streaming.delta.file_matching._TASK_ROWS", 1)
    read = [written(made.path, grown(some(at, 20), 10), 2) for at in (0, 20)]
    (made.path / read[1].name).unlink()
    with pytest.raises(FileGone, match=read[1].name):
        made.read(1, read)
    assert leftover(made) == {read[0].name}

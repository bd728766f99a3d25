"""Files written anew beside landings: in the end the table has what was landed, each row once, or all is as before."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from streaming.delta.file_keys import FileKeys
from streaming.delta.landing_errors import TableOwned
from streaming.delta.object_store import OutOfReach
from streaming.delta.rewriting import GaveWay
from streaming.delta.row_writer import By
from streaming.delta.table_demands import Unsupported
from streaming.delta.table_identity import Owner
from streaming.delta.transaction import Transaction
from streaming.delta.upkeep_plan import Kind, Step, Thresholds
from tests.support.kept_tables import ORDERS, Kept, some
from tests.support.state_tables import columns_table


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Kept:
    return Kept(spark, tmp_path / "ord [e]rs")


@pytest.mark.parametrize(("outputs", "by_driver"), [(1, False), (2, False), (2, True)])
def test_landings_beside_a_rewrite(kept: Kept, outputs: int, by_driver: bool) -> None:
    """Before rows are copied and after: what they mark in the files is marked in the copies, what they add stays, and
    the next landing finds all of it. One that deletes and one that updates, a row of the first file and of the last."""
    kept.by_driver = by_driver
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    kept.land({"k0011": None})
    begun = kept.begun(outputs)
    assert not begun.alone
    kept.land({"k0000": None, "k0012": 7, "new": 1})
    copies = begun.write()
    assert (copies.left is None) is (outputs == 1), "one file is the driver's to write"
    kept.check()
    kept.land({"k0001": 8, "k0012": 9, "k0039": None})
    done = kept.table.upkeep.finish(begun, copies)
    assert (done.files, done.made, done.purged) == (4, outputs, 1)
    kept.check()
    found = kept.look()
    assert (found.count, found.marked) == (outputs + 2, 5), (
        "of the copies four, one of the first landing's file"
    )
    assert not any(
        (action.get("add") or action["remove"])["dataChange"]
        for action in kept.actions()
        if {"add", "remove"} & set(action)
    )
    kept.land({"k0012": None, "k0002": 3, "k0001": None, "k0038": 4})
    assert kept.table.written_by is not None
    assert kept.table.written_by.by is By.UPSERT
    assert not kept.table.written_by.slower
    kept.check()


@pytest.mark.parametrize("concatenates", [False, True])
def test_random_landings_beside_rewrites(kept: Kept, rng: random.Random, concatenates: bool) -> None:
    """After each commit of either the table has what was landed, each row once. What is concatenated are files that the
    driver has written: those of Spark have their columns in another order."""
    done = 0
    keys = [f"k{number:04}" for number in range(40)]

    def land() -> None:
        chosen = rng.sample(keys, rng.randint(1, 12))
        kept.by_driver = concatenates or rng.random() < 0.5
        kept.land({key: rng.choice([None, rng.randint(0, 99)]) for key in chosen})

    for _ in range(6):
        for _ in range(3):
            land()
        files = kept.look(Thresholds(files=1)).files
        if not files or (concatenates and len(files) < 2):  # nothing is in the table, or too little
            continue
        some_of, outputs = rng.sample(files, min(len(files), 3)), 1 if concatenates else rng.choice([1, 2])
        step = Step(Kind.COMPACT, "", tuple(some_of), outputs, concatenates)
        begun = kept.table.upkeep.begin(step)
        assert begun is not None
        if rng.random() < 0.5:
            land()
        copies = begun.write()
        assert (copies.begins is not None) is concatenates
        assert len(copies.of) == len(some_of)
        land()
        with suppress(GaveWay):
            kept.table.upkeep.finish(begun, copies)
            done += 1
        kept.check()
    assert done


def test_a_copy_that_nobody_would_see_is_left_out(kept: Kept) -> None:
    """All of its rows went meanwhile; of each file some stay."""
    for batch in range(2):
        kept.land({f"k{number:04}": batch for number in range(batch, 20, 2)})
    begun = kept.begun(2, Thresholds(files=2, retention_hours=0))
    copies = begun.write()
    assert len(copies.made) == 2
    low = json.loads(copies.made[0].json())["add"]["stats"]
    keys = [key for key in kept.expected if key <= json.loads(low)["maxValues"]["_key"]]
    kept.land(dict.fromkeys(keys[1:], None))
    kept.land({keys[0]: None})
    kept.table.upkeep.finish(begun, copies)
    kept.check()
    assert kept.look().count == 1
    assert [(kept.path / add.path()).exists() for add in copies.made] == [False, True]


def a_file_goes(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    kept.land(dict.fromkeys(some(30, 10), None))


def gone_rows_are_back(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    """As of before the row was deleted."""
    kept.spark.sql(f"RESTORE delta.`{kept.path}` TO VERSION AS OF {kept.table.version() - 1}")
    kept.expected["k0000"] = 0


def no_keys_are_kept(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(kept.table._writing, "kept", None)
    kept.land({"k0002": None})


def keys_are_too_many(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    patched.setattr(kept.table._writing, "kept", FileKeys(100))
    kept.land({"k0003": 5})


def a_copy_goes(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    """Somebody clears the folder of what no version of the table has."""
    for copy in kept.path.glob("copies-*"):
        copy.write_bytes(b"")


def a_file_cannot_be_read(kept: Kept, patched: pytest.MonkeyPatch) -> None:
    kept.land({"k0003": 5})

    def find(*_: Any) -> Any:
        raise pa.ArrowInvalid("no Parquet")

    patched.setattr(FileKeys, "find", find)


@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (a_file_goes, "1 of 4 files are gone"),
        (gone_rows_are_back, "that were gone are back"),
        (no_keys_are_kept, "the driver keeps no keys"),
        (keys_are_too_many, "more memory than there is"),
        (a_file_cannot_be_read, "could not be read: no Parquet"),
        (a_copy_goes, "a copy is not what it was"),
    ],
)
def test_a_rewrite_gives_way_where_there_is_no_place_for_it(
    kept: Kept,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[Kept, pytest.MonkeyPatch], None],
    why: str,
) -> None:
    """Nothing is committed, the copies are removed, and whoever holds the lock all the while can do it."""
    upkeep = kept.table.upkeep
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    kept.land({"k0000": None})
    step = kept.step()
    assert step is not None
    begun = upkeep.begin(step)
    assert begun is not None
    copies = begun.write()
    (made,) = (add.path() for add in copies.made)
    assert (kept.path / made).exists()
    meanwhile(kept, monkeypatch)
    version = kept.table.version()
    with pytest.raises(GaveWay, match=why):
        upkeep.finish(replace(begun, kept=kept.table._writing.kept), copies)
    assert kept.table.version() == version
    assert not (kept.path / made).exists()
    kept.check()
    files = kept.look(Thresholds(files=2, retention_hours=0)).files
    assert files is not None
    assert upkeep.rewrite(Step(Kind.COMPACT, "", files, 1)) is not None
    kept.check()


def nothing(kept: Kept) -> None:
    pass


def another_takes_over(kept: Kept) -> None:
    owner = Owner("other", "2")
    columns_table(kept.spark, str(kept.path), ORDERS, "snapshotter:other:0", owner=owner).take_over()


def a_feature_comes(kept: Kept) -> None:
    kept.spark.sql(f"ALTER TABLE delta.`{kept.path}` SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")


def lost() -> None:
    raise LookupError("another engine has taken over")


@pytest.mark.parametrize(
    ("meanwhile", "check", "error"),
    [
        (nothing, lost, LookupError),
        (another_takes_over, lambda: None, TableOwned),
        (a_feature_comes, lambda: None, Unsupported),
    ],
)
def test_copies_go_where_they_may_not_be_committed(
    kept: Kept,
    meanwhile: Callable[[Kept], None],
    check: Callable[[], None],
    error: type[Exception],
) -> None:
    """The engine's lock is lost meanwhile, the table is another engine's, or not one for our transactions."""
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    step = kept.step()
    assert step is not None
    begun = kept.table.upkeep.begin(step)
    assert begun is not None
    copies = begun.write()
    meanwhile(kept)
    with pytest.raises(error):
        kept.table.upkeep.finish(begun, copies, check)
    assert not any((kept.path / add.path()).exists() for add in copies.made)
    kept.check()


def test_what_cannot_be_made_up_for_beside_landings_is_known_beforehand(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Landings that replace files, keys that the driver does not keep, or reach, or has no room for."""
    for batch in range(4):
        kept.land(some(10 * batch, 10))
    begun = kept.table.upkeep.begin(Step(Kind.COMPACT, "", kept.look().files or (), 1))
    assert begun is not None
    assert not begun.alone
    assert replace(begun, kept=None).alone
    assert replace(begun, kept=FileKeys(100)).alone
    assert not replace(begun, kept=None, order=("_cluster_time", "_order")).alone, "a changelog has no marks"
    far = replace(
        begun.of[0], said=replace(begun.of[0].said, facts=replace(begun.of[0].said.facts, path="s3://b/f"))
    )
    assert replace(begun, of=[far]).alone

    def folder(_: Transaction) -> Any:
        raise OutOfReach("no client")

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "folder", folder)
        assert begun.alone
        told = replace(begun, order=("_cluster_time",))
        assert not told.alone
        assert sum(int(add.numPhysicalRecords().get()) for add in told.write().made) == 40, "it needs no keys"
    kept.spark.sql(f"ALTER TABLE delta.`{kept.path}` SET TBLPROPERTIES (delta.enableDeletionVectors = false)")
    begun = kept.table.upkeep.begin(Step(Kind.COMPACT, "", kept.look().files or (), 1))
    assert begun is not None
    assert begun.alone

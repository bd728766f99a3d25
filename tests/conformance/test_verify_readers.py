"""What compares a collection with its table: Spark, and DuckDB for small tables.

One contract for both (`snapshotter.verification.comparison.Sides`). `Pair.verify` asks each of them, and they find the
same, with the same examples; `tests/integration/test_verify.py` does so too. The tests at the end are of tables that
only Spark reads.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Decimal128, ObjectId

from snapshotter.verification import by_duckdb, small_table
from snapshotter.verification.small_table import NeedsSpark, SmallTable, look
from streaming.canonical.rescued import UnreadableRescuedData
from streaming.delta.delta_log import TableLog
from streaming.delta.further_columns import FurtherColumns
from streaming.fields.document_rules import document_rules
from streaming.fields.rules import EXCLUDE, HASH, RENAMES, SALT, FieldRules
from streaming.fields.shape import Shape
from streaming.keys.decoded import key_of
from streaming.keys.keys import sharded_key
from streaming.layouts.columns.decimals import DECIMALS
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Array, Column, Scalar, Struct, TablePlan
from streaming.layouts.shaped import Shaped
from tests.support.mongos import mongos_before
from tests.support.pairs import READERS, Pair, pair

__all__ = ["pair"]

pytestmark = pytest.mark.guard


def test_every_type_of_column_alone_nested_and_in_arrays(pair: Pair) -> None:
    """The largest and smallest values of each, nulls beside missing ones, empty and nested arrays, misfits deep inside.
    Values that are gone are differences for both."""
    top = 10**38 - 1
    times = [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1582, 10, 10, tzinfo=UTC),
        datetime(1900, 1, 1, tzinfo=UTC),
    ]
    times += [datetime(2024, 3, 10, 7, 30, 0, 1_000, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)]
    values: dict[str, list[Any]] = {
        "long": [0, -1, 2**63 - 1, -(2**63)],
        "double": [0.0, -0.0, 0.1, float("nan"), float("inf"), 5e-324, -1.7976931348623157e308],
        "string": ["", "é\0\U0001f642", "x" * 70_000],
        "bool": [True, False],
        "date": times,
        "objectId": [ObjectId("0" * 24), ObjectId("f" * 24)],
        "binary": [b"", b"\0\xff" * 50],
    }
    for kind, scale in DECIMALS.items():
        digits = [0, 1, -1, 10**34 - 1, 1 - 10**34, top // 10**18]
        values[kind] = [Decimal128(f"{number}E-{scale}") for number in digits if abs(number) < 10**34]
    columns: list[Column] = []
    for number, kind in enumerate(values):
        scalar, struct = Scalar(kind), Struct((Column("in", Scalar(kind)),))
        columns += [Column(f"c{number}", scalar), Column(f"s{number}", struct)]
        columns += [Column(f"l{number}", Array(scalar)), Column(f"d{number}", Array(Array(struct)))]
    documents: list[dict[str, Any]] = [{"_id": -1}, {"_id": -2, "s0": {}, "l0": [], "d0": [[], [{}]]}]
    for number, some in enumerate(values.values()):
        for value in some:
            odd = {"odd": value, "in": [value]}
            documents.append(
                {
                    "_id": len(documents),
                    f"c{number}": value,
                    f"s{number}": {"in": value},
                    f"l{number}": [value, None, value, "odd"],
                    f"d{number}": [[{"in": value}, {}, None, odd], [], None],
                    f"e{number}": value,
                }
            )
        documents.append(
            {"_id": len(documents), f"c{number}": None, f"l{number}": None, f"s{number}": {"in": None}}
        )
    pair.collection.insert_many(documents)
    pair.load(TablePlan(tuple(columns)))
    result = pair.verify()
    assert (result.equal, result.documents) == (True, len(documents)), str(result)
    for number in range(len(values)):
        pair.sql(f"UPDATE {{}} SET c{number} = NULL WHERE c{number} IS NOT NULL")
    assert pair.verify(rounds=0).different > len(values)


def test_marked_rows_and_rows_of_deleted_documents(pair: Pair) -> None:
    """Rows that a landing has marked in deletion vectors, read from commits and from a checkpoint of the log; those
    that stay for documents that are gone; one that is there still, and one that should be."""
    pair.further = FurtherColumns(soft=True)
    pair.collection.insert_many([{"_id": n, "v": 0, "pad": "x" * 100} for n in range(1_000)])
    pair.load()
    changed = {n: {"_id": n, "v": 1} for n in range(0, 100, 3)}
    for n, document in changed.items():
        pair.collection.replace_one({"_id": n}, document)
    gone = range(500, 510)
    pair.collection.delete_many({"_id": {"$in": [*gone]}})
    kept = {key_of(n): bson.encode(document) for n, document in changed.items()}
    pair.change({**kept, **{key_of(n): None for n in gone}})
    table = look(pair.path)
    assert table is not None
    assert table.marked
    log = (Path(pair.path) / "_delta_log" / f"{table.version:020d}.crc").read_text()
    assert '"numDeletedRecordsOpt":44' in log, "the landing has marked what it changed"
    assert (pair.verify().equal, pair.verify().rows) == (True, 990)
    TableLog(pair.spark, pair.path).checkpoint(cleans=False)
    pair.sql("UPDATE {} SET _deleted = TRUE WHERE _id = 7")
    pair.sql("UPDATE {} SET _deleted = NULL WHERE _id = 500")
    found = pair.verify(rounds=0)
    assert (found.missing, found.extra, found.different) == (1, 1, 0)


def test_columns_that_came_later_and_that_somebody_has_added(pair: Pair) -> None:
    """In files that were written before a column they are null, and rescued where they were; a stranger's column, or
    field of a struct, is no content."""
    pair.collection.insert_many([{"_id": n, "a": {"x": n}} for n in range(10)])
    pair.load()
    pair.collection.insert_many([{"_id": n, "a": {"x": n, "y": "new"}, "b": [n]} for n in range(10, 20)])
    older = pair.plan
    pair.plan = older.merge(pair.layout.observe(pair.raw()))
    assert pair.plan != older
    pair.evolve()
    pair.change({key_of(d["_id"]): bson.encode(d) for d in pair.collection.find({"_id": {"$gte": 10}})})
    pair.sql("ALTER TABLE {} ADD COLUMNS (theirs INT, a.theirs STRING)")
    pair.sql("UPDATE {} SET theirs = 7")
    assert (pair.verify().equal, pair.verify().rows) == (True, 20)


RULES: dict[str, dict[str, str]] = {
    "left out": {EXCLUDE: "mail,home.city,lines.sku"},
    "renamed": {RENAMES: "mail:address,home.city:town"},
    "hashed": {HASH: "mail,lines.sku", SALT: "a secret of sixteen"},
}


@pytest.mark.parametrize("named", RULES.values(), ids=RULES)
def test_rules_about_fields(pair: Pair, named: dict[str, str]) -> None:
    """What they leave out, rename or hash is so in the table; one that has it as it was differs, and is not shown."""

    def whole(value: str) -> str:
        return ",".join(f"{pair.namespace}.{entry}" for entry in value.split(","))

    lines = [{"sku": "A", "n": 1}, {"sku": 7}, {}]
    pair.collection.insert_many(
        [{"_id": n, "mail": "a secret", "home": {"city": "Graz", "no": n}, "lines": lines} for n in range(9)]
    )
    options = {name: value if name == SALT else whole(value) for name, value in named.items()}
    fields = FieldRules.parse(options)
    rules = document_rules(fields, pair.namespace)
    assert rules is not None
    pair.load(documents=rules.documents(pair.raw()))
    assert pair.verify(fields=fields.of(pair.namespace)).equal
    in_column = "mail" in pair.plan.names
    wrong = "mail = 'a secret'" if in_column else '_rescued_data = \'{{"/mail":"a secret"}}\''
    pair.sql("UPDATE {} SET " + wrong + " WHERE _id = 3")
    found = pair.verify(fields=fields.of(pair.namespace), rounds=0)
    assert found.different == 1
    assert "a secret" not in str(found) or named == RULES["renamed"]


def test_documents_in_another_shape(pair: Pair) -> None:
    """Names that are joined, and arrays that are documents."""
    shape = Shape(flatten=True, arrays=True)
    pair.layout = Shaped(COLUMNS, shape)
    pair.collection.insert_many(
        [{"_id": n, "a": {"b": {"c": n}}, "l": [n, {"s": "x"}, []]} for n in range(9)]
    )
    pair.load()
    assert "a_b_c" in pair.plan.names
    assert pair.verify(shape=shape).equal
    assert pair.verify(rounds=0).different == 9


def test_documents_that_share_an_id(pair: Pair) -> None:
    """Of a sharded collection: their keys have the shard key."""
    documents = [{"_id": 1, "region": region, "v": 1} for region in ("eu", "us")]
    pair.collection.insert_one(documents[0])
    with mongos_before(pair.uri) as proxy:
        pair.uri, pair.shard_key = proxy.uri, ("region",)
        proxy.shard(str(pair.namespace), "region")
        proxy.learn(str(pair.namespace), pair.collection.find())
        pair.load(documents=b"".join(map(bson.encode, documents)))
        found = pair.verify(rounds=0)
    (example,) = found.examples
    assert (example.kind, example.key) == ("extra", sharded_key(bson.encode(documents[1]), [b"region"]))


def test_rescued_data_that_no_document_has(pair: Pair) -> None:
    """A field that is in its column and in the rescued data is an error that says so."""
    pair.collection.insert_one({"_id": 1, "a": 1})
    pair.load()
    pair.sql("UPDATE {} SET _rescued_data = '{{\"/a\":2}}'")
    for reader in READERS:
        with pytest.raises(Exception, match="_rescued_data") as caught:
            pair.verify_by(reader)
    assert caught.type is UnreadableRescuedData


def test_a_warehouse_with_an_odd_name(pair: Pair, tmp_path: Path) -> None:
    """With blanks, quotes, brackets and letters that are not ASCII."""
    pair.path = str(tmp_path / "ord [e]rs {x} 'é' #?" / "table")
    pair.collection.insert_many([{"_id": n} for n in range(3)])
    pair.load()
    assert pair.verify().equal


def test_a_version_that_is_committed_meanwhile_is_not_read(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Spark a table is read at the version whose plan was read."""
    pair.collection.insert_many([{"_id": n} for n in range(5)])
    pair.load()

    def looked(path: str) -> SmallTable | None:
        found = look(path)
        pair.sql("DELETE FROM {}")
        return found

    sides = pair.sides("duckdb")
    monkeypatch.setattr(by_duckdb.small_table, "look", looked)
    assert sides.compare(None).equal
    assert sides.compare(None).missing == 5


def no_checksum(pair: Pair, _: pytest.MonkeyPatch) -> None:
    newest = max((Path(pair.path) / "_delta_log").glob("0*.crc"))
    newest.unlink()


def mapped(pair: Pair, _: pytest.MonkeyPatch) -> None:
    pair.sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    pair.sql("ALTER TABLE {} DROP COLUMN v")
    pair.sql("ALTER TABLE {} RENAME COLUMN w TO v")


def checkpoints_of_another_kind(pair: Pair, _: pytest.MonkeyPatch) -> None:
    pair.sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')")


def many_documents(_: Pair, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(by_duckdb, "DOCUMENTS_MAX", 4)


def many_rows(pair: Pair, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(by_duckdb, "DOCUMENTS_MAX", 4)
    pair.collection.delete_many({"_id": {"$gt": 1}})


def many_bytes(_: Pair, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(small_table, "BYTES_MAX", 10)


def a_file_that_is_none(pair: Pair, _: pytest.MonkeyPatch) -> None:
    for file in Path(pair.path).glob("*.parquet"):
        file.write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")


def a_file_that_is_damaged(pair: Pair, _: pytest.MonkeyPatch) -> None:
    """In its first pages, which are read once rows already come."""
    for file in Path(pair.path).glob("*.parquet"):
        content = file.read_bytes()
        file.write_bytes(content[:8] + b"\xff" * 60 + content[68:])


ONLY_SPARK: dict[Callable[[Pair, pytest.MonkeyPatch], None], str] = {
    no_checksum: r"version \d+ has no checksum",
    mapped: "left to Delta's own reader: columnMapping",
    checkpoints_of_another_kind: "left to Delta's own reader: v2Checkpoint",
    many_documents: "the collection has 5 or more, and Spark is quicker from 4 on",
    many_rows: "the table has 5 or more",
    many_bytes: r"it has \d+ MB, and Spark is quicker from 0 MB on",
    a_file_that_is_none: "DuckDB cannot read it: ",
    a_file_that_is_damaged: "DuckDB cannot read it: ",
}


@pytest.mark.parametrize("alter", ONLY_SPARK, ids=lambda alter: alter.__name__)
def test_what_only_spark_reads(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, alter: Callable[[Pair, pytest.MonkeyPatch], None]
) -> None:
    """Whatever it is, it is said why, and nothing is found without Spark."""
    pair.collection.insert_many([{"_id": n, "v": n, "w": n} for n in range(5)])
    pair.load()
    assert pair.verify().equal
    alter(pair, monkeypatch)
    with pytest.raises(NeedsSpark, match=ONLY_SPARK[alter]):
        pair.verify_by("duckdb")

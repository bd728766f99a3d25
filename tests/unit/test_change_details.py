"""What events say of themselves, as columns of state tables have it, and which of it the source is asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import bson
import pyarrow as pa
import pytest

from streaming.decode.change_details import OF_TRANSACTIONS
from streaming.events.details import details_of
from streaming.events.envelope import JsonSerialization, transaction_id
from streaming.source.change_events import ARROW_SCHEMA
from streaming.source.change_options import ChangeOptions

WALL = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
LSID = bson.encode({"id": bson.Binary(bytes(16), 4)})
NAMES = ("operation_type", "wall_time", "update_description", "lsid", "txn_number")
SCHEMA = pa.schema([*map(ARROW_SCHEMA.field, NAMES), *((name, pa.int64()) for name in OF_TRANSACTIONS)])
ABSENT = dict.fromkeys(
    ("transaction_id", "total_order", "data_collection_order", "lsid", "txn_number", "wall_ms")
) | dict.fromkeys(("removed", "updated", "truncated"))


def said(serialization: JsonSerialization = JsonSerialization.LEGACY, **event: Any) -> dict[str, Any]:
    row = dict.fromkeys(SCHEMA.names) | {"operation_type": "update"} | event
    (found,) = details_of(serialization)(pa.RecordBatch.from_pylist([row], SCHEMA)).to_pylist()
    return dict(found)


def test_an_event_outside_of_a_transaction_says_nothing_of_one() -> None:
    """Nor has an insert changed fields; before MongoDB 6.0 there is no wall time."""
    assert said(operation_type="insert") == ABSENT
    assert said(operation_type="delete", wall_time=WALL) == ABSENT | {"wall_ms": 1_767_323_045_678}


def test_an_event_of_a_transaction_names_it_and_its_place() -> None:
    """As the envelope does. Where nobody has counted it has no place."""
    found = said(lsid=LSID, txn_number=7, total_order=3, data_collection_order=2)
    assert (found["transaction_id"], found["total_order"], found["data_collection_order"]) == (
        transaction_id(LSID, 7),
        3,
        2,
    )
    assert found["txn_number"] == 7
    assert found["transaction_id"] == f"{found['lsid']}:7"
    assert said(lsid=LSID, txn_number=7)["total_order"] is None


@pytest.mark.parametrize(
    ("serialization", "updated"),
    [
        (JsonSerialization.LEGACY, '{"n": 5}'),
        (JsonSerialization.EXTENDED, '{"n": {"$numberLong": "5"}}'),
    ],
)
def test_an_update_says_what_it_has_changed(serialization: JsonSerialization, updated: str) -> None:
    """In the words of the envelope; lists of nothing are null, and a replacement says nothing."""
    description = {
        "updatedFields": {"n": bson.Int64(5)},
        "removedFields": ["a", "b.c"],
        "truncatedArrays": [{"field": "list", "newSize": 2}],
    }
    found = said(serialization, update_description=bson.encode(description))
    assert (found["updated"], found["removed"]) == (updated, ["a", "b.c"])
    assert found["truncated"] == [{"field": "list", "size": 2}]
    empty = {"updatedFields": {}, "removedFields": [], "truncatedArrays": []}
    found = said(update_description=bson.encode(empty))
    assert (found["updated"], found["removed"], found["truncated"]) == ("{}", None, None)
    assert said(operation_type="replace", update_description=bson.encode(description)) == ABSENT


@pytest.mark.parametrize(
    ("details", "more"),
    [
        ("", set()),
        ("update", {"updateDescription"}),
        ("transaction", {"lsid", "txnNumber"}),
        ("transaction, Update", {"updateDescription", "lsid", "txnNumber"}),
    ],
)
def test_the_server_is_asked_for_what_is_wanted(details: str, more: set[str]) -> None:
    """Of an event of a state table, beside what each needs."""

    def fields(**given: str) -> set[str]:
        options = {"mongodb.connection.string": "mongodb://mongo", "columns": "state", **given}
        kept = ChangeOptions.parse(options).stream.fields
        assert kept is not None
        return set(kept)

    assert fields(details=details) - fields() == more

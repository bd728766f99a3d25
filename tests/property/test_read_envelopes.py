"""READs told in batches: row by row what the envelopes of events say, and the records of these."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshotter.outbox.records import ReadRecords, _records
from streaming.bson.elements import MalformedBson, check
from streaming.connect.topic_names import TopicNames
from streaming.events.envelope import Envelope, JsonSerialization, envelopes
from streaming.events.read_envelopes import READS, TEXTS, ReadTeller, told_texts
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.bson_documents import documents

SHOP = Namespace("shop", "orders")
NOT_OF_READS = (
    *("document_key", "before", "update_description", "ord", "lsid", "txn_number", "wall_ms"),
    *("total_order", "data_collection_order", "_replayed"),
)
times = st.builds(ClusterTime, st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1))
reads = st.lists(
    st.builds(
        lambda document, low, snapshot, number: {
            "_key": f"k{number}",
            "document": document,
            "cluster_time": low.to_int(),
            "snapshot": snapshot,
            "_window": f"run/{number}",
            "_request": f"request {number}",
        },
        documents(),
        times,
        st.sampled_from(("true", "incremental")),
        st.integers(0, 9),
    ),
    max_size=8,
)


def one_by_one(rows: list[dict[str, Any]], envelope: Envelope, at_ns: int) -> list[dict[str, Any]]:
    """The envelopes that events' own conversion makes of these READs."""
    known = {"op": "r", "operation_type": "read", "db": SHOP.database, "collection": SHOP.collection}
    whole = [{**row, **known, **dict.fromkeys(NOT_OF_READS)} for row in rows]
    batches = [pa.RecordBatch.from_pylist(whole)] if whole else []
    return [row for batch in envelopes(envelope, at_ns, batches) for row in batch.to_pylist()]


def texts(rows: list[dict[str, Any]], serialization: JsonSerialization) -> pa.RecordBatch:
    """As they come when they land: with key and document as the chunk's reader has written them."""
    documents = [row["document"] for row in rows]
    told = dict(zip(TEXTS.names, told_texts(serialization, documents), strict=True))
    others = {
        name: pa.array([row[name] for row in rows], READS.field(name).type)
        for name in READS.names
        if name not in told
    }
    return pa.RecordBatch.from_arrays([{**told, **others}[name] for name in READS.names], schema=READS)


@given(rows=reads, serialization=st.sampled_from(JsonSerialization), at_ns=st.integers(0, 2**62))
def test_reads_are_told_as_events_are(
    rows: list[dict[str, Any]], serialization: JsonSerialization, at_ns: int
) -> None:
    """Whatever documents, windows and times."""
    envelope = Envelope("shop-1", "1.2.3", serialization)
    (made,) = ReadTeller(envelope, at_ns, SHOP).batches([texts(rows, serialization)])
    assert made.to_pylist() == one_by_one(rows, envelope, at_ns)


@given(rows=reads, serialization=st.sampled_from(JsonSerialization), at_ns=st.integers(0, 2**62))
def test_records_of_reads_are_those_of_their_envelopes(
    rows: list[dict[str, Any]], serialization: JsonSerialization, at_ns: int
) -> None:
    """In a frame, and in a file of a partition, which has all but the stretch."""
    envelope, names = Envelope("shop-1", "1.2.3", serialization), TopicNames("shop")
    teller = ReadTeller(envelope, at_ns, SHOP)
    told = [texts(rows, serialization)]
    (expected,) = _records(names, True, 7, teller.batches(told))
    (found,) = ReadRecords(teller, names.of(SHOP), 7).batches(told)
    assert found.to_pylist() == expected.to_pylist()
    assert found.schema == expected.schema
    (in_file,) = ReadRecords(teller, names.of(SHOP)).batches(told)
    assert in_file == found.drop_columns(["stretch"])


@given(raw=documents(), data=st.data())
def test_damaged_documents_are_not_told(raw: bytes, data: st.DataObject) -> None:
    """However deep the damage lies: what a walk through all of a document refuses, the texts refuse."""
    place = data.draw(st.integers(4, len(raw) - 1))
    damaged = raw[:place] + bytes([data.draw(st.integers(0, 255))]) + raw[place + 1 :]
    try:
        check(damaged)
    except MalformedBson:
        with pytest.raises(MalformedBson):
            told_texts(JsonSerialization.LEGACY, [damaged])

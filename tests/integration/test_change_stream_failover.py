"""The primary of three nodes steps down, between batches and within one: nothing is lost or doubled."""

from __future__ import annotations

import pytest

from snapshotter.testing.mongodb import start_mongodb
from streaming.change_stream import RangePartition
from tests.support.changes import now, read, reader


@pytest.mark.slow
def test_the_primary_steps_down_between_batches_and_within_one() -> None:
    """Every batch is complete, whichever node it is read from, and read again it is the same."""
    with start_mongodb(nodes=3) as mongo:
        client = mongo.client(retryWrites=True)
        items = client["shop"]["items"]
        source = reader(mongo.uri, database__include__list="shop", capture__mode="change_streams")
        position, ids = now(mongo.uri), []

        items.insert_many([{"_id": number} for number in range(100)])
        end = now(mongo.uri)
        first = read(source, position, end)
        mongo.step_down()
        assert read(source, position, end) == first
        ids += [row["document_key"]["_id"] for row in first]
        position = end

        items.insert_many([{"_id": number} for number in range(100, 15_000)])
        end = now(mongo.uri)
        assert end > position
        batches = source.read(RangePartition(position, end))
        head = next(batches)
        mongo.step_down()
        rows = [*head.to_pylist(), *(row for batch in batches for row in batch.to_pylist())]
        again = read(source, position, end)
        assert [row["_key"] for row in rows] == [row["_key"] for row in again]
        ids += [row["document_key"]["_id"] for row in again]
        assert ids == list(range(15_000))

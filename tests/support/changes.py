"""Reading `mongodb-changes` in this process, as Spark does in its own: the same reader, no detour."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import bson
import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadMaxRows

from streaming.decode.streamed_rows import EVENT_COLUMNS
from streaming.mongo.deployment import connect, majority_time
from streaming.positions import ClusterTime
from streaming.source.change_events import ARROW_SCHEMA
from streaming.source.change_options import ChangeOptions
from streaming.source.change_stream import MongoChangesReader, Offset, RangePartition

Row = dict[str, Any]
EVENT_SCHEMA = pa.schema([ARROW_SCHEMA.field(name) for name in EVENT_COLUMNS])
"""Of the source's rows, what a landing asks for."""


def reader(uri: str, **options: str) -> MongoChangesReader:
    """Options by their names, with ``__`` for a dot: ``capture__mode="change_streams"``."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    return MongoChangesReader(ChangeOptions.parse({"mongodb.connection.string": uri, **named}))


def now(uri: str) -> ClusterTime:
    return majority_time(connect(uri))


def read(source: MongoChangesReader, start: ClusterTime, end: ClusterTime) -> list[Row]:
    """The rows of a batch; binary columns decoded where they hold BSON."""
    rows = []
    for partition in source.partitions(Offset(start).to_json(), Offset(end).to_json()):
        assert isinstance(partition, RangePartition)
        for batch in source.read(partition):
            rows += batch.to_pylist()
    return [{name: _decoded(name, value) for name, value in row.items()} for row in rows]


def read_since(uri: str, start: ClusterTime, **options: str) -> list[Row]:
    """Everything after ``start`` up to now."""
    return read(reader(uri, **options), start, now(uri))


def batch_ends(
    source: MongoChangesReader, start: ClusterTime, end: ClusterTime, limit: int
) -> list[ClusterTime]:
    """The ends of the batches that ``latestOffset`` would make of (start, end], each of ``limit`` events."""
    ends = [start]
    while ends[-1] < end:
        offset = source.latestOffset(Offset(ends[-1]).to_json(), ReadMaxRows(limit))
        ends.append(Offset.from_json(offset).time)
        assert ends[-1] > ends[-2], "no progress"
    return ends[1:]


def brief(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Operation and id of each row, for comparisons that a person can read."""
    return [
        (row["operation_type"], row["document_key"]["_id"] if row["document_key"] else None) for row in rows
    ]


def picked(rows: Sequence[Row]) -> dict[str, dict[Any, Row]]:
    """What a landing makes of rows: of each document the newest that lands something, and an update behind it that came
    without its document; every other row by its place."""
    landing: dict[Any, Row] = {}
    bare: dict[Any, Row] = {}
    others: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda row: row["ord"]):
        name = row["collection"], row["_key"]
        if row["op"] is None or row["collection"] == "signals":
            others[row["ord"]] = row
        elif row["op"] == "u" and row["document"] is None:
            bare[name] = row
        else:
            landing[name] = row
            bare.pop(name, None)
    return {"landing": landing, "bare": bare, "others": others}


def trailer(rows: Sequence[Row]) -> dict[str, Any]:
    """The content of the last row, which must be a trailer, and the only one."""
    assert [row["kind"] for row in rows].count("trailer") == 1
    assert rows[-1]["kind"] == "trailer"
    content: dict[str, Any] = json.loads(rows[-1]["trailer"])
    return content


def _decoded(name: str, value: Any) -> Any:
    return bson.decode(value) if isinstance(value, bytes) and name != "trailer" else value

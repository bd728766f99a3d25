"""Source rows (`streaming.source.change_events`, under `columns=full` and `events=all`) as envelopes; of READs see
`streaming.events.read_envelopes`.

The envelope is that which Debezium documents for its MongoDB connector, in its words and with its meanings, and some
columns of ours behind it:

| column | |
|---|---|
| key | `_id` as relaxed Extended JSON: the field `id` of Debezium's key |
| before, after | documents as JSON, by ``json.serialization.mode``; null where there is none |
| updateDescription | of an update, never of a replacement; removedFields and truncatedArrays are null where empty |
| source | where and when: ts_ms is the server's (seconds, before MongoDB 6.0), ord of its cluster time |
| op | c, u, d; r for a READ |
| ts_ms, ts_us, ts_ns | when the batch was landed, by the engine's clock |
| transaction | with ``provide.transaction.metadata``: its id, and the event's place in it, in all and by collection |
| _key | the identity and order of the document (`streaming.keys.keys`) |
| _cluster_time | `ClusterTime.to_int()`; of a READ the low watermark of its window: it holds as of then |
| _order | from 0 among the events of one collection at one cluster time; null for a READ |
| _window, _request | of a READ: its window, and the request that the window is of |

(_cluster_time, _order) is the same however often an event is read, from which position and in which batches: the events
of one cluster time never lie in two splits of a batch, and their order is the stream's. `ord` of the source is not: it
counts within a split. So rows have to come in its order, all of a cluster time in one partition, as the source gives
them; anything else is an error.

What is replayed from a dead letter has no place among the events of its time, and ``source.sequence`` says what it is
(`mark_of`).

A transaction's events are counted before collections are told apart (`transaction_orders`): they have one cluster time,
so they come in one batch, whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

from streaming.bson.elements import ARRAY, DOCUMENT, MalformedBson, elements
from streaming.decode.dead_letters import OVERSIZED_EVENT
from streaming.events.extended_json import Form, Writer, writer
from streaming.json_text import to_text
from streaming.positions import ClusterTime

CONNECTOR = "mongodb"
INCREMENTAL, INITIAL = "incremental", "true"
"""What ``source.snapshot`` says of a READ: of an incremental snapshot; of one that a start takes, or a blocking one."""

REPLAYED = "replayed"

_SLICE = 64
_ROWS_MAX = 5_000
_BYTES_MAX = 4 << 20
_STREAMED = "false"


class JsonSerialization(StrEnum):
    """``json.serialization.mode``: how documents, and the changed fields of updates, are written."""

    LEGACY = "legacy"
    STRICT = "strict"
    EXTENDED = "extended"
    RELAXED = "relaxed"


_WRITERS = {
    JsonSerialization.LEGACY: (writer(Form.STRICT), writer(Form.RELAXED, ", ")),
    JsonSerialization.STRICT: (writer(Form.STRICT), writer(Form.STRICT)),
    JsonSerialization.EXTENDED: (writer(Form.CANONICAL), writer(Form.CANONICAL)),
    JsonSerialization.RELAXED: (writer(Form.RELAXED), writer(Form.RELAXED)),
}
"""Of documents, and of the fields of an update. The peer's default writes them differently."""

_KEYS = writer(Form.RELAXED)
_SESSIONS = writer(Form.RELAXED, ", ")


def _longs(*names: str) -> list[StructField]:
    return [StructField(name, LongType()) for name in names]


def _texts(*names: str) -> list[StructField]:
    return [StructField(name, StringType()) for name in names]


_TRUNCATED = StructType([StructField("field", StringType()), StructField("size", IntegerType())])
_UPDATE = StructType(
    [
        StructField("removedFields", ArrayType(StringType())),
        StructField("updatedFields", StringType()),
        StructField("truncatedArrays", ArrayType(_TRUNCATED)),
    ]
)
_SOURCE = StructType(
    [
        *_texts("version", "connector", "name"),
        *_longs("ts_ms"),
        *_texts("snapshot", "db", "sequence"),
        *_longs("ts_us", "ts_ns"),
        *_texts("collection"),
        StructField("ord", IntegerType()),
        *_texts("lsid"),
        *_longs("txnNumber", "wallTime"),
    ]
)
_TRANSACTION = StructType([*_texts("id"), *_longs("total_order", "data_collection_order")])
SCHEMA = StructType(
    [
        *_texts("key", "before", "after"),
        StructField("updateDescription", _UPDATE),
        StructField("source", _SOURCE),
        *_texts("op"),
        *_longs("ts_ms", "ts_us", "ts_ns"),
        StructField("transaction", _TRANSACTION),
        *_texts("_key"),
        *_longs("_cluster_time", "_order"),
        *_texts("_window", "_request"),
    ]
)
ARROW_SCHEMA: pa.Schema = to_arrow_schema(SCHEMA, timezone="UTC")

_FROM_SOURCE = (
    *("op", "operation_type", "db", "collection", "_key", "document_key", "document", "before"),
    *("update_description", "cluster_time", "ord", "lsid", "txn_number"),
)
_WALL = "wall_ms"
_ORDERS = ("total_order", "data_collection_order")
_OF_READS = ("snapshot", "_window", "_request", "_replayed")
_TELLING = ("_key", "cluster_time", "op", "operation_type", "document", "before", "update_description")
_KEYS_TOLD = StructType([*_texts("_key"), *_longs("cluster_time")])


@dataclass(frozen=True, slots=True)
class Envelope:
    """How events are told. ``name`` is what the source is called (``topic.prefix``), ``version`` ours;
    ``serialization`` how documents are written; ``transactions``: whether events name their transaction. ``skips``: the
    operations that are not told; ``skips_unchanged``: nor are updates that change nothing of what is told."""

    name: str
    version: str
    serialization: JsonSerialization = JsonSerialization.LEGACY
    transactions: bool = False
    skips: frozenset[str] = frozenset()
    skips_unchanged: bool = False

    @property
    def tells_all(self) -> bool:
        """Whether nothing is skipped."""
        return not self.skips and not self.skips_unchanged

    def tells(self, row: Mapping[str, Any]) -> bool:
        """Whether the event of this source row is told. One above 16 MB is not: it is a dead letter."""
        if row["op"] in self.skips or row["operation_type"] == OVERSIZED_EVENT:
            return False
        return not (self.skips_unchanged and row["op"] == "u" and _changes_nothing(row))


def of_events(
    events: DataFrame, envelope: Envelope, at_ns: int, orders: DataFrame | None = None
) -> DataFrame:
    """Rows of the source (``events``, all or those of some collections) as rows of ``SCHEMA``; drops and renames have
    none.

    ``at_ns``: when they are landed, in nanoseconds since 1970. ``orders``: what `transaction_orders` gives of the whole
    batch, where ``envelope`` tells transactions.
    """
    wall = F.unix_millis("wall_time").alias(_WALL)
    told = events.where(F.col("op").isNotNull()).select(*_FROM_SOURCE, wall)
    if orders is None:
        told = told.withColumns({name: F.lit(None).cast("long") for name in _ORDERS})
    else:
        told = told.join(F.broadcast(orders), "ord", "left")
    told = told.withColumns({name: F.lit(None).cast("string") for name in _OF_READS})
    return _converted(told, envelope, at_ns)


def of_replayed(rows: DataFrame, envelope: Envelope, at_ns: int) -> DataFrame:
    """Events and READs that are told later than in their turn, as rows of ``SCHEMA``. ``rows`` have the columns
    ``_key``, ``op``, ``operation_type``, ``db``, ``collection``, ``document`` (BSON), ``cluster_time``, ``snapshot``,
    ``_window``, ``_request``, and ``_replayed``, their mark (`mark_of`); what was before them, and what an update said
    of itself, is not known any more. They have no place in their time, so ``_order`` is null. ``envelope`` and
    ``at_ns`` as in `of_events`."""
    missing = {
        n: F.lit(None).cast("binary") for n in ("document_key", "before", "update_description", "lsid")
    }
    numbers = {n: F.lit(None).cast("long") for n in ("ord", "txn_number", _WALL, *_ORDERS)}
    return _converted(rows.withColumns({**missing, **numbers}), envelope, at_ns)


def mark_of(letter_id: str) -> str:
    """What ``source.sequence`` says of an event that is replayed from the dead letter of this id; null in all others.
    As with other connectors of Debezium's it is a JSON array of strings."""
    return to_text([REPLAYED, letter_id])


def keys_told(events: DataFrame, envelope: Envelope) -> DataFrame:
    """``_key`` and ``cluster_time`` of those ``events`` that are told: what is skipped supersedes no READ there."""
    changes = events.where(F.col("op").isNotNull())
    if not envelope.tells_all:
        changes = changes.select(*_TELLING).mapInArrow(partial(_keys_told, envelope), _KEYS_TOLD)
    return changes.select("_key", "cluster_time")


def _keys_told(envelope: Envelope, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for at in range(0, batch.num_rows, _SLICE):
            part = batch.slice(at, _SLICE)
            told = [envelope.tells(row) for row in part.to_pylist()]
            yield part.select(["_key", "cluster_time"]).filter(pa.array(told, pa.bool_()))


def transaction_orders(events: DataFrame) -> DataFrame:
    """For each event of a transaction, by its ``ord``: which of the transaction's it is, from 1, in all and in its
    collection. ``events`` are all that are captured."""
    within = events.where(F.col("txn_number").isNotNull() & F.col("op").isNotNull())
    whole = ("cluster_time", "lsid", "txn_number")

    def place(*columns: str) -> Column:
        return F.row_number().over(Window.partitionBy(*columns).orderBy("ord")).cast("long")

    places = (
        place(*whole).alias("total_order"),
        place(*whole, "db", "collection").alias("data_collection_order"),
    )
    return within.select(*whole, "db", "collection", "ord").select("ord", *places)


def _converted(frame: DataFrame, envelope: Envelope, at_ns: int) -> DataFrame:
    return frame.select(*_FROM_SOURCE, _WALL, *_ORDERS, *_OF_READS).mapInArrow(
        partial(envelopes, envelope, at_ns), SCHEMA
    )


def envelopes(envelope: Envelope, at_ns: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: the ``batches`` of a partition as batches of ``SCHEMA``. What is held at a time is bounded,
    whatever a partition has. ``envelope`` and ``at_ns`` as in `of_events`."""
    rows = _Rows(envelope, at_ns)
    for batch in batches:
        for at in range(0, batch.num_rows, _SLICE):
            for row in batch.slice(at, _SLICE).to_pylist():
                rows.add(row)
                if rows.full:
                    yield rows.taken()
    if rows.made:
        yield rows.taken()


@dataclass(slots=True)
class _Rows:
    """The envelopes of one partition, in its order."""

    envelope: Envelope
    at_ns: int
    made: list[dict[str, Any]] = field(default_factory=list)
    _size: int = 0
    _last: int = -1
    _places: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        return self._size >= _BYTES_MAX or len(self.made) >= _ROWS_MAX

    def taken(self) -> pa.RecordBatch:
        """What has been made since the last time."""
        batch = pa.RecordBatch.from_pylist(self.made, schema=ARROW_SCHEMA)
        self.made, self._size = [], 0
        return batch

    def add(self, row: Mapping[str, Any]) -> None:
        order = None if row["ord"] is None else self._order(row)  # counted whether it is told or not
        if not self.envelope.tells(row):
            return
        documents, updates = _WRITERS[self.envelope.serialization]
        after, before = _document(documents, row["document"]), _document(documents, row["before"])
        update = None
        if row["operation_type"] == "update" and row["update_description"] is not None:
            update = _update_description(updates, row["update_description"])
        at_ms = self.at_ns // 1_000_000
        self.made.append(
            {
                "key": key_of(row["document_key"] or row["document"]),
                "before": before,
                "after": after,
                "updateDescription": update,
                "source": self._source(row),
                "op": row["op"],
                "ts_ms": at_ms,
                "ts_us": self.at_ns // 1_000,
                "ts_ns": self.at_ns,
                "transaction": self._transaction(row),
                "_key": row["_key"],
                "_cluster_time": row["cluster_time"],
                "_order": order,
                "_window": row["_window"],
                "_request": row["_request"],
            }
        )
        size = len(after or "") + len(before or "") + (len(update["updatedFields"] or "") if update else 0)
        self._size += size

    def _order(self, row: Mapping[str, Any]) -> int:
        if row["ord"] <= self._last:
            raise RuntimeError(
                f"event {row['ord']} follows event {self._last}: the rows of a partition must be in the stream's order"
            )
        self._last = row["ord"]
        collection, time = (row["db"], row["collection"]), row["cluster_time"]
        known, place = self._places.get(collection, (time, -1))
        self._places[collection] = time, (place + 1 if known == time else 0)
        return self._places[collection][1]

    def _source(self, row: Mapping[str, Any]) -> dict[str, Any]:
        time, wall = ClusterTime.from_int(row["cluster_time"]), row[_WALL]
        ts_ms = time.t * 1_000 if wall is None else wall
        return {
            "version": self.envelope.version,
            "connector": CONNECTOR,
            "name": self.envelope.name,
            "ts_ms": ts_ms,
            "snapshot": row["snapshot"] or _STREAMED,
            "db": row["db"],
            "sequence": row["_replayed"],
            "ts_us": ts_ms * 1_000,
            "ts_ns": ts_ms * 1_000_000,
            "collection": row["collection"],
            "ord": time.i,
            "lsid": None if row["lsid"] is None else _SESSIONS.document(row["lsid"]),
            "txnNumber": row["txn_number"],
            "wallTime": wall,
        }

    def _transaction(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        if not self.envelope.transactions or row["txn_number"] is None:
            return None
        orders = {name: row[name] for name in _ORDERS}
        return {"id": transaction_id(row["lsid"], row["txn_number"]), **orders}


def session_text(lsid: bytes) -> str:
    """A session's id (BSON), as Debezium writes it."""
    return _SESSIONS.document(lsid)


def update_texts(serialization: JsonSerialization, description: bytes) -> dict[str, Any]:
    """What an update says of itself (BSON): ``removedFields``, ``updatedFields``, written as ``serialization`` says,
    and ``truncatedArrays``."""
    return _update_description(_WRITERS[serialization][1], description)


def transaction_id(lsid: bytes, txn_number: int) -> str:
    """As Debezium writes it: the session's id (``lsid``, BSON) as JSON, a colon, and the number of the transaction in
    the session."""
    return f"{_SESSIONS.document(lsid)}:{txn_number}"


def key_of(document: bytes) -> str:
    """The ``_id`` of a document, or of a documentKey, as relaxed Extended JSON. Raises MalformedBson without one."""
    for tag, name, start, _ in elements(document, 0):
        if name == b"_id":
            return _KEYS.value(tag, document, start)
    raise MalformedBson("a document has no _id: the source is no collection (a view?)")


def _changes_nothing(row: Mapping[str, Any]) -> bool:
    """Whether an update, by what it says that it has changed, leaves all as it was, under the rules about fields; or a
    replacement, by the documents before and after."""
    before, after, description = row["before"], row["document"], row["update_description"]
    if row["operation_type"] == "update" and description is not None:
        update = _update_description(_KEYS, description)
        return update["updatedFields"] in (None, "{}") and not (
            update["removedFields"] or update["truncatedArrays"]
        )
    return before is not None and before == after


def document_texts(serialization: JsonSerialization) -> Writer:
    """What writes documents, as ``serialization`` says."""
    return _WRITERS[serialization][0]


def _document(texts: Writer, document: bytes | None) -> str | None:
    return None if document is None else texts.document(document)


def _update_description(texts: Writer, description: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"removedFields": None, "updatedFields": None, "truncatedArrays": None}
    for tag, name, start, _ in elements(description, 0):
        if name == b"updatedFields" and tag == DOCUMENT:
            found["updatedFields"] = texts.document(description, start)
        elif name == b"removedFields" and tag == ARRAY:
            found["removedFields"] = [
                _text(description, s, e) for _, _, s, e in elements(description, start)
            ] or None
        elif name == b"truncatedArrays" and tag == ARRAY:
            found["truncatedArrays"] = [
                _truncated(description, s) for _, _, s, _ in elements(description, start)
            ] or None
    return found


def _truncated(raw: bytes, at: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _, name, start, end in elements(raw, at):
        if name == b"field":
            found["field"] = _text(raw, start, end)
        elif name == b"newSize":
            found["size"] = int.from_bytes(raw[start:end], "little", signed=True)
    return found


def _text(raw: bytes, start: int, end: int) -> str:
    return raw[start + 4 : end - 1].decode(errors="replace")

"""Dead letters: what could not be processed, in a Delta table beside the engine's state (``dead_letters``).

    stream   an event, or its document, that cannot be processed      (`streaming.source.change_events`)
             one above 16 MB, where events are told
    lookup   the document that was looked up for an event             (the same)
    read     a document of a window                                   (`snapshotter.reading.chunk_reader`)

Nothing of it lands in a state table, and it hides nothing: the row of its key stays as it is until a later event or
READ of the key lands, and no READ is superseded by it. That a document was there counts for windows that reconcile: its
row is not missing at source.

The table is written behind the state tables, for only then it is known what could not be decoded, and before progress
is saved; in one commit a batch, which names the batch, so a batch that is repeated writes nothing twice. An event that
comes again in another batch, behind a position that was set back, has the letter that waits already; where that was
replayed it gets another, for events before it have landed anew. READs come at least once: after a crash in between,
their chunk is read again.

`engine.other_targets` makes it. Whatever targets there are, it is there; it is made by the first dead letter.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from snapshotter.core.values.effects import Closing, LandBatch
from snapshotter.core.values.window import WindowId
from snapshotter.landing.buried import BEHIND_RENAMES, TOLD, BuriedLetters
from snapshotter.landing.contents import BatchContents
from snapshotter.landing.frames import frame_of
from snapshotter.landing.targets.target import Landed
from snapshotter.reading.read_buffer import Buffer, is_dead
from streaming.decode.dead_letters import OVERSIZED_EVENT, DeadLetter, Where
from streaming.delta.local_checkpoints import free_checkpoint, held
from streaming.delta.small_table import own_commit_counts
from streaming.delta.state_merge import append
from streaming.events.extended_json import id_text

FOLDER = "dead_letters"
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("ts_ms", pa.int64()),
        ("engine", pa.string()),
        ("stage", pa.string()),
        ("collection", pa.string()),
        ("operation", pa.string()),
        ("_key", pa.string()),
        ("_id", pa.string()),
        ("_cluster_time", pa.int64()),
        ("resume_token", pa.string()),
        ("batch", pa.int64()),
        ("request", pa.string()),
        ("window", pa.string()),
        ("error", pa.string()),
        ("bytes", pa.binary()),
        ("size", pa.int64()),
        ("sha256", pa.string()),
        ("replayed_at", pa.int64()),
        ("replayed_by", pa.string()),
        ("events", pa.string()),
        ("hashes", pa.string()),
    ]
)
"""``ts_ms``: when it was written, by the engine's clock. ``stage``: stream, lookup or read. ``_id``: canonical Extended
JSON. ``_cluster_time``: of the event, or the low watermark of the window. ``resume_token``: base64, behind the batch.
``bytes``: of the document, behind the rules about fields; null where they are withheld: then ``size`` and ``sha256``
are those of what is withheld. ``replayed_at``: milliseconds; by the request ``replayed_by``.
``events``: what changelogs and topics know of it (`snapshotter.landing.buried`).
``hashes``: by which rules fields are hashed in ``bytes`` (`FieldRules.hashing_digest`)."""

_MADE = pa.schema(
    [
        *[
            (name, pa.string())
            for name in ("id", "collection", "operation", "_key", "request", "window", "stage", "events")
        ],
        ("_cluster_time", pa.int64()),
        ("key", pa.binary()),
        ("document", pa.binary()),
        ("letter", pa.string()),
        ("error", pa.string()),
    ]
)
"""What all are brought to, before they become rows of the table: either ``letter``, as who met it wrote it, or
``stage`` and ``error`` are there."""
_EVENT = ("collection", "_key", "operation", "_cluster_time")
"""By which an event is known in another batch."""
SHOWN = 20
_TOO_LARGE = (
    "the event is above 16 MB, so it is not told; its document is read by its key for the state table"
)
_ID_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Buried:
    """The dead letters of one batch: how many, by stage; and the first of them, as rows of the table without their
    bytes."""

    batch_id: int
    counts: Mapping[str, int]
    first: Sequence[Row]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


class DeadLetterTable:
    """The table at ``path`` of the ``engine``. ``app_id`` as for state tables. ``tell`` is called with what a batch has
    buried, each time that it is landed. ``events``: whether events are told, which those above 16 MB are not.
    ``looks_up``: whether the documents of updates are looked up. ``hashes`` tells the rules by which fields are hashed
    (`FieldRules.hashing_digest`). ``renames``: whether some are renamed, as they are in what could not be decoded."""

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        app_id: Callable[[], str],
        engine: str,
        tell: Callable[[Buried], None],
        *,
        events: bool = False,
        looks_up: bool = True,
        hashes: str = "",
        renames: bool = False,
    ) -> None:
        self._spark = spark
        self._path = path
        self._app_id = app_id
        self._engine = engine
        self._tell = tell
        self._events = events
        self._looks_up = looks_up
        self._hashes = hashes
        self._renames = renames

    def land(
        self,
        batch: BatchContents,
        landing: LandBatch,
        landed: Landed,
        buffers: Mapping[WindowId, Buffer],
        metadata: Mapping[str, Any],
    ) -> None:
        """Append what of the ``batch`` could not be processed: its events, those that ``landed`` could not decode, and
        documents of the windows that close in ``landing``, whose READs lie in ``buffers``. ``metadata`` is what every
        commit says of the batch."""
        parts = [*self._of_stream(batch), *self._undecoded(batch, landed), *self._of_reads(landing, buffers)]
        if not parts:
            return
        fixed = {
            "ts_ms": int(time.time() * 1_000),
            "engine": self._engine,
            "resume_token": metadata.get("resume_token"),
            "batch": batch.batch_id,
            "hashes": self._hashes,
        }
        app_id = f"{self._app_id()}:{FOLDER}"
        made = reduce(DataFrame.unionByName, [_brought(part) for part in parts])
        with ExitStack() as frees:
            whole = _rows(app_id, fixed, self._hashes + BEHIND_RENAMES if self._renames else self._hashes)
            rows = held(self._new(made.mapInArrow(whole, from_arrow_schema(SCHEMA))))
            frees.callback(free_checkpoint, rows)
            said = json.dumps(dict(metadata))
            with own_commit_counts(rows.sparkSession, self._path, app_id, batch.batch_id):
                append(self._path, rows.coalesce(1), app_id, batch.batch_id, said, grows=True)
            counts = {row[0]: row[1] for row in rows.groupBy("stage").count().collect()}
            if counts:  # else all of them had letters before
                self._tell(Buried(batch.batch_id, counts, rows.drop("bytes").limit(SHOWN).collect()))

    def _new(self, rows: DataFrame) -> DataFrame:
        """Without those of events that have a letter which waits. All events of a moment come in one batch, so what
        several of them have in common hides none."""
        there = BuriedLetters(self._spark, self._path).rows()
        if there is None:
            return rows
        waiting = there.where(F.col("replayed_at").isNull() & F.col("window").isNull()).alias("there")
        same = [F.col(f"new.{name}").eqNullSafe(F.col(f"there.{name}")) for name in _EVENT]
        again = F.col("new.window").isNull() & reduce(lambda one, other: one & other, same)
        return rows.alias("new").join(waiting, again, "left_anti")

    def _of_stream(self, batch: BatchContents) -> Iterator[DataFrame]:
        if batch.dead is not None:
            yield _of_events(batch.dead).withColumn("letter", F.col("trailer"))
        if self._events and any(row["operation_type"] == OVERSIZED_EVENT for row in batch.rows):
            large = _of_events(batch.events.where(F.col("operation_type") == OVERSIZED_EVENT))
            said = {"stage": F.lit(Where.STREAM), "error": F.lit(_TOO_LARGE), "document": F.lit(None)}
            yield large.withColumns(said)

    def _undecoded(self, batch: BatchContents, landed: Landed) -> Iterator[DataFrame]:
        """What state tables could not decode: the bytes are in the batch, and whoever tells events has told them."""
        why = {place: error for table in landed.collections.values() for place, error in table.dead.items()}
        if why:
            places = pa.table({"_place": pa.array(why, pa.int64()), "error": list(why.values())})
            found = F.broadcast(frame_of(self._spark, places))
            looked_up = F.lit(self._looks_up) & (F.col("operation_type") == "update")
            stage = F.when(looked_up, F.lit(Where.LOOKUP)).otherwise(F.lit(Where.STREAM))
            events = _of_events(batch.events.join(found, F.col("ord") == F.col("_place")))
            told = F.lit(TOLD if self._events else None)
            yield events.withColumns({"stage": stage, "events": told})

    def _of_reads(self, landing: LandBatch, buffers: Mapping[WindowId, Buffer]) -> Iterator[DataFrame]:
        for closing in landing.closings:
            buffer = buffers[closing.window.id]
            if not closing.superseded and dead_in(buffer, closing.window.id):
                yield _of_window(buffer, closing)


def dead_in(buffer: Buffer, window: WindowId) -> int:
    """How many documents of this window could not be processed."""
    return sum(trailer.dead for trailer in buffer.trailers_of(window))


def _of_events(events: DataFrame) -> DataFrame:
    named = {
        "id": F.concat(F.lit("event/"), F.col("ord").cast("string")),
        "collection": F.when(F.col("db").isNotNull(), F.concat_ws(".", "db", "collection")),
        "operation": F.col("operation_type"),
        "key": F.col("document_key"),
        "_cluster_time": F.col("cluster_time"),
    }
    return events.withColumns(named)


def _of_window(buffer: Buffer, closing: Closing) -> DataFrame:
    window = closing.window
    dead = buffer.frame.where(is_dead() & (F.col("_window") == F.lit(window.id.number)))
    named = {
        "id": F.concat_ws("/", F.lit(f"window/{window.id}"), F.monotonically_increasing_id()),
        "collection": F.lit(str(window.namespace)),
        "request": F.lit(window.request_id),
        "window": F.lit(str(window.id)),
        "_cluster_time": F.lit(closing.low.to_int()),
        "letter": F.col("_trailer"),
    }
    return dead.select("_key", *[column.alias(name) for name, column in named.items()])


def _brought(part: DataFrame) -> DataFrame:
    there = set(part.columns)
    kinds = {field.name: field.dataType for field in from_arrow_schema(_MADE).fields}
    columns = [
        (F.col(name) if name in there else F.lit(None)).cast(kind).alias(name) for name, kind in kinds.items()
    ]
    return part.select(*columns)


def _rows(
    app_id: str, fixed: Mapping[str, Any], undecoded: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For ``mapInArrow``: rows of the table. ``fixed``: what is the same in all; ``app_id`` makes their ids unique;
    ``undecoded``: the ``hashes`` of what could not be decoded."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [_row(row, app_id, fixed, undecoded) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)

    return run


def _row(made: Mapping[str, Any], app_id: str, fixed: Mapping[str, Any], undecoded: str) -> dict[str, Any]:
    raw = made["document"]
    if made["letter"] is not None:
        letter = DeadLetter.from_text(made["letter"])
    else:  # a state table could not decode it, or it has no document that might be kept
        size, digest = (0, None) if raw is None else (len(raw), sha256(raw).hexdigest())
        letter = DeadLetter(Where(made["stage"]), made["error"], raw, size, digest)
    key = made["key"] if made["key"] is not None else letter.id
    return {
        **fixed,
        "id": sha256(f"{app_id}/{fixed['batch']}/{made['id']}".encode()).hexdigest()[:_ID_DIGITS],
        "stage": letter.where.value,
        "collection": made["collection"],
        "operation": made["operation"],
        "_key": made["_key"],
        "_id": None if key is None else id_text(key),
        "_cluster_time": made["_cluster_time"],
        "request": made["request"],
        "window": made["window"],
        "error": letter.error,
        "bytes": raw if letter.raw is None else letter.raw,
        "size": letter.size,
        "sha256": letter.sha256,
        "events": made["events"],
        "hashes": fixed["hashes"] if made["letter"] is not None else undecoded,
    }

"""What a batch holds, as the driver sees it: its trailer, signals and watermarks, updates without their documents,
drops and renames. Documents other than signals stay where they are, in the batch's frame.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from signals.channels.source_channel import id_of
from snapshotter.core.values.namespace_changes import NamespaceChange, ResolvedChanges, resolve
from snapshotter.core.values.watermark_ids import Strategy, edge_of, is_watermark
from snapshotter.core.values.window import WatermarkObservation
from snapshotter.landing.batch_trailer import BatchTrailer
from snapshotter.landing.incomplete import after_truncation, bare, collection_of, events_of, moves
from snapshotter.landing.origin import Origin
from snapshotter.reading.document_errors import DocumentError, Met
from streaming.bson.raw_fields import text_id
from streaming.decode.dead_letters import OVERSIZED_EVENT, DeadLetter
from streaming.delta.local_checkpoints import free_checkpoint, held
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

_log = structlog.get_logger("snapshotter.batches")
_DRIVER_COLUMNS = (
    *("kind", "op", "operation_type", "db", "collection", "_key", "document_key", "cluster_time", "ord"),
    *("trailer", "renamed_to"),
)


@dataclass(frozen=True, slots=True)
class StreamScope:
    """Whose the events of a stream are: watermarks are those of this ``engine`` under this ``strategy``, signals come
    in the collection ``signals`` (None: not with the stream), and ``captures`` says which other collections have
    tables. ``fails``: an event that cannot be processed is an error."""

    engine: str
    strategy: Strategy
    signals: Namespace | None
    captures: Callable[[Namespace], bool]
    fails: bool = False


@dataclass(frozen=True, slots=True)
class BatchContents:
    """``events`` are all changes, one row each; ``rows`` those that the driver looks at, in stream order. ``streamed``:
    collections with a table that are named in the batch (a rename also names where it came from); ``streams``: whether
    it has any event but those of the signal collection. ``changed``: what drops and renames in it mean. ``dead``: what
    could not be processed, as the source gives it; it is not among the events (None: there is nothing). ``asked``: of
    ``signals``, by their ids, the second in which they were inserted."""

    batch_id: int
    trailer: BatchTrailer
    events: DataFrame
    rows: Sequence[Row]
    observations: tuple[WatermarkObservation, ...]
    signals: tuple[bytes, ...]
    changed: ResolvedChanges
    streamed: frozenset[Namespace]
    streams: bool
    scope: StreamScope
    dead: DataFrame | None = None
    asked: Mapping[str, float] = field(default_factory=dict)

    def stays(self, row: Row) -> bool:
        """Whether an event is one of a table, and no drop follows it in the batch."""
        truncated = self.changed.truncated.get(collection_of(row))
        return collection_of(row) != self.scope.signals and (truncated is None or row["ord"] > truncated.ord)

    def metadata(
        self, run: str, token: int, suspended: Collection[Namespace], origin: Origin
    ) -> dict[str, Any]:
        """What every commit of the batch says of it. ``run`` is the id of the engine's run, ``token`` the fencing token
        of its lock. ``suspended``: the collections that nothing of the batch lands in. ``origin``: where it began."""
        metadata: dict[str, Any] = {
            "engine": self.scope.engine,
            "run": run,
            "fencing_token": token,
            "batch": self.batch_id,
            "position": self.trailer.end.to_json(),
            "resume_token": self.trailer.token,
            **origin.to_json(),
        }
        if suspended:
            metadata["suspended"] = sorted(map(str, suspended))
        return metadata

    def events_of(self, namespace: Namespace) -> DataFrame:
        """Events of one collection that no drop in the batch follows."""
        mine, truncated = self.events.where(events_of(namespace)), self.changed.truncated.get(namespace)
        return mine if truncated is None else mine.where(after_truncation(truncated))


@contextmanager
def opened(frame: DataFrame, batch_id: int, scope: StreamScope) -> Iterator[BatchContents]:
    """Hold the batch in the executors, and read what the driver needs of it, by one job; freed at the end.

    ``frame`` has the rows of the source, with trailers; Spark gives it with its ``batch_id``. ``scope`` tells signals,
    watermarks and captured collections apart. Raises RuntimeError where a trailer is missing: the batch is not whole;
    and DocumentError where something cannot be processed and ``scope`` says that this is one.
    """
    frame = held(frame)
    try:
        yield _read(frame, batch_id, scope)
    finally:
        free_checkpoint(frame)


def _read(frame: DataFrame, batch_id: int, scope: StreamScope) -> BatchContents:
    rows = _driver_rows(frame, scope.signals)
    trailer = BatchTrailer.from_texts([row["trailer"] for row in rows if row["kind"] == "trailer"], batch_id)
    dead = [row for row in rows if row["kind"] == "dead"]
    if dead and scope.fails:
        raise _failure(dead)
    named = {n for n, count in trailer.namespaces.items() if count and n != scope.signals}
    observations, signals, asked = _signalled(rows, scope)
    return BatchContents(
        batch_id=batch_id,
        trailer=trailer,
        events=frame.where(F.col("kind") == "event"),
        rows=rows,
        observations=observations,
        signals=signals,
        changed=_namespace_changes(rows, scope),
        streamed=frozenset(filter(scope.captures, named)),
        streams=bool(named),
        scope=scope,
        dead=frame.where(F.col("kind") == "dead") if dead else None,
        asked=asked,
    )


def _failure(dead: Sequence[Row]) -> DocumentError:
    """The error of the first of these rows."""
    row, letter = dead[0], DeadLetter.from_text(dead[0]["trailer"])
    namespace = f"{row['db']}.{row['collection']}" if row["db"] else None
    met = Met(letter.where, namespace, row["document_key"], ClusterTime.from_int(row["cluster_time"]))
    return DocumentError(letter.error, met, others=len(dead) - 1)


def _driver_rows(frame: DataFrame, signals: Namespace | None) -> list[Row]:
    """What the driver looks at, in stream order: trailers, signals, watermarks, drops, renames, bare updates, moves,
    what is dead or was too large."""
    # Documents stay behind, but for those of the signal collection: a driver must not hold those of a whole batch.
    ours = F.lit(False) if signals is None else events_of(signals) & F.expr("document_key IS NOT NULL")
    plain = F.expr("op IS NULL") | (F.col("operation_type") == OVERSIZED_EVENT)
    wanted = plain | ours | bare() | moves()
    document = F.when(ours, F.col("document")).alias("document")
    rows = frame.where(wanted).select(*_DRIVER_COLUMNS, document, moves().alias("moves")).collect()
    return sorted(rows, key=lambda row: row["ord"])


def _signalled(
    rows: Sequence[Row], scope: StreamScope
) -> tuple[tuple[WatermarkObservation, ...], tuple[bytes, ...], dict[str, float]]:
    """Watermarks of this engine, and documents that are none, in their order, with their seconds by their ids."""
    observations, signals, asked = [], [], {}
    for row in rows:
        if row["op"] is None or scope.signals != collection_of(row):
            continue
        document_id = text_id(bytes(row["document_key"]))
        seen = edge_of(scope.engine, scope.strategy, document_id, row["op"])
        if seen is not None:
            window, edge = seen
            observations.append(WatermarkObservation(window, edge, ClusterTime.from_int(row["cluster_time"])))
        elif row["op"] == "c" and not is_watermark(document_id):
            signals.append(bytes(row["document"]))
            asked[id_of(signals[-1])] = ClusterTime.from_int(row["cluster_time"]).seconds
    return tuple(observations), tuple(signals), asked


def _namespace_changes(rows: Sequence[Row], scope: StreamScope) -> ResolvedChanges:
    """What the drops and renames in the batch mean for captured collections."""
    changes = []
    for row in rows:
        if row["kind"] == "event" and row["op"] is None:
            to = Namespace.parse(row["renamed_to"]) if row["renamed_to"] else None
            time = ClusterTime.from_int(row["cluster_time"])
            changes.append(NamespaceChange(collection_of(row), time, row["ord"], to))
    changed = resolve(changes, scope.captures)
    for namespace, truncated in changed.truncated.items():
        _log.info("truncated by a drop or a rename", collection=str(namespace), at=str(truncated.time))
    return changed

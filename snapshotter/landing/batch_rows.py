"""What the driver sees of a batch: signals and watermarks, updates without their documents, drops and renames, and what
the source says of it. Documents other than signals stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from snapshotter.core.namespace_changes import NamespaceChange, Upshot, upshot
from snapshotter.landing.batch_trailer import BatchTrailer
from snapshotter.landing.incomplete import bare, collection_of, events_of, moves
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

_log = structlog.get_logger("snapshotter.batches")
_DRIVER_COLUMNS = (
    *("kind", "op", "db", "collection", "_key", "document_key", "cluster_time", "ord", "trailer"),
    "renamed_to",
)


def driver_rows(frame: DataFrame, signals: Namespace | None) -> list[Row]:
    """In stream order, by one job. ``signals`` is the signal collection, None where there is none."""
    ours = F.lit(False) if signals is None else events_of(signals) & F.col("document_key").isNotNull()
    wanted = F.col("op").isNull() | ours | bare() | moves()
    document = F.when(ours, F.col("document")).alias("document")
    rows = frame.where(wanted).select(*_DRIVER_COLUMNS, document, moves().alias("moves")).collect()
    return sorted(rows, key=lambda row: row["ord"])


def trailer_of(rows: Sequence[Row], batch_id: int) -> BatchTrailer:
    """Raises RuntimeError where the batch is not whole."""
    return BatchTrailer.from_texts([row["trailer"] for row in rows if row["kind"] == "trailer"], batch_id)


def namespace_changes(rows: Sequence[Row], has_table: Callable[[Namespace], bool]) -> Upshot:
    """What the drops and renames in the batch mean for captured collections."""
    changes = []
    for row in rows:
        if row["kind"] == "event" and row["op"] is None:
            to = Namespace.parse(row["renamed_to"]) if row["renamed_to"] else None
            time = ClusterTime.from_int(row["cluster_time"])
            changes.append(NamespaceChange(collection_of(row), time, row["ord"], to))
    changed = upshot(changes, has_table)
    for namespace, emptied in changed.emptied.items():
        _log.info("emptied by a drop or a rename", collection=str(namespace), at=str(emptied.time))
    return changed

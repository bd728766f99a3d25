"""Windows whose READs lie in files or in frames, and batches that close them, for targets that tell of READs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import bson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from snapshotter.core.values.chunks import KeyRange
from snapshotter.core.values.effects import Closing
from snapshotter.core.values.window import Window, WindowId, WindowState
from snapshotter.landing.targets.target import CollectionContents, Contents, Identity
from snapshotter.reading.read_buffer import DOCUMENTS, Buffer, Trailer
from streaming.delta.local_checkpoints import free_checkpoint, held
from streaming.delta.new_files import FileWriter, job_name
from streaming.delta.table_folder import TableFolder
from streaming.events.envelope import JsonSerialization
from streaming.events.read_envelopes import TEXTS, told_texts
from streaming.keys.decoded import key_of
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import TablePlan
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.source.change_events import ARROW_SCHEMA

ORDERS = Namespace("shop", "orders")
SECOND = 1_700_000_000
_FRAME = pa.schema(
    [
        pa.field("_key", pa.string()),
        *TEXTS,
        pa.field("_window", pa.int32()),
        pa.field("_trailer", pa.string()),
    ]
)


def at(second: int) -> ClusterTime:
    """A cluster time, so many seconds behind the first."""
    return ClusterTime(SECOND + second, 1)


@dataclass(slots=True)
class Batches:
    """Makes batches of one collection, the ``namespace``. READs lie in files of ``folder``, or in frames."""

    spark: SparkSession
    folder: Path
    in_files: bool = True
    namespace: Namespace = ORDERS
    closings: list[Closing] = field(default_factory=list)
    buffers: dict[WindowId, Buffer] = field(default_factory=dict)

    def read(self, number: int, low: int, documents: Mapping[int, Any], size_bytes: int = 100) -> Closing:
        """A window of this ``number`` has read these values of documents, by their ids, and closes with the next
        batch."""
        window = WindowId("run", number)
        given: dict[str, Any] = {"state": WindowState.CLOSING, "low_seen": at(low), "rows": len(documents)}
        whole = KeyRange(None, None)
        one = Window(
            window, f"r{number}", self.namespace, whole, None, number, at(low), in_stream=False, **given
        )
        rows = [
            {
                "_key": key_of(n),
                **_told(n, value),
                "_window": number,
            }
            for n, value in documents.items()
        ]
        said: dict[str, Any] = {"min_key": None, "max_key": None, "unique": True, "signed": None}
        trailer = Trailer(number, len(rows), size_bytes, at(low), unknown=TablePlan(), **said)
        frame, folder = held(self.spark.createDataFrame(pa.Table.from_pylist(rows, _FRAME))), None
        if self.in_files:
            self.folder.mkdir(exist_ok=True, parents=True)
            folder = TableFolder.on_disk(str(self.folder))
            writer = FileWriter(folder, DOCUMENTS, job_name(), number, plain=DOCUMENTS.names)
            writer.add(pa.RecordBatch.from_pylist(rows, _FRAME).select(DOCUMENTS.names))
            said["documents"] = writer.close()
            frame = held(self.spark.createDataFrame([], "_trailer string"))
            trailer = Trailer(number, len(rows), size_bytes, at(low), unknown=TablePlan(), **said)
        self.buffers[window] = Buffer(frame, COLUMNS, TablePlan(), (trailer,), folder)
        self.closings.append(Closing(one, at(low), False))
        return self.closings[-1]

    def batch(
        self,
        batch_id: int,
        events: Sequence[tuple[int, int, str]] = (),
        told: Sequence[tuple[int, int]] = (),
        end: int = 1_000,
    ) -> Contents:
        """The batch of this id, which ends at second ``end``. Its ``events``: second, id and operation; and what
        was ``told`` since the windows were registered: second and id."""
        frame = self._events(events)
        earlier = [{"_key": key_of(n), "_cluster_time": at(second).to_int()} for second, n in told]
        collection = CollectionContents(
            self.namespace,
            frame if events else None,
            tuple(self.closings),
            dict(self.buffers),
            told=[pa.Table.from_pylist(earlier)] if earlier else [],
        )
        identity = Identity(batch_id, {"position": at(end).to_json()})
        self.closings, self.buffers = [], {}
        return Contents(identity, frame, collections={self.namespace: collection})

    def lose(self, contents: Contents) -> None:
        """The files of documents are gone, or the executors with the blocks of their frames."""
        for buffer in contents.collections[self.namespace].buffers.values():
            free_checkpoint(buffer.frame)
        for file in self.folder.glob("*.parquet"):
            file.unlink()

    def _events(self, events: Sequence[tuple[int, int, str]]) -> DataFrame:
        rows = [
            {
                "kind": "event",
                "op": op,
                "operation_type": {"c": "insert", "u": "update", "d": "delete"}[op],
                "db": self.namespace.database,
                "collection": self.namespace.collection,
                "_key": key_of(n),
                "document_key": bson.encode({"_id": n}),
                "document": None if op == "d" else bson.encode({"_id": n, "v": op}),
                "cluster_time": at(second).to_int(),
                "ord": place,
            }
            for place, (second, n, op) in enumerate(events)
        ]
        return self.spark.createDataFrame(pa.Table.from_pylist(rows, ARROW_SCHEMA)).coalesce(1)


def _told(n: int, value: Any) -> dict[str, str]:
    """A document as a chunk's reader writes it."""
    raw = bson.encode({"_id": n, "v": value})
    texts = (array[0].as_py() for array in told_texts(JsonSerialization.LEGACY, [raw]))
    return dict(zip(TEXTS.names, texts, strict=True))

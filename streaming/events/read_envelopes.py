"""READs as envelopes (`streaming.events.envelope`), in two steps.

Whoever reads a chunk writes key and document of each READ as texts: that is most of an envelope, and most of the work.
All else follows from the READ's window, once that lands, and is made as whole columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from streaming.events.envelope import (
    ARROW_SCHEMA,
    CONNECTOR,
    Envelope,
    JsonSerialization,
    document_texts,
    key_of,
)
from streaming.namespaces import Namespace

TEXTS: pa.Schema = pa.schema([pa.field("_told_key", pa.string()), pa.field("_told_document", pa.string())])
"""A READ's key and document, as its envelope has them."""
WINDOW: pa.Schema = pa.schema(
    [
        pa.field("cluster_time", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("snapshot", "_window", "_request")),
    ]
)
"""What it says of its window: the low watermark, which kind of snapshot it is of, its name, and the request's."""
READS: pa.Schema = pa.schema([pa.field("_key", pa.string()), *TEXTS, *WINDOW])

_READ = "r"


def told_texts(serialization: JsonSerialization, documents: Sequence[bytes]) -> list[pa.Array]:
    """The ``documents`` (BSON) as `TEXTS`, as ``serialization`` says. Raises MalformedBson where one is damaged,
    however deep in it."""
    texts = document_texts(serialization)
    keys, whole = map(key_of, documents), map(texts.document, documents)
    return [pa.array(values, pa.string()) for values in ([*keys], [*whole])]


@dataclass(frozen=True, slots=True)
class ReadTeller:
    """Tells the READs of the collection ``namespace`` as ``envelope`` says; ``at_ns``: when they are landed, in
    nanoseconds since 1970."""

    envelope: Envelope
    at_ns: int
    namespace: Namespace

    def batches(self, reads: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``reads``, which have the columns of `READS`, as batches of ``ARROW_SCHEMA``."""
        return map(self._told, reads)

    def _told(self, reads: pa.RecordBatch) -> pa.RecordBatch:
        count, at_ns = reads.num_rows, self.at_ns
        given = {
            "key": reads.column("_told_key"),
            "after": reads.column("_told_document"),
            "source": self._source(reads),
            "op": _all(_READ, pa.string(), count),
            **{
                name: _all(at_ns // part, pa.int64(), count)
                for name, part in (("ts_ms", 1_000_000), ("ts_us", 1_000), ("ts_ns", 1))
            },
            "_cluster_time": reads.column("cluster_time"),
            **{name: reads.column(name) for name in ("_key", "_window", "_request")},
        }
        return pa.RecordBatch.from_arrays(_columns(ARROW_SCHEMA, given, count), schema=ARROW_SCHEMA)

    def _source(self, reads: pa.RecordBatch) -> pa.Array:
        times, count, kind = reads.column("cluster_time"), reads.num_rows, ARROW_SCHEMA.field("source").type
        seconds = pc.shift_right(times, pa.scalar(32, pa.int64()))
        given = {
            "version": _all(self.envelope.version, pa.string(), count),
            "connector": _all(CONNECTOR, pa.string(), count),
            "name": _all(self.envelope.name, pa.string(), count),
            **{
                name: pc.multiply(seconds, pa.scalar(10**digits, pa.int64()))
                for name, digits in (("ts_ms", 3), ("ts_us", 6), ("ts_ns", 9))
            },
            "snapshot": reads.column("snapshot"),
            "db": _all(self.namespace.database, pa.string(), count),
            "collection": _all(self.namespace.collection, pa.string(), count),
            "ord": pc.bit_wise_and(times, pa.scalar(0xFFFFFFFF, pa.int64())).cast(pa.int32()),
        }
        return pa.StructArray.from_arrays(_columns(kind, given, count), fields=list(kind))


def _columns(fields: Iterable[pa.Field], given: dict[str, pa.Array], count: int) -> list[pa.Array]:
    """A column for each of these fields, null where none is ``given``."""
    return [given.get(field.name, pa.nulls(count, field.type)) for field in fields]


def _all(value: str | int, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)

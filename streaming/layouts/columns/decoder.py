"""Raw BSON documents to a record batch of a table plan: ``_key``, the plan's columns, ``_rescued_data``.

Nothing is ever lost. What a column takes exactly is in the column (``plan`` says what that is, ``plain.convert`` is the
definition); everything else (misfits, explicit nulls, fields without a column) is in ``_rescued_data`` (``rescue``). So
a null in a column without an entry for its path means: the field is missing; inside an array: the element is null.

How: all documents of a batch are walked in lock-step (``streaming.decode.walk``), each column is loaded at once from
the positions found (``build``), without a Python object for a document or a value. Documents that
this does not understand are decoded one by one (``plain``), which is also what the tests hold the
fast path against.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streaming.bson.elements import ARRAY, DOCUMENT, MalformedBson, starts_of
from streaming.decode.buffer import Buffer, Cells, Positions
from streaming.decode.keys import keys_at, sharded_keys_at, strictly_ascending
from streaming.decode.loads import validity
from streaming.decode.walk import Extra, FieldWalk, walk_items
from streaming.layout import Decoded
from streaming.layouts.columns.build import scalars
from streaming.layouts.columns.places import Leftovers, Place
from streaming.layouts.columns.plain import decode_plain
from streaming.layouts.columns.plan import Array, Column, ColumnType, Scalar, Struct, TablePlan
from streaming.layouts.columns.rescue import rescued_data
from streaming.layouts.columns.rows import column_array
from streaming.layouts.columns.schemas import arrow_schema, arrow_type

_ID = b"_id"
_BYTES_MAX = 1 << 31


class Decoder:
    """Decodes batches under one plan. Holds no state between batches. ``shard_key``: the fields that identify a
    document besides ``_id`` (`streaming.keys.shard_keys`)."""

    def __init__(self, plan: TablePlan, shard_key: Sequence[str] = ()) -> None:
        self.plan = plan
        self.schema = arrow_schema(plan)
        self._shard_key = shard_key

    def decode(self, raw: bytes) -> Decoded[TablePlan]:
        """Decode concatenated documents, as a raw-batch cursor gives them (below 2 GiB).

        Raises MalformedBson when the bytes are no documents, MissingId when one has no ``_id``.
        """
        starts = np.array(starts_of(raw), np.int64)
        cells = Cells(np.full(len(starts), DOCUMENT, np.uint8), starts)
        return _Batch(self.plan, self.schema, _buffer(raw), cells, shard_key=self._shard_key).decoded()

    def decode_documents(
        self, keys: Sequence[str] | pa.StringArray, documents: Sequence[bytes | None]
    ) -> Decoded[TablePlan]:
        """Decode single documents whose keys are known. None gives a row with its key and nothing else."""
        sizes = np.array([0 if item is None else len(item) for item in documents], np.int64)
        buffer = _buffer(b"".join(item for item in documents if item is not None))
        there = np.fromiter((item is not None for item in documents), np.bool_, len(documents))
        cells = Cells(np.where(there, DOCUMENT, 0).astype(np.uint8), np.cumsum(sizes) - sizes)
        stated = buffer.int32[cells.at[there]]
        if (stated != sizes[there]).any():
            wrong = int(np.argmax(stated != sizes[there]))
            raise MalformedBson(f"a document says {stated[wrong]} bytes; {sizes[there][wrong]} are there")
        return _Batch(self.plan, self.schema, buffer, cells, pa.array(keys, pa.string())).decoded()


def _buffer(raw: bytes) -> Buffer:
    if len(raw) >= _BYTES_MAX:
        raise ValueError(
            f"a batch of {len(raw)} bytes is too large to decode at once; ask for smaller batches"
        )
    return Buffer(raw)


class _Batch:
    """The work on one batch: a column at a time, depth first."""

    def __init__(
        self,
        plan: TablePlan,
        schema: pa.Schema,
        buffer: Buffer,
        documents: Cells,
        keys: pa.StringArray | None = None,
        shard_key: Sequence[str] = (),
    ) -> None:
        self._plan, self._schema, self._documents, self._keys = plan, schema, documents, keys
        self._shard_key = shard_key
        self._buffer = buffer
        self._left = Leftovers(self._buffer, plan)
        self._odd: set[int] = set()

    def decoded(self) -> Decoded[TablePlan]:
        """Decode, top level first, then the odd rows once more in plain."""
        columns, ids = self._fields(self._plan.columns, self._documents, Place(), (_ID,))
        keys = self._keys if self._keys is not None else keys_at(self._buffer, ids[_ID])
        if self._shard_key and self._keys is None:
            keys = sharded_keys_at(self._buffer, self._documents, self._shard_key)
        entries = self._left.entries(self._odd)
        if self._odd:
            columns = self._plainly(columns, entries)
        texts: list[str | None] = [None] * len(keys)
        for row, parts in entries.items():
            texts[row] = rescued_data(parts)
        rescued = pa.array(texts, pa.string())
        batch = pa.RecordBatch.from_arrays([keys, *columns, rescued], schema=self._schema)
        return Decoded(batch, strictly_ascending(keys), self._left.unknown(), len(entries))

    def _fields(
        self, columns: Sequence[Column], cells: Cells, place: Place, wanted: tuple[bytes, ...] = ()
    ) -> tuple[list[pa.Array], dict[bytes, Cells]]:
        """The columns of the documents among the cells, null in all other slots; and the cells of
        ``wanted``.
        """
        is_document = cells.tags == DOCUMENT
        whole = bool(is_document.all())
        slots = np.arange(len(is_document)) if whole else np.flatnonzero(is_document)
        names = {column.name.encode(): column for column in columns}
        asked = [*(name for name in wanted if name not in names), *names]
        found = FieldWalk(self._buffer, cells.at if whole else cells.at[slots], asked).run()
        for odd in found.odd:
            self._odd.update(place.rows(slots[odd]).tolist())
        there = (
            found.cells
            if whole
            else {name: c.spread(slots, len(cells.at)) for name, c in found.cells.items()}
        )
        arrays = [self._column(c.type, there[name], place.field(c.name)) for name, c in names.items()]
        for extra in found.extras:
            self._left.extra(place, extra, slots[extra.slots])
        if found.loose:
            self._left.loose(
                place, [(int(slots[slot]), name, tag, at) for slot, name, tag, at in found.loose]
            )
        for name in wanted:
            if name not in names:
                with_it = np.flatnonzero(there[name].tags)
                extra = Extra(name, with_it, there[name].tags[with_it], there[name].at[with_it])
                self._left.extra(place, extra, with_it)
        return arrays, {name: there[name] for name in wanted}

    def _column(self, type_: ColumnType, cells: Cells, place: Place) -> pa.Array:
        if isinstance(type_, Scalar):
            values, left = scalars(type_.kind, self._buffer, cells)
        elif isinstance(type_, Struct):
            valid = cells.tags == DOCUMENT
            children, _ = self._fields(type_.fields, cells, place)
            values = pa.Array.from_buffers(
                arrow_type(type_), len(valid), [validity(valid)], children=children
            )
            left = _others(cells, DOCUMENT)
        else:
            values = self._array(type_, cells, place)
            left = _others(cells, ARRAY)
        if len(left):
            self._left.misfits(place, cells, left)
        return values

    def _array(self, type_: Array, cells: Cells, place: Place) -> pa.Array:
        valid = cells.tags == ARRAY
        slots = np.flatnonzero(valid)
        items = walk_items(self._buffer, cells.at[slots])
        counts = np.zeros(len(valid), np.int64)
        counts[slots] = items.counts
        offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts))).astype(np.int32)
        child = self._column(type_.element, items.cells, place.elements(np.repeat(slots, items.counts)))
        buffers = [validity(valid), pa.py_buffer(offsets)]
        return pa.Array.from_buffers(arrow_type(type_), len(valid), buffers, children=[child])

    def _plainly(self, columns: list[pa.Array], entries: dict[int, list[str]]) -> list[pa.Array]:
        """The columns with the odd rows decoded in plain; their entries are added."""
        rows = sorted(self._odd)
        plain = [decode_plain(self._plan, self._buffer.raw, int(self._documents.at[row])) for row in rows]
        for row, decoded in zip(rows, plain, strict=True):
            if decoded.entries:
                entries[row] = decoded.entries
        # The plain values are put behind each column, and the odd rows are taken from there.
        take = np.arange(len(self._documents.tags))
        take[rows] = len(take) + np.arange(len(rows))
        order = pa.array(take)
        replaced = []
        for index, (column, values) in enumerate(zip(self._plan.columns, columns, strict=True)):
            odd = column_array(column.type, [item.values[index] for item in plain])
            replaced.append(pa.concat_arrays([values, odd]).take(order))
        return replaced


def _others(cells: Cells, tag: int) -> Positions:
    return np.flatnonzero((cells.tags != 0) & (cells.tags != tag))

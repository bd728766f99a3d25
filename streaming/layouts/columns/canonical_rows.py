"""Rows of a state table as canonical bytes: the table's side of ``canonical``.

Columns are read as Arrow arrays, a column at a time, and put together row by row, with ``_rescued_data``
laid over them. Nothing is rounded to fit: a timestamp with microseconds that no BSON date has, or an id
that is no ObjectId, gives bytes that no document has, so it shows as a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from struct import Struct as Packed
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.canonical.documents import (
    binary_form,
    canonical_double,
    canonical_integer,
    canonical_ratio,
    object_id_form,
    string_form,
)
from streaming.canonical.rescued import UnreadableRescuedData, read_rescued
from streaming.layouts.columns.decimals import DECIMALS
from streaming.layouts.columns.plan import Array, Column, ColumnType, Scalar, Struct, TablePlan

Node = bytes | dict[str, Any] | list[Any]
"""A value on its way to canonical bytes: done, or a document or array that entries may still be laid over."""

_DATE = Packed("<q").pack


def canonical_rows(plan: TablePlan, batch: pa.RecordBatch) -> list[bytes]:
    """The canonical document of each row. ``batch`` has the plan's columns and ``_rescued_data``, by name.

    Raises UnreadableRescuedData when the rescued data can't be laid over the columns.
    """
    columns = [(c, batch.column(c.name)) for c in sorted(plan.columns, key=_by_bytes)]
    prefixes = [_prefix(column.name) for column, _ in columns]
    forms = [_forms(column.type, values, _bytes_of) for column, values in columns]
    rescued = batch.column("_rescued_data").to_pylist()
    rows = _joined(prefixes, forms, batch.num_rows)
    deep: list[tuple[int, dict[tuple[str, ...], bytes]]] = []
    for index, text in enumerate(rescued):
        if text is None:
            continue
        entries = read_rescued(text)
        if all(len(path) == 1 for path in entries):
            fields = {prefixes[i]: form[index] for i, form in enumerate(forms) if form[index] is not None}
            rows[index] = _with_fields(fields, entries)
        else:
            deep.append((index, entries))
    if deep:
        _lay_over(plan, batch.take(pa.array([index for index, _ in deep])), deep, rows)
    return rows


def _by_bytes(column: Column) -> bytes:
    return column.name.encode()


def _prefix(name: str) -> bytes:
    return b"," + name.encode() + b"\0"


def _with_fields(fields: dict[bytes, Any], entries: dict[tuple[str, ...], bytes]) -> bytes:
    for (name,), value in entries.items():
        prefix = _prefix(name)
        if prefix in fields:
            raise UnreadableRescuedData(f"field {name!r} is in its column and in _rescued_data as well")
        fields[prefix] = value
    return b"{" + b"".join([prefix + fields[prefix] for prefix in sorted(fields)]) + b"}"


def _lay_over(
    plan: TablePlan,
    batch: pa.RecordBatch,
    deep: list[tuple[int, dict[tuple[str, ...], bytes]]],
    rows: list[bytes],
) -> None:
    """The rows whose entries lie inside documents or arrays, or stand for the whole document."""
    forms = {c.name: _forms(c.type, batch.column(c.name), _node_of) for c in plan.columns}
    for place, (index, entries) in enumerate(deep):
        fields = {name: form[place] for name, form in forms.items() if form[place] is not None}
        if () in entries:
            if fields or len(entries) > 1:
                raise UnreadableRescuedData("a document rescued whole has columns or other entries as well")
            rows[index] = entries[()]
            continue
        for path, value in entries.items():
            try:
                _put(fields, path, value)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                text = f"the entry at {path} of _rescued_data has no place among the columns"
                raise UnreadableRescuedData(text) from error
        rows[index] = _serialised(fields)


def _put(node: Any, path: tuple[str, ...], value: bytes) -> None:
    *above, last = path
    for part in above:
        node = node[int(part)] if isinstance(node, list) else node[part]
    # An element that was rescued is null in its column; a field that was rescued is not there.
    if isinstance(node, list) and node[int(last)] == b"0":
        node[int(last)] = value
    elif isinstance(node, dict) and last not in node:
        node[last] = value
    else:
        raise KeyError(last)


def _serialised(node: Node) -> bytes:
    if isinstance(node, bytes):
        return node
    if isinstance(node, list):
        return b"[" + b"".join([_serialised(item) for item in node]) + b"]"
    fields = sorted((_prefix(name), item) for name, item in node.items())
    return b"{" + b"".join([prefix + _serialised(item) for prefix, item in fields]) + b"}"


def _joined(prefixes: Sequence[bytes], forms: Sequence[list[Any]], count: int) -> list[Any]:
    if not forms:
        return [b"{}"] * count
    named = [
        [None if value is None else prefix + value for value in form]
        for prefix, form in zip(prefixes, forms, strict=True)
    ]
    return [b"{" + b"".join(filter(None, row)) + b"}" for row in zip(*named, strict=True)]


def _bytes_of(names: Sequence[str], forms: Sequence[list[Any]], count: int) -> list[Any]:
    return _joined([_prefix(name) for name in names], forms, count)


def _node_of(names: Sequence[str], forms: Sequence[list[Any]], count: int) -> list[Any]:
    if not forms:
        return [{} for _ in range(count)]
    rows = zip(*forms, strict=True)
    return [{n: v for n, v in zip(names, row, strict=True) if v is not None} for row in rows]


def _forms(type_: ColumnType, values: pa.Array, documents: Callable[..., list[Any]]) -> list[Any]:
    """Each value of the column (None: null). Documents are assembled by ``documents``, and with them
    arrays.
    """
    if isinstance(type_, Scalar):
        return _SCALARS[type_.kind](values)
    valid = values.is_valid().to_pylist() if values.null_count else None
    if isinstance(type_, Struct):
        fields = sorted(type_.fields, key=_by_bytes)
        forms = [_forms(f.type, pc.struct_field(values, [f.name]), documents) for f in fields]
        rows = documents([f.name for f in fields], forms, len(values))
    else:
        rows = _arrays(type_, values, documents)
    return rows if valid is None else [row if there else None for row, there in zip(rows, valid, strict=True)]


def _arrays(type_: Array, values: pa.Array, documents: Callable[..., list[Any]]) -> list[Any]:
    offsets = values.offsets.to_pylist()
    items = _forms(type_.element, values.values, documents)
    items = [b"0" if item is None else item for item in items]
    slices = [items[start:end] for start, end in pairwise(offsets)]
    if documents is _node_of:
        return slices
    return [b"[" + b"".join(part) + b"]" for part in slices]


def _each(form: Callable[[Any], bytes]) -> Callable[[pa.Array], list[Any]]:
    return lambda values: [None if value is None else form(value) for value in values.to_pylist()]


def _decimals(scale: int, values: pa.Array) -> list[Any]:
    """The unscaled 128-bit numbers, read from their two words: no Python Decimal, no context that rounds."""
    if not len(values):
        return []  # their buffer may be of any size
    words = np.frombuffer(values.buffers()[1], "<u8").reshape(-1, 2)[
        values.offset : values.offset + len(values)
    ]
    valid = values.is_valid().to_pylist()
    low, high = words[:, 0].tolist(), words[:, 1].view("<i8").tolist()
    return [
        _decimal((above << 64) + below, scale) if there else None
        for below, above, there in zip(low, high, valid, strict=True)
    ]


@lru_cache(maxsize=1 << 16)
def _decimal(unscaled: int, scale: int) -> bytes:
    return canonical_ratio(unscaled, 10**scale)


def _dates(values: pa.Array) -> list[Any]:
    return [None if value is None else _date(value) for value in values.cast(pa.int64()).to_pylist()]


def _date(micros: int) -> bytes:
    millis, rest = divmod(micros, 1000)
    return b"d" + _DATE(millis) if not rest else b"D%d;" % micros


def _strings(values: pa.Array) -> list[Any]:
    texts = values.cast(pa.binary()).to_pylist()
    return [None if text is None else b"s" + string_form(text) for text in texts]


def _object_id(digits: str) -> bytes:
    form = object_id_form(digits)
    return b"O" + string_form(digits.encode()) if form is None else form


_SCALARS: dict[str, Callable[[pa.Array], list[Any]]] = {
    "long": _each(canonical_integer),
    "double": _each(canonical_double),
    **{kind: partial(_decimals, scale) for kind, scale in DECIMALS.items()},
    "string": _strings,
    "bool": _each(lambda value: b"t" if value else b"f"),
    "date": _dates,
    "objectId": _each(_object_id),
    "binary": _each(lambda value: binary_form(0, value)),
}

"""The orders as Arrow: what pymongoarrow is asked for, and how that becomes what Spark takes.

pymongoarrow gives ObjectId and Decimal128 as fixed bytes and dates in milliseconds; Spark takes none of the
three. The conversions here are whole-column ones, at any depth, and hold for these documents only: a
Decimal128 must have two decimal places and 63 bits, and nothing may be null. They raise on any other rather
than give a wrong number.
"""

import numpy as np
import pyarrow as pa
from pymongoarrow.api import Schema
from pymongoarrow.types import Decimal128Type, ObjectIdType

_ITEM = pa.struct([("sku", pa.string()), ("quantity", pa.int32()), ("price", Decimal128Type())])
_ADDRESS = pa.struct([("city", pa.string()), ("country", pa.string())])
BSON_SCHEMA = Schema(
    {
        "_id": ObjectIdType(),
        "number": pa.string(),
        "status": pa.string(),
        "placed_at": pa.timestamp("ms"),
        "revision": pa.int32(),
        "customer": pa.struct([("number", pa.int32()), ("address", _ADDRESS)]),
        "items": pa.list_(_ITEM),
        "total": Decimal128Type(),
        "gift": pa.bool_(),
    }
)
_HEX = np.frombuffer(b"".join(b"%02x" % value for value in range(256)), dtype=np.uint16)
# The upper half of a Decimal128 with exponent -2: (6176 - 2) << 49.
_TWO_PLACES = np.uint64((6176 - 2) << 49)


def to_spark(table: pa.Table) -> pa.Table:
    """The same rows with the types of `ORDER_DDL`. Raises ValueError on a null or a decimal it cannot
    represent."""
    columns = [_plain(pa.concat_arrays(column.chunks)) for column in table.columns]
    return pa.table(dict(zip(table.column_names, columns, strict=True)))


def _plain(array: pa.Array) -> pa.Array:
    kind = array.type
    if array.null_count or array.offset:
        raise ValueError(f"a column of orders has {array.null_count} nulls, or is a slice: {kind}")
    if isinstance(kind, ObjectIdType):
        return _hex(array.storage)
    if isinstance(kind, Decimal128Type):
        return _decimal(array.storage)
    if pa.types.is_timestamp(kind):
        return array.cast(pa.timestamp("us", "UTC"))
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(array.offsets, _plain(array.values))
    if pa.types.is_struct(kind):
        children = [_plain(array.field(place)) for place in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, [field.name for field in kind])
    return array


def _hex(storage: pa.Array) -> pa.Array:
    width = storage.type.byte_width
    text = _HEX[np.frombuffer(storage.buffers()[1], dtype=np.uint8, count=width * len(storage))]
    offsets = np.arange(0, 2 * width * (len(storage) + 1), 2 * width, dtype=np.int32)
    return pa.StringArray.from_buffers(len(storage), pa.py_buffer(offsets), pa.py_buffer(text))


def _decimal(storage: pa.Array) -> pa.Array:
    halves = np.frombuffer(storage.buffers()[1], dtype="<u8", count=2 * len(storage)).reshape(-1, 2)
    if (halves[:, 1] != _TWO_PLACES).any() or (halves[:, 0] >> np.uint64(63)).any():
        raise ValueError("an order has a decimal that is negative, too large, or not of two places")
    # Arrow's decimal is a little-endian 128-bit integer, so the lower half is the number of cents already.
    cents = np.zeros_like(halves)
    cents[:, 0] = halves[:, 0]
    return pa.Array.from_buffers(pa.decimal128(18, 2), len(storage), [None, pa.py_buffer(cents)])

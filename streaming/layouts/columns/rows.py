"""Plain values to Arrow arrays: what ``plain`` gave for a column, as the same array that the fast
path builds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from streaming.decode.loads import validity
from streaming.layouts.columns.build import plain_array
from streaming.layouts.columns.plan import Array, ColumnType, Scalar, Struct
from streaming.layouts.columns.schemas import arrow_type


def column_array(type_: ColumnType, values: list[Any]) -> pa.Array:
    """An array of the type from plain values: scalars as ``convert`` gives them, dicts, lists; None is
    null.
    """
    valid = np.array([value is not None for value in values], np.bool_)
    match type_:
        case Scalar(kind):
            return plain_array(kind, values)
        case Struct(fields):
            children = [
                column_array(f.type, [None if v is None else v[f.name] for v in values]) for f in fields
            ]
            return pa.Array.from_buffers(arrow_type(type_), len(values), [validity(valid)], children=children)
        case Array(element):
            counts = np.array([0, *(0 if value is None else len(value) for value in values)], np.int32)
            flat = [item for value in values if value is not None for item in value]
            buffers = [validity(valid), pa.py_buffer(np.cumsum(counts, dtype=np.int32))]
            child = column_array(element, flat)
            return pa.Array.from_buffers(arrow_type(type_), len(values), buffers, children=[child])

"""A data file of a table, read by Arrow: by row groups, a column at a time."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streaming.column_names import KEY
from streaming.delta.arrow_rows import aligned

if TYPE_CHECKING:
    from streaming.delta.table_folder import TableFolder

UNREAD = (ValueError, TypeError, IndexError, OSError, struct.error, pa.ArrowException)
"""A file that others have written may be one that Spark reads, and Arrow or the look into a vector does not."""
KEYS = pa.field(KEY, pa.string())
_WHOLE_BYTES = 8 << 20


def read_footer(folder: TableFolder, name: str) -> pq.FileMetaData:
    """What the footer of the file of this ``name`` in a table's ``folder`` says; of the file nothing else is read."""
    with folder.open(name) as source:
        return pq.read_metadata(source)


@dataclass(slots=True)
class TableFile:
    """A Parquet file that is open, and where each of its row groups begins."""

    parquet: pq.ParquetFile
    begins: list[int]
    names: frozenset[str]

    @classmethod
    def opened(
        cls, folder: TableFolder, name: str, stack: ExitStack, whole_bytes: int = _WHOLE_BYTES
    ) -> TableFile:
        """The file of this ``name`` in a table's ``folder``, until the ``stack`` closes it. From an object store it
        comes whole where it has no more than ``whole_bytes``: each column would be a request."""
        return cls.of(folder.open(name), folder, stack, whole_bytes)

    @classmethod
    def of(
        cls, source: pa.NativeFile, folder: TableFolder, stack: ExitStack, whole_bytes: int = _WHOLE_BYTES
    ) -> TableFile:
        """The same of a file that is open already (``source``); ``folder``, ``stack`` and ``whole_bytes`` as there."""
        source = stack.enter_context(source)
        if folder.store is not None and source.size() <= whole_bytes:
            source = pa.BufferReader(source.read())
        # What others have written there may have times as Spark once wrote them.
        parquet = pq.ParquetFile(
            source, coerce_int96_timestamp_unit="us", pre_buffer=folder.store is not None
        )
        sizes = [parquet.metadata.row_group(at).num_rows for at in range(parquet.num_row_groups)]
        return cls(parquet, [0, *np.cumsum(sizes).tolist()], frozenset(parquet.schema_arrow.names))

    @property
    def rows(self) -> int:
        return self.begins[-1]

    def column(self, group: int, of: pa.Field) -> pa.Array:
        """Of a row group; null where the file lacks it."""
        if of.name not in self.names:
            return pa.nulls(self.begins[group + 1] - self.begins[group], of.type)
        table = self.parquet.read_row_group(group, columns=[of.name], use_threads=False)
        return aligned(table.column(of.name).combine_chunks(), of.type)

    def whole(self, of: pa.Field) -> pa.Array:
        """Of all row groups, which from an object store come side by side."""
        if of.name not in self.names:
            return pa.nulls(self.rows, of.type)
        table = self.parquet.read([of.name], use_threads=False)
        return aligned(table.column(of.name).combine_chunks(), of.type)

    def groups_of(self, keys: Sequence[str]) -> Iterator[int]:
        """The row groups that may hold one of these keys, which ascend."""
        columns = self.parquet.schema
        at = next(number for number in range(len(columns)) if columns.column(number).path == KEY)
        for group in range(len(self.begins) - 1):
            said = self.parquet.metadata.row_group(group).column(at).statistics
            if said is None or not said.has_min_max:
                yield group
                continue
            first = bisect_left(keys, said.min)
            if first < len(keys) and keys[first] <= said.max:
                yield group

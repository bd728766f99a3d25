"""Rows of a table's files put together in one new file by the driver, without a Spark job.

Most that is put together is small: forty files of a thousand rows take Arrow 0.15 seconds of one core, and Spark one to
two of both (bench/README.md), which landings beside it miss. What is large, or of a type that our layouts never make,
is left to Spark (`LeftToSpark`), and so is a table that keeps statistics of other columns than ours.

Invariants: the copy has the rows of the files but for those that are marked, each once, in the order of their keys, in
the columns and types of the table; what a file lacks is null. It is no part of the table before a commit adds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from streaming.column_names import CLUSTER_TIME, KEY
from streaming.delta.new_files import COPIES, FileWriter, NewFile, job_name
from streaming.delta.table_file import UNREAD, TableFile
from streaming.delta.table_properties import STATISTICS, USUAL

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from streaming.delta.delta_log import Snapshot
    from streaming.delta.file_keys import FileKeys
    from streaming.delta.table_folder import TableFolder
    from streaming.delta.transaction import ListedFile

ENCODED_BYTES, DECODED_BYTES = 64 << 20, 128 << 20
"""More is not held here: as it lies in the files once they are decompressed, and as Arrow has it."""
_SLICE_ROWS = 16_384
_COUNTED = (KEY, CLUSTER_TIME)


class LeftToSpark(Exception):
    """These files are not for the driver to copy, as the message says. Nothing is left of the try."""


def copied(
    folder: TableFolder, table: Snapshot, files: Sequence[ListedFile], kept: FileKeys
) -> NewFile | None:
    """One file with the rows of these ``files`` of a version of a ``table``, in its ``folder``; None where all of their
    rows are marked. ``kept``: what the driver knows of what is marked. Raises `LeftToSpark`."""
    if table.table_property(STATISTICS) != USUAL.all_properties[STATISTICS]:
        raise LeftToSpark("the table keeps statistics of other columns than ours")
    schema = _schema_of(table.schema)
    try:
        rows = _rows_of(folder, files, kept, schema)
        return _written(folder, rows, schema) if rows.num_rows else None
    except UNREAD as error:
        raise LeftToSpark(f"they can't be read or written here: {error}") from error


def _schema_of(columns: StructType) -> pa.Schema:
    """The table's columns in Arrow, the key first."""
    names = columns.names
    if not set(_COUNTED) <= set(names) or not all(
        map(_is_ours, (schema := to_arrow_schema(columns, timezone="UTC")).types)
    ):
        raise LeftToSpark("the table has columns that no table of ours has, or lacks some")
    return pa.schema([schema.field(KEY), *(field for field in schema if field.name != KEY)])


def _is_ours(type_: pa.DataType) -> bool:
    """Whether layouts make columns of this type, so that Arrow writes it as Spark does."""
    of = pa.types
    if of.is_struct(type_):
        return all(_is_ours(field.type) for field in type_.fields)
    if of.is_list(type_):
        return _is_ours(type_.value_type)
    plain = of.is_string, of.is_binary, of.is_boolean, of.is_signed_integer, of.is_floating, of.is_decimal
    in_utc = of.is_timestamp(type_) and type_.unit == "us" and type_.tz is not None
    return in_utc or of.is_date32(type_) or any(is_so(type_) for is_so in plain)


def _rows_of(folder: TableFolder, files: Sequence[ListedFile], kept: FileKeys, schema: pa.Schema) -> pa.Table:
    parts: list[pa.Table] = []
    encoded = decoded = 0
    for file in files:
        with ExitStack() as stack:
            opened = TableFile.opened(folder, file.name, stack)
            encoded += opened.encoded_bytes
            if encoded > ENCODED_BYTES:
                raise LeftToSpark(f"they have more than {ENCODED_BYTES} bytes")
            whole = pa.Table.from_arrays([opened.whole(field) for field in schema], schema=schema)
        if len(gone := kept.marked(folder, file.as_old())):
            stays = np.ones(whole.num_rows, np.bool_)
            stays[gone] = False
            whole = whole.filter(pa.array(stays))
        if file.said.counted and whole.num_rows != file.said.facts.rows - file.said.facts.marked:
            raise LeftToSpark(f"{file.name} has {whole.num_rows} rows, and the log says another number")
        parts.append(whole)
        decoded += whole.nbytes
        if decoded > DECODED_BYTES:
            raise LeftToSpark(f"their rows take more than {DECODED_BYTES} bytes")
    rows = pa.concat_tables(parts)
    if any(rows[name].null_count for name in _COUNTED):
        raise LeftToSpark(f"{' or '.join(_COUNTED)} is null somewhere")
    return rows


def _written(folder: TableFolder, rows: pa.Table, schema: pa.Schema) -> NewFile:
    """In slices, so that little is there twice."""
    order = pc.sort_indices(rows, sort_keys=[(KEY, "ascending")])
    writer = FileWriter(folder, schema, job_name(COPIES), 0, indexed=True)
    try:
        for first in range(0, rows.num_rows, _SLICE_ROWS):
            for batch in rows.take(order[first : first + _SLICE_ROWS]).combine_chunks().to_batches():
                writer.add(batch)
        made = writer.close()
        assert made is not None, "there are rows"
        return made
    except BaseException:
        writer.discard()
        raise

"""Rows of a table's files put together in one new file by the driver, without a Spark job.

Most that is put together is small: forty files of a thousand rows take Arrow a fifth of a second of one core, and Spark
one or two core-seconds (`python -m bench.copies`), which landings beside it miss. What is large, or of a type that our
layouts never make, is left to Spark (`LeftToSpark`), and so is a table with statistics of other columns than ours.

Invariants: the copy has the rows of the files but for those that are marked, each once, in the order of their keys, in
the columns and types of the table; what a file lacks is null. It is no part of the table before a commit adds it. No
more is decoded than may be held, and what that will be is looked up in the files' footers first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from streaming.column_names import CLUSTER_TIME, KEY
from streaming.delta.new_files import COPIES, FileWriter, NewFile, job_name
from streaming.delta.table_file import UNREAD, TableFile, read_footer
from streaming.delta.table_properties import STATISTICS, USUAL

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from streaming.delta.file_keys import FileKeys
    from streaming.delta.listed_file import ListedFile
    from streaming.delta.snapshot import Snapshot
    from streaming.delta.table_folder import TableFolder

ENCODED_BYTES, DECODED_BYTES = 64 << 20, 128 << 20
"""More is not held here: as it lies in the files once they are decompressed, and as Arrow has it."""
_SLICE_BYTES = 4 << 20
_VALUE_BYTES = 5
"""That Arrow takes for one at least, in round numbers, and be it null."""
_COUNTED = (KEY, CLUSTER_TIME)
_WRITTEN_BY = b"org.apache.spark.version"
_JULIAN = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_GREGORIAN_SINCE = (3, 1)


class LeftToSpark(Exception):
    """These files are not for the driver to copy, as the message says. Nothing is left of the try."""


def copied(
    folder: TableFolder, table: Snapshot, files: Sequence[ListedFile], kept: FileKeys
) -> NewFile | None:
    """One file with the rows of these ``files`` of a version of a ``table``, in its ``folder``; None where all of their
    rows are marked. ``kept``: what the driver knows of what is marked. Raises `LeftToSpark`."""
    if table.table_property(STATISTICS) != USUAL.all_properties[STATISTICS]:
        raise LeftToSpark("the table keeps statistics of other columns than ours")
    if sum(file.said.facts.size_bytes for file in files) > ENCODED_BYTES:
        raise LeftToSpark(f"they have more than {ENCODED_BYTES} bytes")
    try:
        schema = _schema_of(table.schema)
        _check_footers(folder, files, schema)
        rows = _rows_of(folder, files, kept, schema)
        return _written(folder, rows, schema) if rows.num_rows else None
    except UNREAD as error:
        raise LeftToSpark(f"they can't be read or written here: {error}") from error


def is_gregorian(said: dict[bytes, bytes]) -> bool:
    """Whether Spark takes dates in a file that says this of itself as they are; else it shifts old ones as it reads."""
    version = said.get(_WRITTEN_BY, b"0.0").split(b".")
    return not any(key in said for key in _JULIAN) and tuple(map(int, version[:2])) >= _GREGORIAN_SINCE


def _schema_of(columns: StructType) -> pa.Schema:
    """The table's columns in Arrow, the key first."""
    schema = to_arrow_schema(columns, timezone="UTC")
    if not set(_COUNTED) <= set(schema.names) or not all(map(_is_ours, schema.types)):
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


def _check_footers(folder: TableFolder, files: Sequence[ListedFile], schema: pa.Schema) -> None:
    """Raises `LeftToSpark` where a file is none for Arrow, or all of them are too much."""
    footers = folder.each(lambda file: read_footer(folder, file.name), files)
    encoded = values = 0
    for file, footer in zip(files, footers, strict=True):
        if not is_gregorian(footer.metadata or {}):
            raise LeftToSpark(f"{file.name} may have dates of the Julian calendar")
        if not _is_among(pa.struct(footer.schema.to_arrow_schema()), pa.struct(schema)):
            raise LeftToSpark(f"{file.name} has columns that the table lacks")
        encoded += sum(footer.row_group(at).total_byte_size for at in range(footer.num_row_groups))
        values += footer.num_rows * max(1, footer.num_columns)
    if encoded > ENCODED_BYTES or encoded + values * _VALUE_BYTES > DECODED_BYTES:
        raise LeftToSpark(f"they have more than {ENCODED_BYTES} bytes, or {DECODED_BYTES} in memory")


def _is_among(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether a type has no field, however deep, that the other lacks."""
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        wanted = {field.name: field.type for field in want.fields}
        return all(f.name in wanted and _is_among(f.type, wanted[f.name]) for f in have.fields)
    if pa.types.is_list(have) and pa.types.is_list(want):
        return _is_among(have.value_type, want.value_type)
    return True


def _rows_of(folder: TableFolder, files: Sequence[ListedFile], kept: FileKeys, schema: pa.Schema) -> pa.Table:
    """The rows of the files that are not marked, in one piece. Raises `LeftToSpark` where they are too much, or not as
    many as the log says."""
    held = [0]
    rows = pa.concat_tables(
        folder.each(partial(_rows_in, folder, kept, schema, held), files)
    ).combine_chunks()
    if any(rows[name].null_count for name in _COUNTED):
        raise LeftToSpark(f"{' or '.join(_COUNTED)} is null somewhere")
    return rows


def _rows_in(
    folder: TableFolder, kept: FileKeys, schema: pa.Schema, held: list[int], file: ListedFile
) -> pa.Table:
    """The same of one file. ``held``: how many bytes there are of all files so far."""
    columns = []
    with ExitStack() as stack:
        opened = TableFile.opened(folder, file.name, stack)
        for field in schema:
            columns.append(opened.whole(field))
            held[0] += columns[-1].nbytes
            if held[0] > DECODED_BYTES:
                raise LeftToSpark(f"their rows take more than {DECODED_BYTES} bytes")
    rows = pa.Table.from_arrays(columns, schema=schema)
    if len(gone := kept.marked(folder, file.as_old())):
        stays = np.ones(rows.num_rows, np.bool_)
        stays[gone] = False
        rows = rows.filter(pa.array(stays))
    facts = file.said.facts
    if file.said.counted and rows.num_rows != facts.rows - facts.marked:
        raise LeftToSpark(f"{file.name} has {rows.num_rows} rows, and the log says another number")
    return rows


def _written(folder: TableFolder, rows: pa.Table, schema: pa.Schema) -> NewFile:
    """In slices, so that little is there twice."""
    order = pc.sort_indices(rows, sort_keys=[(KEY, "ascending")])
    step = max(1, _SLICE_BYTES * rows.num_rows // max(1, rows.nbytes))
    writer = FileWriter(folder, schema, job_name(COPIES), 0, indexed=True)
    try:
        for first in range(0, rows.num_rows, step):
            for batch in rows.take(order[first : first + step]).to_batches():
                writer.add(batch)
        made = writer.close()
        assert made is not None, "there are rows"
        return made
    except BaseException:
        writer.discard()
        raise

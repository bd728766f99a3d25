"""A collection and a small table compared in this process, by DuckDB: no JVM is started, which takes most of the time
that few documents take.

It needs the packages of the extra ``verify``; Delta's extension of DuckDB comes with one of them, and nothing is loaded
from a network. The log is read by Delta's own kernel, so deletion vectors are heeded; a version is read by its number.
What DuckDB cannot do, however it says so, is `NeedsSpark`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import duckdb_extension_delta
import pyarrow as pa
import pyarrow.compute as pc

from snapshotter.verification import collection, rows, small_table
from snapshotter.verification.collection import EVERYTHING, Source
from snapshotter.verification.comparison import (
    CONTENTS,
    FIGURES,
    JUDGED,
    RECHECKED_MAX,
    Contents,
    VerifyResult,
    by_key,
    found,
)
from snapshotter.verification.small_table import DOCUMENTS_MAX, NeedsSpark, SmallTable
from streaming.column_names import DELETED, KEY
from streaming.delta.table_properties import PLAN_PROPERTY
from streaming.layout import AnyLayout

_OPTIONS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": "1GB",
    "temp_directory": "",  # else it makes a folder where it is called
}
_BATCH_ROWS = 2_048


class DuckdbSides:
    """As `comparison.Sides`. Raises `NeedsSpark` where it has to be Spark after all."""

    def __init__(self, source: Source, table_path: str, layout: AnyLayout) -> None:
        self._source, self._path, self._layout = source, table_path, layout

    def compare(self, keys: frozenset[str] | None) -> VerifyResult:
        """As `Sides.compare`. What was found is held as keys and hashes."""
        with _lake() as lake:
            lake.register("documents", _table(self._documents(keys, whole=False), "the collection"))
            lake.register("entries", _table(self._rows(lake, keys, whole=False), "the table"))
            lake.execute(
                f"CREATE TEMP TABLE judged AS {JUDGED.format(collection='documents', table='entries')}"
            )
            figures = lake.execute(f"SELECT {', '.join(FIGURES.values())} FROM judged").fetchone()
            wrong = f"SELECT {KEY} FROM judged WHERE kind IS NOT NULL ORDER BY {KEY} LIMIT {RECHECKED_MAX}"
            names = [row[0] for row in lake.execute(wrong).fetchall()]
        return found(dict(zip(FIGURES, figures or (), strict=True)), names)

    def whole(self, keys: frozenset[str]) -> tuple[Contents, Contents]:
        """As `Sides.whole`."""
        with _lake() as lake:
            return _collected(self._documents(keys, whole=True)), _collected(
                self._rows(lake, keys, whole=True)
            )

    def _documents(self, keys: frozenset[str] | None, whole: bool) -> Iterator[pa.RecordBatch]:
        if (documents := collection.size(self._source)) > DOCUMENTS_MAX:
            raise NeedsSpark(_many("the collection", documents))
        return collection.contents(self._source, EVERYTHING, keys, whole)

    def _rows(
        self, lake: duckdb.DuckDBPyConnection, keys: frozenset[str] | None, whole: bool
    ) -> Iterator[pa.RecordBatch]:
        table = small_table.look(self._path)
        if table is None:
            return
        plan = rows.plan_of(self._layout, table.properties.get(PLAN_PROPERTY), self._path)
        asked = None if keys is None else pa.array(sorted(keys), pa.string())
        for batch in _scanned(lake, table, rows.columns_of(plan)):
            # Not in the query: files are not to be left out by what their statistics say.
            kept = batch if asked is None else batch.filter(pc.is_in(batch.column(0), asked))
            yield rows.contents(kept, self._layout, plan, whole)


@contextmanager
def _lake() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that knows Delta."""
    version = f"v{duckdb.__version__}"
    file = Path(duckdb_extension_delta.__file__).parent / "extensions" / version / "delta.duckdb_extension"
    if not file.is_file():
        raise NeedsSpark(f"duckdb-extension-delta has none for DuckDB {version}: {small_table.HOW}")
    try:
        with duckdb.connect(config=_OPTIONS) as lake:
            lake.execute(f"LOAD {_text(file)}")
            lake.execute(
                "SET TimeZone = 'UTC'"
            )  # nested times without a zone, as Spark writes them, are of UTC
            yield lake
    except duckdb.Error as error:
        raise _refused(error) from error


def _scanned(
    lake: duckdb.DuckDBPyConnection, table: SmallTable, columns: list[str]
) -> Iterator[pa.RecordBatch]:
    """These ``columns`` of each row that is not marked as deleted."""
    names = ", ".join(map(_quoted, columns))
    scan = f"delta_scan({_text(table.folder)}, version = {table.version})"
    live = f"WHERE {_quoted(DELETED)} IS NOT TRUE" if table.marked else ""
    batches = lake.execute(f"SELECT {names} FROM {scan} {live}").to_arrow_reader(_BATCH_ROWS)
    while True:
        try:
            batch = batches.read_next_batch()
        except StopIteration:
            return
        except (
            pa.ArrowException,
            OSError,
        ) as error:  # what DuckDB says once it streams comes by way of Arrow
            raise _refused(error) from error
        yield batch


def _table(batches: Iterator[pa.RecordBatch], what: str) -> pa.Table:
    kept, count = [], 0
    for batch in batches:
        kept.append(batch)
        count += batch.num_rows
        if count > DOCUMENTS_MAX:
            raise NeedsSpark(_many(what, count))
    return pa.Table.from_batches(kept, CONTENTS)


def _collected(batches: Iterator[pa.RecordBatch]) -> Contents:
    return by_key(
        pair for batch in batches for pair in zip(*(c.to_pylist() for c in batch.columns), strict=True)
    )


def _many(what: str, count: int) -> str:
    return f"{what} has {count:,} or more, and Spark is quicker from {DOCUMENTS_MAX:,} on"


def _refused(error: Exception) -> NeedsSpark:
    return NeedsSpark(f"DuckDB cannot read it: {str(error).splitlines()[0]}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(value: Path) -> str:
    return "'" + str(value).replace("'", "''") + "'"

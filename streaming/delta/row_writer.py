"""The contract of what writes rows by key into a state table, and which of its two implementations a landing gets.

Delta's own MERGE (`state_merge.DeltaMerge`) does all that a table may ask of its writers. Ours (`state_upsert.Upsert`)
takes fewer jobs, and inserts proven new rows in the same commit, but needs deletion vectors and a source whose keys are
proven distinct. `tests/conformance/test_row_writers.py` holds both to the contract, and names each difference.

`choose` decides from values alone, and says why; `status` shows it for each table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

from pyspark.sql import functions as F

from streaming.column_names import OP
from streaming.delta.comparison import NOTHING_FOUND, Found, ReadFiles, Reads
from streaming.delta.delta_log import metadata_text
from streaming.delta.new_files import rows_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from streaming.delta.new_files import NewFile
    from streaming.keys.ranges import Range

How = Literal["merge", "insert", "append", "replace"]

# Some 100 bytes a key: 40 MB on the driver and on each executor.
_BROADCAST_ROWS = 400_000
_BROADCAST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Known:
    """What a caller can promise of a source, each of which saves a MERGE work.

    ``rows``: it has no more than so many. The keys of a small one are sent to every executor, and the table's
    need no shuffle in two of the MERGE's three joins. ``distinct``: no key comes twice. ``held``: it is
    checkpointed, so that it gives the same rows however often it is read, and Delta need not write it aside.
    ``deletes``: exactly so many of its rows are deletes. ``size_bytes``: about so many are in its documents.
    """

    rows: int | None = None
    distinct: bool = False
    held: bool = False
    deletes: int | None = None
    size_bytes: int = 0

    @property
    def large(self) -> bool:
        """Whether its rows have too many bytes to be sent to every executor, however few they are."""
        return self.size_bytes > _BROADCAST_BYTES

    @property
    def few(self) -> bool:
        return self.rows is not None and self.rows <= _BROADCAST_ROWS


NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True)
class Batch:
    """What the commit records: the application's batch, and what its ``userMetadata`` says, a JSON object."""

    app_id: str
    batch_id: int
    user_metadata: str

    def said(self, found: Found) -> str:
        """The same with what READs have ``found``, which is known only once they were held against the table."""
        if found == NOTHING_FOUND:
            return self.user_metadata
        return metadata_text({**json.loads(self.user_metadata), "found": found.to_json()})


@dataclass(frozen=True, slots=True)
class RowsInFiles:
    """Rows that lie in the table's folder as ``files`` already, and deletes, which have none. ``keys`` has the key and
    the operation of each of both, in columns of the table's names; ``schema`` is that of the rows. ``told``: the
    same as ``keys``, where the driver has them."""

    keys: DataFrame
    files: Sequence[NewFile]
    schema: StructType
    told: pa.Table | None = None

    def and_deletes(self, others: DataFrame) -> RowsInFiles:
        """These and further deletes, rows of the table's columns."""
        return replace(self, keys=self.keys.unionByName(others.select(self.keys.columns)), told=None)

    def read(self, session: SparkSession, folder: str, schema: StructType) -> DataFrame:
        """All of them as rows of a table in this ``folder``, with its ``schema``, read in ``session``, for whoever
        takes no files."""
        deletes = self.keys.where(F.col(OP) == "d")
        return rows_of(session, folder, self.files, schema).unionByName(deletes, allowMissingColumns=True)


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of the table's columns, one a key (None: there are none); in files only an upsert takes them. ``reads``
    besides are written only where they
    differ from what the table has; as files only an upsert takes them. ``ranges`` hold all keys of both; None: they may
    lie anywhere. So does what is ``known``, but for the deletes, which are of ``rows``."""

    rows: DataFrame | RowsInFiles | None
    ranges: Sequence[Range] | None
    known: Known = NOTHING_KNOWN
    reads: Reads | ReadFiles | None = None

    @property
    def keys(self) -> DataFrame | None:
        """A frame that has the key and the operation of each of the rows."""
        return self.rows.keys if isinstance(self.rows, RowsInFiles) else self.rows

    @property
    def frame(self) -> DataFrame | None:
        """The rows, where they are to be written."""
        return None if isinstance(self.rows, RowsInFiles) else self.rows

    @property
    def few(self) -> bool:
        """Whether all of it fits every executor."""
        return self.known.few and not self.known.large


class RowWriter(Protocol):
    """Writes a batch in one commit that records it; a batch that the table records already is left out.

    The session carries the batch's marks (`state_merge.transaction`). Conflicts with other writers are raised as Delta
    raises them, and leave the table as it was.
    """

    def merge(self, source: Source, batch: Batch) -> Found:
        """Delete the keys of rows whose ``_op`` is "d", update those that the table has, insert the others; and what
        the source's READs have found in the table. A key outside the source's ranges fails before anything is written.
        """

    def append(self, source: Source, batch: Batch) -> None:
        """Insert rows whose keys are proven new."""


class By(StrEnum):
    """How a landing was written."""

    MERGE = "merge"
    UPSERT = "upsert"
    APPEND = "append"


@dataclass(frozen=True, slots=True)
class Choice:
    """``reason``: a clause for people. ``slower``: the table or Spark's settings keep us from the quicker way."""

    by: By
    reason: str
    slower: bool = False


def choose(
    how: How,
    known: Known,
    lacks: Callable[[], str | None],
    off: str | None,
) -> Choice:
    """Which writer lands this. ``how`` is that of `state_table.StateTable.land`; ``known`` is promised of the source.

    ``lacks``: why only Delta's own writer will do for the table, None where ours does; asked where it decides, for the
    answer takes calls into the JVM. ``off``: the Spark setting that switches our writer off, if one does.
    """
    if how == "append":
        return Choice(By.APPEND, "its keys are proven new")
    if how != "merge":
        return Choice(
            By.MERGE, "rows that the batch lacks go" if how == "replace" else "known keys keep their rows"
        )
    if off is not None:
        return Choice(By.MERGE, f"{off} is off", slower=True)
    if not (known.held and known.distinct and known.deletes is not None):
        return Choice(By.MERGE, "the batch's keys are not proven distinct")
    why = lacks()
    if why is not None:
        return Choice(By.MERGE, why, slower=True)
    return Choice(By.UPSERT, "old rows are marked in deletion vectors, and all is one commit")

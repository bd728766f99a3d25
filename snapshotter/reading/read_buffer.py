"""The READ buffer: what a job of chunk reads has left for the landing of its windows.

Rows lie in either of two places. In files, which the workers have written into the table's own folder: nothing of them
is in Spark, and where they are proven new a commit only names them (`streaming.delta.new_files`); their documents,
which changelogs and topics are told of, lie in files beside them, which no commit adds. Or on the executors,
checkpointed locally and *not* recomputable: a buffer that Spark recomputed after the high watermark would show a key's
future (docs/PROTOCOL.md, the rule on buffers). One whose blocks or files are gone fails to be read instead, and its
windows are read again.

Rows of the frame whose ``_trailer`` is not null are none of the table's: `is_trailer`, `is_dead`.

Invariant: a file goes with its buffer, unless a commit was asked to add it (`Buffer.offer`): whether it did is known to
the table's log alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import bson
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from snapshotter.core.values.window import WindowId
from streaming.decode.dead_letters import DEAD
from streaming.delta.local_checkpoints import free_checkpoint
from streaming.delta.new_files import NewFile, discard_files, number_in, read_files
from streaming.delta.table_folder import TableFolder
from streaming.events.read_envelopes import TEXTS
from streaming.layout import AnyLayout, TablePlan
from streaming.positions import ClusterTime

DOCUMENTS = pa.schema([pa.field("_key", pa.string()), *TEXTS])
"""The columns of a file of documents, in Arrow."""


@dataclass(frozen=True, slots=True)
class Trailer:
    """What one partition said of itself when its cursor was exhausted."""

    number: int
    rows: int
    size_bytes: int
    ended: ClusterTime
    min_key: str | None
    max_key: str | None
    unique: bool
    unknown: TablePlan
    signed: Mapping[str, Any] | None
    dead: int = 0
    """How many documents could not be processed; they are not among the rows."""
    keyless: int = 0
    """Of how many of these the key is not known."""
    file: NewFile | None = None
    """Where the rows lie, where they are written to a file."""
    documents: NewFile | None = None
    """Where their documents do, where they are told."""

    @property
    def files(self) -> tuple[NewFile, ...]:
        """All that it has written."""
        return tuple(file for file in (self.file, self.documents) if file is not None)

    def to_text(self) -> str:
        """One line, which `from_text` reads."""
        value = {
            "number": self.number,
            "rows": self.rows,
            "bytes": self.size_bytes,
            "ended": self.ended.to_json(),
            "min_key": self.min_key,
            "max_key": self.max_key,
            "unique": self.unique,
            "unknown": self.unknown.to_json(),
            "dead": self.dead,
            "keyless": self.keyless,
            "file": None if self.file is None else self.file.to_json(),
            "documents": None if self.documents is None else self.documents.to_json(),
            "signed": base64.b64encode(bson.encode(self.signed)).decode() if self.signed else None,
        }
        return json.dumps(value)

    @classmethod
    def from_text(cls, layout: AnyLayout, text: str) -> Trailer:
        """What `to_text` wrote, of a job with this ``layout``."""
        value = json.loads(text)
        signed = bson.decode(base64.b64decode(value["signed"])) if value["signed"] else None
        return cls(
            number=value["number"],
            rows=value["rows"],
            size_bytes=value["bytes"],
            ended=ClusterTime.from_json(value["ended"]),
            min_key=value["min_key"],
            max_key=value["max_key"],
            unique=value["unique"],
            unknown=layout.plan_from_json(value["unknown"]),
            signed=signed,
            dead=value["dead"],
            keyless=value["keyless"],
            file=None if value["file"] is None else NewFile.from_json(value["file"]),
            documents=None if value["documents"] is None else NewFile.from_json(value["documents"]),
        )


@dataclass(slots=True)
class Buffer:
    """The READ rows of one job, decoded under ``plan``, and what its partitions reported. ``folder``: the table's,
    where its rows and their documents lie in files; None: they are in the ``frame``, on the executors."""

    frame: DataFrame
    layout: AnyLayout
    plan: TablePlan
    trailers: tuple[Trailer, ...]
    folder: TableFolder | None = None
    _holders: set[WindowId] = field(default_factory=set)
    _offered: set[str] = field(default_factory=set)

    def hold(self, window: WindowId) -> None:
        """Keep the rows until this window is released."""
        self._holders.add(window)

    def release(self, window: WindowId) -> None:
        """Free the rows once the last window that reads from them is done."""
        self._holders.discard(window)
        if self._holders:
            return
        free_checkpoint(self.frame)
        if self.folder is not None:
            discard_files(self.folder, {file.name for file in self.files} - self._offered)

    def offer(self, files: Iterable[NewFile]) -> None:
        """A commit is about to be asked to add these files: from here on they are the table's."""
        self._offered.update(file.name for file in files)

    def trailers_of(self, window: WindowId) -> tuple[Trailer, ...]:
        """What the partitions of this window reported: a buffer may hold several windows."""
        return tuple(trailer for trailer in self.trailers if trailer.number == window.number)

    @property
    def files(self) -> tuple[NewFile, ...]:
        """All that its partitions have written."""
        return tuple(file for trailer in self.trailers for file in trailer.files)

    def withdraw(self, files: Iterable[NewFile]) -> None:
        """The commit did not add these after all: their rows have landed in another way."""
        self._offered.difference_update(file.name for file in files)

    def rows(self, windows: Collection[WindowId]) -> DataFrame:
        """The READs of these ``windows`` (and perhaps of others) as rows of a table, with the number of theirs."""
        if self.folder is None:
            return self.frame.where("_trailer is null").drop("_trailer", *TEXTS.names)
        files = [part.file for window in windows for part in self.trailers_of(window)]
        return _in_files(self.frame.sparkSession, self.folder, files, self.layout.spark_schema(self.plan))

    def keys(self, windows: Collection[WindowId]) -> DataFrame:
        """The ``_key`` of each document that was there in these ``windows`` (and perhaps in others), also of one that
        could not be processed, with the number of its window."""
        found = self.frame.where(~is_trailer()).select("_key", "_window")
        return (
            found if self.folder is None else found.unionByName(self.rows(windows).select("_key", "_window"))
        )

    def documents(self) -> DataFrame:
        """The READs as they are told, with the number of their window, where they lie in the frame; elsewhere
        `Trailer.documents` says in which files."""
        return self.frame.where("_trailer is null").select(*DOCUMENTS.names, "_window")


def _in_files(
    session: SparkSession, folder: TableFolder, files: Sequence[NewFile | None], schema: StructType
) -> DataFrame:
    """The rows of these files, with the number of their window."""
    names = [file.name for file in files if file is not None]
    if not names:
        return session.createDataFrame([], schema).withColumn("_window", F.lit(0))
    rows = read_files(session, folder.location, names, schema)
    number = F.regexp_extract(F.col("_metadata.file_name"), number_in(), 1).cast("int")
    return rows.select("*", number.alias("_window"))


def distinct(buffers: Iterable[Buffer]) -> list[Buffer]:
    """Each buffer once, although several windows may share it."""
    return list({id(buffer): buffer for buffer in buffers}.values())


def is_trailer() -> Column:
    """Rows that tell of a partition."""
    return F.col("_trailer").isNotNull() & ~is_dead()


def is_dead() -> Column:
    """Rows of documents that cannot be processed."""
    return F.col("_trailer").startswith(DEAD)

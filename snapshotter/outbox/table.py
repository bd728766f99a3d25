"""The outbox: records that wait for Kafka, in a Delta table beside the engine's state.

A batch appends its records in one commit that records it, so a batch that is landed again adds nothing. What a batch
appends is a *stretch*: it has a number that only grows, and is a partition of the table. Stretches are delivered in the
order of their numbers, each whole; the number of the last one that was delivered is durable beside the state
(``outbox.json``). What has been delivered is pruned: partitions leave the table by one commit, and then their files
leave the storage. Nobody else reads the table, so nothing is kept for readers of old versions.

| column | |
|---|---|
| kind | event, transaction or heartbeat: which schemas belong to the record |
| topic, key, value | of the record; key and value are JSON without schemas; no value: a tombstone |
| cluster_time, place | the order within a topic and a stretch; a READ stands behind the events of its time |
| stretch | the partition |

Invariants: a number is used for one commit that has records. A crash leaves files that no version has, in the partition
of a number that is used again; they go with that partition, since a folder is removed whole once its stretch was
delivered: by the next pruning, whatever an earlier one has left.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from snapshotter.log import OLD_COMMITS, warn_of
from snapshotter.state.storage import Storage, read_object
from streaming.delta.delta_log import TableLog
from streaming.delta.log_commits import Commit
from streaming.delta.new_files import NewFile
from streaming.delta.small_table import SmallTable
from streaming.delta.snapshot import Snapshot
from streaming.delta.state_merge import session_of_few
from streaming.delta.table_folder import TableFolder
from streaming.json_text import to_text
from streaming.jvm import packages

_log = structlog.get_logger("snapshotter.topics")

FOLDER = "outbox"
FILE = "outbox.json"
_FORMAT = 1
STRETCH = "stretch"
_FOLDERS = f"{STRETCH}="
SCHEMA = StructType(
    [
        StructField("kind", StringType()),
        StructField("topic", StringType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("cluster_time", LongType()),
        StructField("place", LongType()),
        StructField(STRETCH, LongType()),
    ]
)
ORDER = (STRETCH, "cluster_time", "place")
"""What the records of a topic are ordered by."""
_PROPERTIES = {
    "delta.dataSkippingNumIndexedCols": "0",
    "delta.logRetentionDuration": "interval 1 day",
    "delta.deletedFileRetentionDuration": "interval 1 day",
}
_COMMITS_BACK = 8
"""A commit of ours is looked for among so many of the newest: only prunings can lie behind it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a batch's records go: the ``number`` of their stretch, in the folder that ``root`` returns, of the outbox;
    None where only Delta's own writer will do."""

    number: int
    root: Callable[[], TableFolder | None]

    @property
    def partition(self) -> str:
        return f"{_FOLDERS}{self.number}"

    def make_folder(self) -> TableFolder | None:
        """Where files of the stretch are to be written; None where none may be. It is made if there is none."""
        root = self.root()
        return None if root is None else root.inside(self.partition)


@dataclass(frozen=True, slots=True)
class Records:
    """A batch's records, with the columns of `SCHEMA` in ``rows``, and without `STRETCH` in ``files`` of their
    `Place`."""

    rows: DataFrame | None
    files: Sequence[NewFile] = ()


@dataclass(frozen=True, slots=True)
class Stretch:
    """The records of a batch: their ``number`` in the outbox, how many, the bytes of their files, and since when they
    wait, in milliseconds since 1970."""

    number: int
    records: int
    size_bytes: int
    since_ms: int


class Outbox:
    """The table at ``path``, made by the first record. ``spark`` is asked for the session when it is first needed.
    ``storage``: where it is kept what was delivered. ``max_bytes``: what may wait. ``now_ms``: milliseconds since 1970.

    Used from two threads: batches append, and the delivery reads, marks and prunes.
    """

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        path: str,
        storage: Storage,
        max_bytes: int,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._spark, self._path, self._storage = spark, path, storage
        self._max_bytes, self._now_ms = max_bytes, now_ms
        self._made: SparkSession | None = None
        self._small: SmallTable | None = None
        self._guard = threading.Lock()
        self._waiting: list[Stretch] = []
        self._delivered = self._pruned = 0
        self._last = 0
        self._unsure = False
        self.arrived = threading.Event()
        self.shared: dict[str, tuple[str, ...]] = {}
        """Topics that more than one collection goes to, with their names."""

    # What waits

    def open(self) -> None:
        """Find what waits, and remove what an earlier life has delivered. Under the engine's lock, before any batch.
        Raises StorageError, and what Spark raises."""
        kept = read_object(self._storage, FILE, _FORMAT)
        self._delivered = self._pruned = 0 if kept is None else int(kept["delivered"])
        there = {one.number for one in self._find()}
        if any(number <= self._delivered for number in there.union(self._folders())):
            self.prune()

    def _find(self) -> list[Stretch]:
        """Look at what the table holds, which is what waits, and what is still there of what was delivered."""
        there = self._stretches()
        self._unsure = False
        with self._guard:
            self._waiting = [one for one in there if one.number > self._delivered]
            self._last = max([self._delivered, *(one.number for one in there)])
            if self._waiting:
                self.arrived.set()
        return there

    @property
    def waiting(self) -> tuple[Stretch, ...]:
        """What has not been delivered, oldest first."""
        with self._guard:
            return tuple(self._waiting)

    @property
    def size_bytes(self) -> int:
        """What waits, as bytes of files."""
        return sum(one.size_bytes for one in self.waiting)

    @property
    def full(self) -> bool:
        """Whether more waits than may."""
        return self.size_bytes > self._max_bytes

    # Batches

    def recorded(self, app_id: str) -> int | None:
        """The newest batch of ``app_id`` that the table records."""
        snapshot = self._newest()
        return None if snapshot is None else snapshot.recorded(app_id)

    def append(
        self, records: Callable[[Place], Records], app_id: str, batch_id: int, said: Mapping[str, Any]
    ) -> None:
        """Append a batch's ``records``, which are given their place, as batch ``batch_id`` of ``app_id``; ``said`` is
        what the commit says of it. A batch that the table records changes nothing."""
        snapshot = self._newest()
        if snapshot is None:
            self._make()
        elif snapshot.has_batch(app_id, batch_id):
            return
        number, table = self._last + 1, self._appends()
        made = records(Place(number, partial(table.for_files, SCHEMA, [STRETCH])))
        self._unsure = True  # what fails from here on may do so behind its commit
        table.append(made.rows, app_id, batch_id, json.dumps({**said, FOLDER: number}), made.files)
        commit = self._commit_of(number)
        self._last, self._unsure = number, False
        stretch = Stretch(
            number, commit.count("numOutputRows"), commit.count("numOutputBytes"), self._now_ms()
        )
        with self._guard:
            self._waiting.append(stretch)
        self.arrived.set()

    def _newest(self) -> Snapshot | None:
        """The table's newest version, for a batch; behind an append that failed, what it has left is found first."""
        if self._unsure:
            self._find()
        return self._table().newest()

    # The delivery

    def read(self, stretches: Sequence[Stretch]) -> DataFrame:
        """The records of stretches that follow one another, in any order."""
        between = F.col(STRETCH).between(stretches[0].number, stretches[-1].number)
        return self._session().read.format("delta").load(self._path).where(between)

    def delivered(self, upto: int) -> None:
        """All records up to the stretch of this number are at the brokers: durable when this returns."""
        self._storage.write_text(FILE, to_text({"format": _FORMAT, "delivered": upto}))
        self._delivered = upto
        with self._guard:
            self._waiting = [one for one in self._waiting if one.number > upto]
            if not self._waiting:
                self.arrived.clear()

    @property
    def prunable(self) -> int:
        """How many stretches have been delivered, and are still there."""
        return self._delivered - self._pruned

    def prune(self) -> None:
        """Remove what has been delivered. Raises what Spark raises; it may be called again."""
        upto = self._delivered
        DeltaTable.forPath(self._session(), self._path).delete(F.col(STRETCH) <= upto)
        files, root = self._files()
        for number in self._folders():
            if number <= upto:
                files.delete(self._jvm.org.apache.hadoop.fs.Path(root, f"{_FOLDERS}{number}"), True)
        self._pruned = upto

    def _folders(self) -> list[int]:
        """The numbers of stretches that have a folder, whatever lies there."""
        if self._table().newest() is None:
            return []
        files, root = self._files()
        names = [status.getPath().getName() for status in files.listStatus(root)]
        return [int(name.removeprefix(_FOLDERS)) for name in names if name.startswith(_FOLDERS)]

    def _stretches(self) -> list[Stretch]:
        """All that the table holds, by its log."""
        snapshot = self._table().newest()
        found: dict[int, Stretch] = {}
        for file in [] if snapshot is None else snapshot.data_files():
            number = int(file.partitionValues().apply(STRETCH))
            said = json.loads(file.stats() or "{}")
            before = found.get(number, Stretch(number, 0, 0, int(file.modificationTime())))
            found[number] = Stretch(
                number,
                before.records + said.get("numRecords", 0),
                before.size_bytes + int(file.size()),
                min(before.since_ms, int(file.modificationTime())),
            )
        return [found[number] for number in sorted(found)]

    def _commit_of(self, number: int) -> Commit:
        table = self._table()
        newest = table.newest()
        version = -1 if newest is None else newest.version
        for commit in table.commits.down(version, max(0, version - _COMMITS_BACK)):
            if commit.user_metadata and json.loads(commit.user_metadata).get(FOLDER) == number:
                return commit
        raise RuntimeError(f"{self._path}: the commit of stretch {number} is not among the newest ones")

    def _make(self) -> None:
        self._table().clear_unfinished()
        builder = DeltaTable.createIfNotExists(self._session()).location(self._path).addColumns(SCHEMA)
        for name, value in _PROPERTIES.items():
            builder = builder.property(name, value)
        builder.partitionedBy(STRETCH).execute()

    def _session(self) -> SparkSession:
        if self._made is None:
            self._made = session_of_few(self._spark())
            self._made.conf.set("spark.sql.adaptive.enabled", "false")
        return self._made

    def _appends(self) -> SmallTable:
        # Nobody reads old versions of it.
        self._small = self._small or SmallTable(
            self._session(), self._path, partial(warn_of, _log, OLD_COMMITS, table=FOLDER), kept_ms=0
        )
        return self._small

    def _table(self) -> TableLog:
        return TableLog(self._session(), self._path)

    @property
    def _jvm(self) -> Any:
        return packages(self._session())

    def _files(self) -> tuple[Any, Any]:
        """Hadoop's file system of the table, and its folder there."""
        root = self._jvm.org.apache.hadoop.fs.Path(self._path)
        return root.getFileSystem(self._session()._jsparkSession.sessionState().newHadoopConf()), root

"""`mongodb-changes`: the change stream of MongoDB as a source of Spark Structured Streaming.

    spark.dataSource.register(MongoChangesDataSource)
    spark.readStream.format("mongodb-changes").option("mongodb.connection.string", uri).load()

An offset is a cluster time and a nonce, ``{"t": seconds, "i": increment, "nonce": n}``. A batch is every
event with ``start < cluster time <= end``: the same events on every attempt. The end is the
majority-committed time of the deployment, which moves on when nobody writes, so a quiet source never loses
its place; the nonce (`streaming.source.hints`) lets an engine have a batch although even that stands still.

Where a query begins. Spark does not record the *initial* offset: it asks for it again if the first batch has
to be replayed, and "now" would then be later than the end of that batch. So a query begins at the origin,
``{"t": 0, ...}``, and its first batch, up to where the option says, reads nothing; but its end is recorded,
and is the position that counts. Only a timestamp is its own record.

A large batch that was counted is read in splits, side by side (option ``engine.stream.readers``): ranges of
cluster time, so that every row of a split comes before every row of the next. ``ord`` says so. A batch that is
replayed after a restart was not counted, and is read in one split: the same rows, and the same order.

Who runs what: ``latestOffset`` runs in a process beside the driver, ``read`` in one on an executor. They
share nothing but the options.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from streaming.mongo.deployment import (
    WIRE_VERSION_6_0,
    check_deployment,
    connect,
    majority_time,
    oldest_time,
    wire_version,
)
from streaming.mongo.errors import ConfigurationError, as_source_error
from streaming.namespaces import Namespace
from streaming.positions import ORIGIN, ClusterTime
from streaming.source import admission
from streaming.source.backlog import Backlog
from streaming.source.change_cursor import ChangeRange
from streaming.source.change_options import ChangeOptions
from streaming.source.hints import Hints, read_hints
from streaming.source.registration import NAME
from streaming.source.schema import SCHEMA
from streaming.source.split_events import refuse_split


class MongoChangesDataSource(DataSource):
    """Register it under its name. Options are checked when the source is loaded."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(dict(options))
        self._parsed = ChangeOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        if schema != SCHEMA:
            raise ConfigurationError(f"{NAME} has a schema of its own; leave out .schema(...)")
        return MongoChangesReader(self._parsed)


@dataclass(frozen=True)
class Offset:
    """A position, and a nonce that makes it another one."""

    time: ClusterTime
    nonce: int = 0

    def to_json(self) -> dict[str, int]:
        """Always the same order of fields: Spark compares the text."""
        return {**self.time.to_json(), "nonce": self.nonce}

    @classmethod
    def from_json(cls, value: Mapping[str, int]) -> Offset:
        return cls(ClusterTime.from_json(value), int(value.get("nonce", 0)))


class RangePartition(InputPartition):
    """The changes in ``(start, end]``: split number ``split``, from 0, of the ``splits`` of a batch.

    It is all of the batch, unless that is large and several readers may work on it. ``known``: as in `Hints`.
    """

    def __init__(
        self,
        start: ClusterTime,
        end: ClusterTime,
        split: int = 0,
        splits: int = 1,
        known: tuple[Namespace, ...] = (),
    ) -> None:
        super().__init__(None)
        self.start = start
        self.end = end
        self.split = split
        self.splits = splits
        self.known = known


class MongoChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """As the module says. Errors are SourceErrors: their text survives the way to the driver."""

    def __init__(self, options: ChangeOptions) -> None:
        self._options = options
        self._target: Offset | None = None
        self._latest: Offset | None = None
        self._checked = False
        self._backlog = Backlog(options.uri, options.stream, options.bytes_per_event)
        self._known: tuple[Namespace, ...] = ()
        self._splits: tuple[tuple[ClusterTime, ClusterTime], tuple[int, ...]] | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        with _explaining("cannot tell where to start"):
            self._check()
        first = self._options.start_time
        return Offset(ORIGIN if first is None else first.previous()).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_events)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with _explaining("cannot tell the end of the change stream"):
            self._check()
            self._target = Offset(self._now(), self._hints().nonce)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """The end of the next batch. Never before ``start``, even if a node that lags behind is asked."""
        begin = Offset.from_json(start)
        with _explaining(f"cannot tell the end of the batch after {begin.time}"):
            self._check()
            hints = self._hints()
            self._known = hints.known  # for `partitions`, as the splits are
            self._latest = latest = self._target or Offset(self._now(), hints.nonce)
            if begin.time == ORIGIN:
                end = self._first_position(latest.time)
            elif _stays(begin, latest, hints):
                end = begin.time
            else:
                end = self._admit(begin.time, latest.time, limit, hints.events_per_second)
        nonce = begin.nonce if self._options.hints_file is None else latest.nonce
        return Offset(max(begin.time, end), nonce).to_json()

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        return None if self._latest is None else self._latest.to_json()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        begin, until = Offset.from_json(start).time, Offset.from_json(end).time
        if begin >= until and not self._options.trailer:
            return []
        inner: tuple[int, ...] = ()
        if self._splits is not None and self._splits[0] == (begin, until):
            inner = self._splits[1]
        bounds = [begin, *map(ClusterTime.from_int, inner), until]
        splits = len(inner) + 1
        return [
            RangePartition(a, b, split, splits, self._known) for split, (a, b) in enumerate(pairwise(bounds))
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Here, for it brings most of what is imported, and whoever asks for offsets does without.
        from streaming.source.split_rows import SplitRows

        assert isinstance(partition, RangePartition)
        rows = SplitRows(self._options, partition.split, partition.known)
        if ORIGIN < partition.start < partition.end:
            with _explaining(f"cannot read the changes in ({partition.start}, {partition.end}]"):
                yield from rows.read(partition.start, partition.end)
        if self._options.trailer:
            yield rows.trailer(partition.end, partition.splits)

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to do: MongoDB keeps its oplog as long as it keeps it."""

    def stop(self) -> None:
        """Nothing to do: the process ends, and its connections with it."""

    def _check(self) -> None:
        if self._checked:
            return
        client = connect(self._options.uri)
        check_deployment(client)
        if self._options.needs_images and wire_version(client) < WIRE_VERSION_6_0:
            raise ConfigurationError(
                "capture.mode=..._with_pre_image and capture.mode.full.update.type=post_image"
                " need MongoDB 6.0 or later"
            )
        if self._options.stream.oversize == "split":
            refuse_split(client)
        self._checked = True

    def _now(self) -> ClusterTime:
        client = connect(self._options.uri)
        time = majority_time(client)
        # Through mongos a reader has to see something *past* the end; see `change_cursor`.
        return time.previous() if client.is_mongos else time

    def _hints(self) -> Hints:
        try:
            return read_hints(self._options.hints_file)
        except ValueError as error:
            raise ConfigurationError(str(error)) from error

    def _first_position(self, latest: ClusterTime) -> ClusterTime:
        if self._options.start == "oldest":
            return oldest_time(connect(self._options.uri)).previous()
        token = self._options.start_token
        if token is None:
            return latest
        # The first event behind the token, less one increment; if there is none, what has been proven empty.
        changes = ChangeRange(self._options.uri, self._options.stream.bare(), ORIGIN, latest, after=token)
        for events in changes:
            return ClusterTime.from_int(events[0][1]).previous()
        return latest

    def _admit(
        self, start: ClusterTime, latest: ClusterTime, limit: ReadLimit, density: float | None
    ) -> ClusterTime:
        if isinstance(limit, ReadAllAvailable):
            return latest
        if not isinstance(limit, ReadMaxRows):
            raise ConfigurationError(f"{NAME} can limit a batch by rows, not by {limit}")
        cheap = self._backlog.by_oplog
        if admission.takes_all(latest.t - start.t + 1, limit.max_rows, density, cheaply_counted=cheap):
            return latest
        counted = self._backlog.counted(start, latest, limit.max_rows)
        admitted = admission.cut(counted, limit.max_rows)
        end = latest if admitted.last is None else ClusterTime.from_int(admitted.last)
        # For `partitions`, which Spark calls in this process next; after a restart it finds none, and makes one split.
        self._splits = (start, end), admission.splits(admitted.counted, self._options.readers)
        return end


def _stays(begin: Offset, latest: Offset, hints: Hints) -> bool:
    """Whether the position stands still: it is held, or a batch is not worth while yet and nobody asks for one."""
    ahead = latest.time.t - begin.time.t
    return ahead < hints.hold_seconds or (latest.nonce == begin.nonce and ahead < hints.wait_seconds)


@contextmanager
def _explaining(what: str) -> Iterator[None]:
    """Any error leaves as a SourceError, with its marker."""
    try:
        yield
    except GeneratorExit:
        raise
    except Exception as error:
        raise as_source_error(error, what) from error

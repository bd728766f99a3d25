"""What can happen to the machine: one value for each thing that the world reports.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.gaps import Gap
from snapshotter.core.values.namespace_changes import Truncation
from snapshotter.core.values.outcome import Outcome, Uncounted
from snapshotter.core.values.requests import SnapshotRequest
from snapshotter.core.values.sharding import ShardKeys
from snapshotter.core.values.window import WatermarkObservation, WindowId
from streaming.delta.table_identity import TableMark
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

if TYPE_CHECKING:
    from snapshotter.core.values.controls import Controls


@dataclass(frozen=True, slots=True)
class SignalsTaken:
    """What signals that came together have led to (`core.rules.signal_batch`), durable already: new requests, which
    change nothing where their ids are known, and what operators have decided by now."""

    requests: tuple[SnapshotRequest, ...]
    controls: Controls


@dataclass(frozen=True, slots=True)
class CollectionOpened:
    """Answers ``OpenCollection``. ``last`` is the largest id (None: nothing there); ``ordered_keys`` says
    that the collection orders its ids as keys are ordered (a simple collation), ``sharded`` that several of its
    documents may share an id."""

    request_id: str
    namespace: Namespace
    last: Bound | None
    estimated: int | None = None
    ordered_keys: bool = True
    sharded: bool = False


@dataclass(frozen=True, slots=True)
class CollectionFailed:
    """A request cannot be carried out for this collection; the rest of the queue goes on."""

    request_id: str
    namespace: Namespace
    error: str


@dataclass(frozen=True, slots=True)
class ChunksPlanned:
    """Answers ``PlanChunks``: the ends of the next chunks. ``exhausted``: no document lies between the last
    of them and the end of the scan. ``resumed`` as in the question: a scan that was begun anew is not answered.
    ``docs``: so many documents each holds where that is fewer than were asked for, because of their size (None: as
    asked); ``document_bytes``: what a document of the collection has on average (0: not known)."""

    request_id: str
    namespace: Namespace
    bounds: tuple[Bound, ...]
    exhausted: bool
    resumed: int = 0
    docs: int | None = None
    document_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LowWritten:
    window: WindowId
    time: ClusterTime


@dataclass(frozen=True, slots=True)
class ChunkRead:
    """Every cursor of the chunk is exhausted. ``ended`` is the latest cluster time any of its readers
    reported."""

    window: WindowId
    ended: ClusterTime
    rows: int
    size_bytes: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class HighWritten:
    window: WindowId
    time: ClusterTime


@dataclass(frozen=True, slots=True)
class WindowFailed:
    """A write or a read of the window failed. ``definite`` errors are not worth another attempt; those that are
    ``passing`` are worth more of them than others, for the source is away, or the storage."""

    window: WindowId
    error: str
    definite: bool = False
    passing: bool = False


@dataclass(frozen=True, slots=True)
class BatchArrived:
    """A micro-batch ``(start, end]`` is here, persisted, with its trailer.

    ``incomplete``: ids whose latest event of the batch has no full document.
    ``empty_tables``: collections whose table does not exist or holds no row.
    ``recorded``: collections whose table already carries this batch.
    ``landed_upto``: of a first load that an earlier run began, the highest key within its range that the
    table holds. ``behind``: the batch ends far behind the head of the stream.
    ``truncated``: collections that were dropped, renamed away or replaced. ``requests``: collections that a
    rename brought, or whose shard key has changed, to be read again. ``streams``: it has changes of captured
    collections, these are ``streamed``. ``shard_keys``: of all collections, as they are now. ``uncounted``: what tables
    say of READs that an earlier attempt at this batch has committed in them.
    """

    batch_id: int
    start: ClusterTime
    end: ClusterTime
    observations: tuple[WatermarkObservation, ...] = ()
    incomplete: Mapping[Namespace, tuple[Bound, ...]] = field(default_factory=dict)
    empty_tables: frozenset[Namespace] = frozenset()
    recorded: frozenset[Namespace] = frozenset()
    landed_upto: Mapping[Namespace, str] = field(default_factory=dict)
    behind: bool = False
    truncated: Mapping[Namespace, Truncation] = field(default_factory=dict)
    requests: tuple[SnapshotRequest, ...] = ()
    streams: bool = False
    streamed: frozenset[Namespace] = frozenset()
    shard_keys: ShardKeys = field(default_factory=dict)
    uncounted: Mapping[Namespace, tuple[Uncounted, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BatchLanded:
    """Every table of the batch is committed. ``waited``: seconds since the batch before it began, so about as long as
    the oldest of its changes has waited; None for the first batch of a run. ``tables``: which version of which table
    each collection has now."""

    batch_id: int
    outcomes: Mapping[WindowId, Outcome] = field(default_factory=dict)
    waited: float | None = None
    tables: Mapping[Namespace, TableMark] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BuffersLost:
    """READ buffers of these windows were recomputed after their high watermark: land the batch without
    them."""

    batch_id: int
    windows: frozenset[WindowId]


@dataclass(frozen=True, slots=True)
class CollectionSuspended:
    """The collection's table cannot be landed in, and trying again would not help. ``cause`` is a name for programs.
    ``batch_id``: the batch that is being landed, which goes on without it; None where something else has found it.
    ``repair``: it is to be read again at once."""

    namespace: Namespace
    cause: str
    error: str
    next_step: str
    batch_id: int | None = None
    repair: bool = False


@dataclass(frozen=True, slots=True)
class Draining:
    """The engine is about to stop: open no more windows, let those in flight close."""


@dataclass(frozen=True, slots=True)
class GapFound:
    """The stream goes on behind this gap. One that is known changes nothing."""

    gap: Gap


Input = (
    SignalsTaken
    | GapFound
    | CollectionOpened
    | CollectionFailed
    | ChunksPlanned
    | LowWritten
    | ChunkRead
    | HighWritten
    | WindowFailed
    | BatchArrived
    | BatchLanded
    | BuffersLost
    | CollectionSuspended
    | Draining
)

"""The port of what batches land in, and what a batch holds for it, as values.

A batch's contents are the same for all targets: every event, in the order of the stream; the READs of the windows that
close, with what has streamed since these were opened (so it is known which READs are superseded); and where a
collection was truncated. Whether to keep one row a key, or to leave out what a first load reads anyway, is for a target
to decide.

A target lands a batch's contents under the batch's `Identity`. One that promises `Promise.EXACTLY_ONCE` records the
batch with what it writes, and a batch that it has recorded changes nothing when it is landed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from snapshotter.core.rules.commit_interval import NOTHING_WRITTEN, Cost
from snapshotter.core.values.effects import Closing, LandBatch, Unreached
from snapshotter.core.values.namespace_changes import Truncation
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.suspension import TableUnusable
from snapshotter.core.values.window import WindowId
from snapshotter.reading.read_buffer import Buffer
from streaming.delta.table_identity import TableMark
from streaming.namespaces import Namespace

KEYS_SCHEMA = pa.schema([pa.field("_key", pa.string()), pa.field("_cluster_time", pa.int64())])


class Promise(StrEnum):
    """What becomes of a batch that is landed again, because a crash came between its landing and Spark's commit."""

    EXACTLY_ONCE = "exactly once"
    AT_LEAST_ONCE = "at least once"


class Need(StrEnum):
    """What a target asks of the events that it is given."""

    DOCUMENTS = "full documents"
    BEFORE_IMAGES = "before-images"
    ORDER = "order"


@dataclass(frozen=True, slots=True)
class Identity:
    """``batch_id`` counts the batches of one checkpoint, which the target knows by its application id. ``metadata``
    (JSON values) is what every commit says of the batch."""

    batch_id: int
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CollectionContents:
    """``events``: every one of the collection, as the source gives them (None: there are none). The batch was read in
    so many ``splits``; ``size_bytes`` is that of the collection's events.

    ``closings``: the windows that close; their READs lie in ``buffers``. ``streamed``: keys and times (`KEYS_SCHEMA`)
    of what has streamed in earlier batches since these windows were registered. A READ is superseded by an event of
    its key behind its window's low watermark, there or in this batch. ``told``: the same for where events are
    told: there updates that came without their documents supersede, too (their keys are read again), and what is
    skipped does not.
    ``initial``: those of the windows whose READs are of a start's load, or of a blocking request.

    ``truncated``: where in the batch a drop or a rename truncated the collection. ``unreached``: the keys that a first
    load has not come to yet, and will read. ``mark``: the state table as this engine has left it.
    """

    namespace: Namespace
    events: DataFrame | None
    closings: tuple[Closing, ...] = ()
    buffers: Mapping[WindowId, Buffer] = field(default_factory=dict)
    streamed: Sequence[pa.Table] = ()
    told: Sequence[pa.Table] = ()
    initial: frozenset[WindowId] = frozenset()
    truncated: Truncation | None = None
    unreached: Unreached | None = None
    splits: int = 1
    size_bytes: int = 0
    mark: TableMark | None = None


@dataclass(frozen=True, slots=True)
class Contents:
    """``events``: every one of the collections that are captured, as the source gives them; ``transactional``: some may
    be of transactions. ``collections``: those that have something to land; ``landed``: those of the batch that have
    landed by an earlier call."""

    identity: Identity
    events: DataFrame
    transactional: bool = False
    collections: Mapping[Namespace, CollectionContents] = field(default_factory=dict)
    landed: frozenset[Namespace] = frozenset()


@dataclass(slots=True)
class LandedCollection:
    """``keys``: key and cluster time of every event of the batch that landed, for windows that close later; ``deletes``
    of these are deletes. ``mark``: the newest version of the table, with this landing in it; None where there is no
    table. ``size_bytes``: of the batch's events. ``cost``: what was written. ``dead``: why events could not be decoded,
    by their place in the batch."""

    namespace: Namespace
    keys: pa.Table
    outcomes: dict[WindowId, Outcome] = field(default_factory=dict)
    events: int = 0
    deletes: int = 0
    size_bytes: int = 0
    wrote: bool = False
    decode_seconds: float = 0.0
    write_seconds: float = 0.0
    mark: TableMark | None = None
    cost: Cost = NOTHING_WRITTEN
    dead: Mapping[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Landed:
    """What has landed by collection; and what could not: windows whose READs are ``lost``, and ``faults`` of single
    collections. A target that does not distinguish collections leaves it empty. ``transactions``: how many were
    told. ``beside``: what has landed in targets of events, by their names."""

    collections: dict[Namespace, LandedCollection] = field(default_factory=dict)
    lost: frozenset[WindowId] = frozenset()
    faults: tuple[TableUnusable, ...] = ()
    transactions: int = 0
    beside: dict[str, frozenset[Namespace]] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return not self.lost and not self.faults

    def outcomes(self, landing: LandBatch) -> dict[WindowId, Outcome]:
        """What became of the READs of each window that closes. Raises KeyError where one has not landed."""
        found = {w: o for table in self.collections.values() for w, o in table.outcomes.items()}
        return {c.window.id: found[c.window.id] for c in landing.closings}

    @property
    def costs(self) -> list[Cost]:
        """What was written, of each table that was."""
        return [table.cost for table in self.collections.values() if table.wrote]

    def marks(self, landing: LandBatch) -> dict[Namespace, TableMark]:
        """The newest version of each table, without the collections that are left out."""
        landed = self.collections.items()
        return {n: table.mark for n, table in landed if table.mark and n not in landing.left_out}


class Target(Protocol):
    """The port. Conformance: `tests/conformance/test_targets.py`."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def promises(self) -> Promise: ...

    @property
    def needs(self) -> frozenset[Need]: ...

    def land(self, contents: Contents) -> Landed:
        """Land all of it, or raise. What belongs to one collection alone is not raised but returned, as ``lost`` or
        ``faults``, with all others landed. All threads are joined when this ends."""


class EventTarget(Target, Protocol):
    """A target that takes all that happened in each collection, beside the state tables and with them: a window has
    landed once it is in all of them, and until then it is read again for all."""

    def recorded(self, namespaces: Iterable[Namespace], batch_id: int) -> frozenset[Namespace]:
        """Those of which it carries the batch already, so that no READs can join it."""

    def replay(
        self, told: DataFrame, marks: Mapping[Namespace, Mapping[str, str]], identity: Identity
    ) -> frozenset[str]:
        """Take events and READs that are told later than in their turn, with the batch of this ``identity``: ``told``
        are envelopes, each with its mark (`streaming.events.envelope.mark_of`), and ``marks`` says which there are, by
        collection, each with its ``op``. Returns the marks of all that it holds now; the others may be handed to it
        again."""

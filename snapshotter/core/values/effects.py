"""What the machine asks for, in the order it must be done.

Two lanes. Requests (everything but the last four) may be executed at once, side by side, and answer with an
input. The durable lane belongs to the batch: ``LandBatch``, then ``SaveProgress``, and only then may Spark
commit the batch's offset and may ``Announce`` be heard. Nothing in that lane may overtake what stands before
it. ``SaveControls`` is of neither: it is durable before the next effect is looked at.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from snapshotter.core.values.chunks import Bound, KeyRange, Target
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.namespace_changes import Truncation
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.window import Window, WindowId
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime


@dataclass(frozen=True, slots=True)
class OpenCollection:
    """Find the largest id under the filter -> ``CollectionOpened`` or ``CollectionFailed``.

    To be read at or after ``after_time``, the end of the newest batch: ids beyond the largest one reach the
    table by the stream alone, so each of them must have been inserted after the stream began.

    With ``within`` only ids of that range count. With ``reconcile`` the scan has to come to the end of the range
    (or, without one, of all ids there can be) whatever the collection holds: that end is the answer.
    """

    request_id: str
    namespace: Namespace
    filter: str | None
    after_time: ClusterTime
    within: KeyRange | None = None
    reconcile: bool = False


@dataclass(frozen=True, slots=True)
class PlanChunks:
    """Find the ends of the next ``count`` chunks of ``docs`` documents in ``(after, upto]``, or with ``closed`` in
    ``[after, upto]`` -> ``ChunksPlanned``."""

    request_id: str
    namespace: Namespace
    filter: str | None
    after: Bound | None
    upto: Bound
    docs: int
    count: int
    closed: bool = False
    resumed: int = 0


@dataclass(frozen=True, slots=True)
class WriteLow:
    """-> ``LowWritten``; majority write concern."""

    window: WindowId
    namespace: Namespace


@dataclass(frozen=True, slots=True)
class ReadChunk:
    """Read the target with read concern majority, at or after ``after_time``, into the READ buffer ->
    ``ChunkRead``. With ``exact`` the state at that very time (read concern snapshot). ``rows_too``: besides what the
    filter matches, the documents of all rows that the table has in the target."""

    window: WindowId
    namespace: Namespace
    target: Target
    filter: str | None
    after_time: ClusterTime
    exact: bool = False
    rows_too: bool = False

    @classmethod
    def of(cls, window: Window, after_time: ClusterTime, *, exact: bool = False) -> ReadChunk:
        """The read of this ``window``, at or after ``after_time``, or (``exact``) as of that time."""
        rows_too = window.reconcile and window.filter is not None
        return cls(window.id, window.namespace, window.target, window.filter, after_time, exact, rows_too)


@dataclass(frozen=True, slots=True)
class WriteHigh:
    """-> ``HighWritten``, at or after ``not_before`` (the time at which the last reader ended)."""

    window: WindowId
    namespace: Namespace
    not_before: ClusterTime


@dataclass(frozen=True, slots=True)
class Discard:
    """Drop the window's READ buffer and remove its documents from the signal collection; nothing answers.

    ``why``: what the machine itself found wrong with a window that did not land.
    """

    window: WindowId
    namespace: Namespace
    landed: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class MakeBatch:
    """Something waits for a batch and the stream may be idle: move the offset."""


@dataclass(frozen=True, slots=True)
class Closing:
    """A window that closes in a batch. A READ is superseded by an event on its key in ``(low, end of the
    batch]``.

    ``proven_new``: no key of its range can be in the table yet, unless an event kept since it was registered put it
    there. ``superseded``: the collection was truncated after ``low``, so none of its READs lands. ``reconcile``: rows
    of its target that it has not read, and on whose key nothing streamed after ``low``, are missing at source: deleted.
    ``rewrite``: its READs are written even where they equal the rows of the table.
    """

    window: Window
    low: ClusterTime
    proven_new: bool
    superseded: bool = False
    reconcile: bool = False
    rewrite: bool = False


@dataclass(frozen=True, slots=True)
class Unreached:
    """Keys of a first load that no window has reached: ``after < key <= upto``. Events on them need not
    land."""

    after: str | None
    upto: str

    def holds(self, key: str) -> bool:
        return (self.after is None or self.after < key) and key <= self.upto


@dataclass(frozen=True, slots=True)
class LandBatch:
    """Land the batch: one commit for each table with events or closing windows -> ``BatchLanded``.

    ``keep``: collections whose streamed keys are to be kept, with their times, because a window may ask for
    them. ``truncated``: tables that hold, after their commit, nothing but what follows that point of the batch.
    ``left_out``: suspended collections, of which nothing lands.
    """

    batch_id: int
    start: ClusterTime
    end: ClusterTime
    closings: tuple[Closing, ...]
    keep: frozenset[Namespace]
    unreached: Mapping[Namespace, Unreached]
    truncated: Mapping[Namespace, Truncation] = field(default_factory=dict)
    left_out: frozenset[Namespace] = frozenset()

    def closes(self, window: WindowId) -> bool:
        return any(closing.window.id == window for closing in self.closings)


@dataclass(frozen=True, slots=True)
class SaveProgress:
    """Make it durable under the batch's id, before Spark commits the batch."""

    progress: Progress


@dataclass(frozen=True, slots=True)
class SaveControls:
    """Make operators' decisions durable in the journal, which no replay undoes, before anything that follows this
    effect is carried out."""

    controls: Controls


@dataclass(frozen=True, slots=True)
class Announce:
    """Notify operators, after the batch is saved. ``kind`` is Debezium's word where it has one (all kinds are in
    `core.rules.announcements`), ``data`` what goes with it, by the documented names."""

    kind: str
    request_id: str
    namespace: Namespace | None = None
    detail: str = ""
    data: Mapping[str, str] = field(default_factory=dict, hash=False)


Effect = (
    OpenCollection
    | PlanChunks
    | WriteLow
    | ReadChunk
    | WriteHigh
    | Discard
    | MakeBatch
    | LandBatch
    | SaveProgress
    | SaveControls
    | Announce
)

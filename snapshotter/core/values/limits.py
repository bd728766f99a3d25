"""How much at once: chunk sizes, windows in flight, commit sizes.

The chunk (what one window guards) and the commit (what one MERGE writes) are sized apart, because a commit
costs seconds whatever it carries. A chunk size that was set is exact; one that was not follows bytes and
time.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from snapshotter.core.values.tries import Tries

_GROWTH_MAX = 4.0
_GROWTH_MIN = 0.25


@dataclass(frozen=True, slots=True)
class Limits:
    """``chunk_docs`` None means adaptive, starting at ``chunk_docs_start``. Sizes in bytes are of BSON.
    Reading makes way for a batch that has changes and spans ``yield_seconds`` of the source's time (None: never).
    Beside changes fewer READs are in flight where otherwise a change is seen later than ``target_lag_seconds``.
    ``file_docs_min``: READs of chunks of a set size are written as files if that is not below it.
    A chunk's task ends after ``attempts`` that failed, or ``attempts_away`` in one outage of the source or the storage
    (`core.values.tries`): with the pauses between them (`reading.request_lane`) that takes six minutes. ``readers``:
    how many chunks are read at the same time. ``bytes_in_flight``: READs that may be held at a time. Ids whose document
    the stream could not give are read in up to ``reread_windows`` windows of a collection, of ``reread_ids`` each;
    where they are more than ``rereads_max``, the whole collection is read instead."""

    chunk_docs: int | None = None
    chunk_docs_start: int = 50_000
    chunk_docs_max: int = 250_000
    chunk_bytes_target: int = 16 << 20
    chunk_seconds_target: float = 10.0
    windows_in_flight: int = 6
    windows_in_flight_max: int = 64
    rows_in_flight: int = 300_000
    bytes_in_flight: int = 512 << 20
    yield_seconds: int | None = 2
    target_lag_seconds: float | None = 7.0
    commit_rows_target: int = 600_000
    file_docs_min: int = 10_000
    readers: int = 2
    attempts: int = 5
    attempts_away: int = 16
    reread_ids: int = 2_000
    reread_windows: int = 4
    rereads_max: int = 20_000
    tasks_ahead: int = 4
    ended_requests_kept: int = 1_000

    def __post_init__(self) -> None:
        if self.chunk_docs is not None and self.chunk_docs < 1:
            raise ValueError(f"a chunk holds at least one document, got {self.chunk_docs}")
        if self.windows_in_flight < 1 or self.attempts < 1 or self.tasks_ahead < 1:
            raise ValueError("windows in flight, attempts and tasks ahead are at least 1")

    def used_up(self, tries: Tries) -> bool:
        """Whether a chunk that has failed so often is not worth another attempt."""
        return tries.failed >= self.attempts or tries.away >= self.attempts_away

    def first_docs(self) -> int:
        return self.chunk_docs if self.chunk_docs is not None else self.chunk_docs_start

    def draining(self) -> Limits:
        """The limits while the engine stops: what is in flight lands in few commits, so that the stop is soon over."""
        return replace(self, commit_rows_target=max(self.commit_rows_target, self.rows_while_streaming))

    @property
    def writes_files(self) -> bool:
        """Whether chunks are large enough to be files of a table: small files would cost every reader of it."""
        return self.chunk_docs is None or self.chunk_docs >= self.file_docs_min

    @property
    def rows_while_streaming(self) -> int:
        """READs that may be in flight while changes stream. Where reading makes way for changes, READs that are being
        landed count among these: so they may be twice as many, and still no more are held at a time."""
        return self.rows_in_flight if self.yield_seconds is None else 2 * self.rows_in_flight

    def slots(self, docs: int, rows: int | None = None) -> int:
        """Windows that may be in flight with chunks of ``docs`` documents: more of them when each is small. With
        ``rows``, as many as hold about that many rows together, but at least one."""
        if rows is not None:
            return max(1, min((rows + docs // 2) // docs, self.windows_in_flight_max))
        by_rows = -(-self.rows_in_flight // docs)
        return max(self.windows_in_flight, min(by_rows, self.windows_in_flight_max))

    def slots_by_bytes(self, chunk_bytes: int) -> int:
        """Windows that may be in flight with chunks of ``chunk_bytes``; at least one, however large they are."""
        most = max(self.windows_in_flight, self.windows_in_flight_max)
        return min(most, max(1, self.bytes_in_flight // max(1, chunk_bytes)))

    def next_docs(self, docs: int, *, rows: int, size_bytes: int, seconds: float) -> int:
        """How many documents the chunks to plan next hold (now ``docs``), from one of ``rows`` documents that had
        ``size_bytes`` of BSON and took ``seconds`` to read. It may have been planned when chunks were smaller, so its
        own size counts: or each of several in flight would let the next ones grow once more."""
        if self.chunk_docs is not None:
            return self.chunk_docs
        if rows < docs // 2 or size_bytes <= 0 or seconds <= 0:
            return docs
        wanted = rows * min(self.chunk_bytes_target / size_bytes, self.chunk_seconds_target / seconds)
        wanted = max(_GROWTH_MIN * docs, min(_GROWTH_MAX * docs, wanted))
        return max(1, min(self.chunk_docs_max, int(wanted)))

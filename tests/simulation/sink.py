"""What outlives a process: tables with their recorded versions, saved progress, the journal, Spark's offset
log."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from snapshotter.core.collisions import Read, StreamedEvent
from snapshotter.core.progress import Progress
from snapshotter.core.requests import SnapshotRequest


@dataclass(frozen=True, slots=True)
class Row:
    doc: int
    from_read: bool


@dataclass(slots=True)
class Table:
    """One state table. ``recorded`` is the batch of its last commit (txnVersion)."""

    rows: dict[str, Row] = field(default_factory=dict)
    recorded: int = -1
    version: int = 0

    def commit(self, batch_id: int, rows: dict[str, StreamedEvent | Read], *, replaces: bool) -> bool:
        """Atomic; skipped without a word if the table already records the batch. With ``replaces`` nothing else
        stays."""
        if self.recorded >= batch_id:
            return False
        if replaces:
            self.rows.clear()
        for key, row in rows.items():
            if row.content is None:
                self.rows.pop(key, None)
            else:
                assert isinstance(row.content, int)
                self.rows[key] = Row(row.content, isinstance(row, Read))
        self.recorded = batch_id
        self.version += 1
        return True


@dataclass(slots=True)
class Durable:
    """``offsets[n]`` is the range of batch n, logged before the batch runs; ``committed`` the last batch that
    Spark counts as done; ``saved`` progress as JSON, by batch."""

    offsets: list[tuple[int, int]] = field(default_factory=list)
    committed: int = -1
    saved: dict[int, str] = field(default_factory=dict)
    journal: list[SnapshotRequest] = field(default_factory=list)

    def save(self, progress: Progress) -> None:
        self.saved[progress.batch_id] = json.dumps(progress.to_json())

    def load(self, batch_id: int) -> Progress:
        """The newest state saved for a batch before this one, even when a newer one exists."""
        return self.newest_below(batch_id)

    def newest_below(self, batch_id: int) -> Progress:
        known = [n for n in self.saved if n < batch_id]
        return Progress.from_json(json.loads(self.saved[max(known)])) if known else Progress()

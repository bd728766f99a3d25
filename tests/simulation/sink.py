"""What outlives a process: tables with their recorded versions, saved progress, the journal, Spark's offset
log."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from snapshotter.core.collisions import CommitRow, Gone, Read
from snapshotter.core.controls import Controls
from snapshotter.core.effects import Closing
from snapshotter.core.inputs import Outcome
from snapshotter.core.progress import Progress, RequestProgress
from snapshotter.core.requests import SnapshotRequest


@dataclass(frozen=True, slots=True)
class Row:
    doc: int
    from_read: bool


@dataclass(slots=True)
class Table:
    """One state table. ``recorded`` is the batch of its last commit (txnVersion), ``appended`` of the last one behind
    another, which has an application id of its own."""

    rows: dict[str, Row] = field(default_factory=dict)
    recorded: int = -1
    appended: int = -1
    version: int = 0

    def commit(self, batch_id: int, rows: dict[str, CommitRow], *, replaces: bool) -> bool:
        """Atomic; skipped without a word if the table already records the batch. With ``replaces`` nothing else
        stays."""
        if self.recorded >= batch_id:
            return False
        if replaces:
            self.rows.clear()
        self._put(rows)
        self.recorded = batch_id
        return True

    def append(self, batch_id: int, rows: dict[str, CommitRow], *, behind: bool) -> bool:
        """Atomic; ``behind`` the batch's first commit, or itself the only one."""
        if batch_id <= (self.appended if behind else self.recorded):
            return False
        self._put(rows)
        if behind:
            self.appended = batch_id
        else:
            self.recorded = batch_id
        return True

    def _put(self, rows: dict[str, CommitRow]) -> None:
        for key, row in rows.items():
            if row.content is None:
                self.rows.pop(key, None)
            else:
                assert isinstance(row.content, int)
                self.rows[key] = Row(row.content, isinstance(row, Read))
        self.version += 1


@dataclass(slots=True)
class Durable:
    """``offsets[n]`` is the range of batch n, logged before the batch runs; ``committed`` the last batch that
    Spark counts as done; ``saved`` progress as JSON, by batch. ``asked`` is every request there ever was, ``journal``
    those that a replay may need."""

    offsets: list[tuple[int, int]] = field(default_factory=list)
    committed: int = -1
    saved: dict[int, str] = field(default_factory=dict)
    asked: list[SnapshotRequest] = field(default_factory=list)
    journal: list[SnapshotRequest] = field(default_factory=list)
    controls: Controls = field(default_factory=Controls)

    def decide(self, controls: Controls) -> None:
        """The journal's other half: what operators have decided, through the text it is kept as."""
        self.controls = Controls.from_json(json.loads(json.dumps(controls.to_json())))

    def save(self, progress: Progress) -> None:
        self.saved[progress.batch_id] = json.dumps(progress.to_json())

    def known(self) -> list[RequestProgress]:
        """The requests that exist, as far as it is durable."""
        saved = self.newest_below(len(self.offsets) + 1)
        new = [r for r in self.journal if saved.request(r.id) is None]
        return [*saved.requests, *map(RequestProgress.accepted, new)]

    def forget(self, before: Progress) -> None:
        """The journal lets go of what had ended in the state that a replay of the newest batch starts from."""
        ended = {r.id for r in before.requests if r.ended}
        self.journal = [r for r in self.journal if r.id not in ended]

    def load(self, batch_id: int) -> Progress:
        """The newest state saved for a batch before this one, even when a newer one exists."""
        return self.newest_below(batch_id)

    def newest_below(self, batch_id: int) -> Progress:
        known = [n for n in self.saved if n < batch_id]
        return Progress.from_json(json.loads(self.saved[max(known)])) if known else Progress()


def outcome_of(rows: dict[str, CommitRow], window: int, read: int) -> Outcome:
    """Of a window that has read so many documents, when these rows are committed."""
    kept = sum(isinstance(row, Read) and row.window == window for row in rows.values())
    gone = sum(isinstance(row, Gone) and row.window == window for row in rows.values())
    return Outcome(kept=kept, dropped=read - kept, deleted=gone)


def all_new(closings: list[Closing]) -> bool:
    """Whether the READs of these windows are appended: their ranges are proven new."""
    return all(closing.proven_new for closing in closings)

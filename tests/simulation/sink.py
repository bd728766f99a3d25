"""What outlives a process: tables with their recorded versions, saved progress, the journal, Spark's offset
log."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from snapshotter.core.values.chunks import end_of
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.effects import Closing
from snapshotter.core.values.outcome import Outcome, Uncounted
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import SnapshotRequest
from snapshotter.core.values.window import WindowId
from streaming.delta.table_identity import TableMark, Version, altered
from tests.support.commit_rule import CommitRow, Missing, Read


@dataclass(frozen=True, slots=True)
class Row:
    doc: int
    from_read: bool


OURS, THEIRS = "ours", "theirs"


@dataclass(slots=True)
class Table:
    """One state table. ``recorded`` is the batch of its last commit (txnVersion), ``appended`` of the last one behind
    another, which has an application id of its own. ``number`` stands for Delta's id of it; ``log`` are its commits,
    ``ids`` theirs by version, and ``owner`` is the engine that may write to it. ``commits`` counts all that there ever
    were, and ``backup`` is the table as it was before the newest landing. ``said``: what the newest landing's commits
    say of the READs in them, and of which batch they are."""

    rows: dict[str, Row] = field(default_factory=dict)
    recorded: int = -1
    appended: int = -1
    version: int = 0
    number: int = 0
    there: bool = True
    owner: str = OURS
    log: list[Version] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)
    commits: int = 0
    backup: Table | None = None
    said: tuple[int, tuple[Uncounted, ...]] = (-1, ())

    def commit(
        self, batch_id: int, rows: dict[str, CommitRow], said: tuple[Uncounted, ...], *, replaces: bool
    ) -> bool:
        """Atomic; skipped without a word if the table already records the batch. With ``replaces`` nothing else
        stays."""
        if self.recorded >= batch_id:
            return False
        self.make()
        if replaces:
            self.rows.clear()
        self._put(rows)
        self.recorded, self.said = batch_id, (batch_id, said)
        return True

    def append(
        self, batch_id: int, rows: dict[str, CommitRow], said: tuple[Uncounted, ...], *, behind: bool
    ) -> bool:
        """Atomic; ``behind`` the batch's first commit, or itself the only one."""
        if batch_id <= (self.appended if behind else self.recorded):
            return False
        self.make()
        self._put(rows)
        if behind:
            self.appended = batch_id
        else:
            self.recorded = batch_id
        self.said = batch_id, said
        return True

    def uncounted(self, batch_id: int) -> tuple[Uncounted, ...]:
        """What the commits of this batch say of their READs."""
        return self.said[1] if self.said[0] == batch_id else ()

    def _put(self, rows: dict[str, CommitRow]) -> None:
        if self.log:
            kept = {"rows": dict(self.rows), "log": list(self.log), "ids": dict(self.ids)}
            self.backup = replace(self, **kept, backup=None)
        for key, row in rows.items():
            if row.content is None:
                self.rows.pop(key, None)
            else:
                assert isinstance(row.content, int)
                self.rows[key] = Row(row.content, isinstance(row, Read))
        self._commit("MERGE", changes_data=True, ours=True)

    def _commit(self, operation: str, **said: bool) -> None:
        self.version, self.commits = self.version + 1, self.commits + 1
        self.ids[self.version] = str(self.commits)
        self.log.append(Version(self.version, operation, **said))

    # What others do to it

    def make(self) -> None:
        """A new one, where there is none."""
        if not self.there:
            self.there, self.owner = True, OURS

    def remove(self) -> None:
        """Somebody deletes its folder; what is made in its place is another table."""
        self.rows, self.log, self.ids, self.backup = {}, [], {}, None
        self.recorded = self.appended = -1
        self.said = -1, ()
        self.version, self.number, self.there = 0, self.number + 1, False

    def put_back(self) -> None:
        """Somebody puts the folder back as it was before the newest landing."""
        copy = self.backup
        assert copy is not None
        self.rows, self.recorded, self.appended = copy.rows, copy.recorded, copy.appended
        self.version, self.log, self.ids, self.backup = copy.version, copy.log, copy.ids, None
        self.said = copy.said

    def alter(self, rows: dict[str, Row]) -> None:
        """Somebody else's statement leaves these rows."""
        self.rows = rows
        self._commit("DELETE", changes_data=True)

    def optimize(self) -> None:
        """Somebody rewrites its files, and no row."""
        self._commit("OPTIMIZE", changes_data=False)

    def take_over(self) -> None:
        """An operator makes this engine its owner again."""
        self.owner = OURS
        self._commit("SET TBLPROPERTIES", changes_data=False, ours=True, takes_over=True)

    def mark(self) -> TableMark | None:
        commit = self.ids.get(self.version, "")
        return TableMark(str(self.number), self.version, commit) if self.there else None

    def fault(self, mark: TableMark | None) -> str | None:
        """What a look finds wrong with it."""
        if self.owner != OURS:
            return "owned"
        newest = self.mark()
        if mark is None:
            return None
        behind = reversed([version for version in self.log if version.number > mark.version])
        found = altered(mark, newest, self.ids.get(mark.version), behind)
        return found[0] if found is not None else None


@dataclass(slots=True)
class Durable:
    """``offsets[n]`` is the range of batch n, logged before the batch runs; ``committed`` the last batch that
    Spark counts as done; ``saved`` progress as JSON, by batch. ``asked`` is every request there ever was, ``journal``
    those that a replay may need, and ``remembered`` has the ids of all that were in it."""

    offsets: list[tuple[int, int]] = field(default_factory=list)
    committed: int = -1
    saved: dict[int, str] = field(default_factory=dict)
    asked: list[SnapshotRequest] = field(default_factory=list)
    journal: list[SnapshotRequest] = field(default_factory=list)
    remembered: set[str] = field(default_factory=set)
    controls: Controls = field(default_factory=Controls)

    def accept(self, *requests: SnapshotRequest) -> None:
        self.journal += requests
        self.remembered.update(request.id for request in requests)

    def decide(self, controls: Controls) -> None:
        """The journal's other half: what operators have decided, through the text it is kept as."""
        self.controls = Controls.from_json(json.loads(json.dumps(controls.to_json())))

    def save(self, progress: Progress) -> None:
        self.saved[progress.batch_id] = json.dumps(progress.to_json())

    def known(self) -> list[RequestProgress]:
        """The requests that exist, as far as it is durable."""
        saved = self.newest_below(len(self.offsets) + 1)
        return [*saved.requests, *self.waiting(saved)]

    def waiting(self, saved: Progress) -> list[RequestProgress]:
        """Requests of the journal that a saved progress does not know yet."""
        return [RequestProgress.accepted(r) for r in self.journal if saved.request(r.id) is None]

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


def outcome_of(rows: dict[str, CommitRow], window: int, read: int, held: dict[str, Row]) -> Outcome:
    """Of a window that has read so many documents, when these rows are committed to a table that has held others."""
    kept = {key: row for key, row in rows.items() if isinstance(row, Read) and row.window == window}
    missing = sum(isinstance(row, Missing) and row.window == window for row in rows.values())
    equal = sum(key in held and held[key].doc == row.content for key, row in kept.items())
    known = sum(key in held for key in kept)
    return Outcome(len(kept), read - len(kept), missing, known - equal, equal)


def said_of(closings: list[Closing], outcomes: dict[WindowId, Outcome]) -> tuple[Uncounted, ...]:
    """What a commit says of the READs of these windows."""
    return tuple(
        Uncounted(closing.window.request_id, outcomes[closing.window.id], upto)
        for closing in closings
        if closing.window.request_id is not None and (upto := end_of(closing.window.target)) is not None
    )


def all_new(closings: list[Closing]) -> bool:
    """Whether the READs of these windows are appended: their ranges are proven new."""
    return all(closing.proven_new for closing in closings)

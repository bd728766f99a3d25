"""What the upkeep knows of one table: what it found at its newest look, what is due, what was done, and when it looks
again. Times are of the clock that only grows."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from snapshotter.reporting.status import UpkeepReport
from snapshotter.state.upkeep_notes import UpkeepNote
from streaming.delta.state_upkeep import TableLook
from streaming.delta.upkeep_plan import LOOK_SECONDS, Effort, Kind, Step, Thresholds, next_look
from streaming.namespaces import Namespace

Name = tuple[Namespace, str]
"""Whose table, and which of its tables."""
_NOTED_AGE = 1.1


@dataclass(slots=True)
class KeptTable:
    """What is known of one: the newest ``look``, the version that was ``seen`` then, and when; what was ``due`` then
    and is not done; when it is looked at ``next``, and when it is at the latest (``again``), if it ``waits`` for a rest
    to end; whether there may be ``more`` to do; when something was ``stepped`` on with it; what was done in this life
    of the engine, the ``last`` rewrite of it, and what went wrong; ``gave_way``: whether the newest try of a rewrite
    did, to a landing; ``refused``: why its old files are not removed; ``tried``: when that was tried, ``vacuumed``:
    when it was done; ``checkpointed``: when a checkpoint of its log was written, in so many seconds; ``note``: what the
    next process is to know of it."""

    look: TableLook | None = None
    small: int | None = None
    due: Step | None = None
    next: float = 0.0
    again: float = 0.0
    waits: Effort | None = None
    more: bool = False
    stepped: float = 0.0
    seen: tuple[int, float] | None = None
    tried: float | None = None
    vacuumed: float | None = None
    checkpointed: float = 0.0
    checkpoint_seconds: float = 0.0
    rewrites: int = 0
    last: Kind | None = None
    gave_way: bool = False
    done_at: datetime | None = None
    failures: int = 0
    error: str | None = None
    refused: str | None = None
    note: UpkeepNote = field(default_factory=UpkeepNote)

    def noted(self, note: UpkeepNote, now_ms: int) -> None:
        """Take over what earlier runs have left in a ``note``; ``now_ms`` since 1970. Runs of each night are not a day
        apart to the second: what is noted counts as a tenth older than it is."""
        if not 0 < note.vacuumed_ms <= now_ms or note.looked_ms > now_ms:  # a clock was wrong
            note = replace(note, looked_ms=0, vacuumed_ms=now_ms)
        self.note = note
        self.tried = time.monotonic() - _NOTED_AGE * (now_ms - note.vacuumed_ms) / 1_000

    def looked(self, found: TableLook | None, now: float, limits: Thresholds) -> None:
        """What was ``found`` ``now``, which says when to look again; by its ``limits`` files are small."""
        before, self.seen = self.seen, None if found is None else (found.version, now)
        # The note may be of none, or of a table that is gone.
        if found is not None and found.table_id != self.note.id:
            self.note = replace(self.note, oldest=None, id=found.table_id)
        self.look, self.waits, wait = found, None, LOOK_SECONDS
        if found is not None and before is not None:
            version, at = before
            wait = next_look(found.version - version, now - at, limits, bool(found.marked))
        self.next = self.again = now + wait

    def look_again(self) -> None:
        """At once: there may be more to do."""
        self.next, self.more = time.monotonic(), True

    def wait(self, effort: Effort, until: float) -> None:
        """Something is due whose kind rests ``until`` then."""
        self.next, self.waits = min(self.again, until), effort

    def report(self, name: Name) -> UpkeepReport:
        """For the status; ``name`` is the table's."""
        look, (namespace, table) = self.look, name
        known = (
            {} if look is None else {"files": look.count, "size_bytes": look.size_bytes, "log": look.commits}
        )
        return UpkeepReport(
            collection=str(namespace),
            table=table,
            **known,
            small_files=self.small,
            marked_rows=None if look is None else look.marked,
            rewrites=self.rewrites,
            done_at=self.done_at,
            vacuumed_at=None if self.vacuumed is None else _date(self.vacuumed),
            oldest_version=None if look is None else self.note.oldest,
            due=None if self.due is None else self.due.reason,
            next_at=_date(self.next),
            lacks=None if look is None else look.lacks,
            error=self.error or self.refused,
        )


def _date(at: float) -> datetime:
    """A moment as a date."""
    return datetime.now(UTC) + timedelta(seconds=at - time.monotonic())

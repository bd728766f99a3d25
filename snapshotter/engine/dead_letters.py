"""What the engine tells of dead letters: in the log as the option says, in the status, and by a notification.

How many there are is asked of their table: at the start, when a batch has written some, and when somebody else has
written to it, for `snapshotter dead-letters replay` marks them from outside. Those of which targets of events are to be
told then wake the engine. It is a report otherwise: where the table cannot be read that is logged once, and the engine
runs all the same.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.configuration.option_values import Handling
from snapshotter.engine.recurring_look import RecurringLook
from snapshotter.landing.buried import EVENTS, WANTED, BuriedLetters
from snapshotter.landing.targets.dead_letters import FOLDER, Buried
from snapshotter.log import warn_of
from snapshotter.reporting.status import DeadLettersReport, Status
from streaming.delta.delta_log import TableLog, active
from streaming.delta.state_merge import session_of_few

_log = structlog.get_logger("snapshotter.dead_letters")
SECONDS, RARELY_SECONDS = 5.0, 60.0
NEXT_STEP = (
    "see them with `snapshotter dead-letters list -c FILE`, and read their keys again with `… replay -c FILE`"
)


@dataclass(frozen=True, slots=True)
class _Known:
    """Of the table's ``version``: how many rows, how many of them have not been replayed, and of how many targets of
    events are to be told; when and what the newest one is."""

    version: int = -1
    total: int = 0
    waiting: int = 0
    wanted: int = 0
    newest_ms: int | None = None
    collection: str | None = None
    error: str | None = None


class DeadLetterWatch(RecurringLook):
    """Of the engine of this ``config``. ``spark`` is asked for the session at a look. ``notify`` sends a notification
    with the data it is given. It looks every few seconds where targets of events may have to be told of some, and else
    once a minute."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        config: EngineConfig,
        notify: Callable[[dict[str, str]], None],
    ) -> None:
        super().__init__("dead-letters", SECONDS if config.envelope is not None else RARELY_SECONDS)
        self._spark, self._handling, self._notify = spark, config.failures, notify
        self._path = f"{config.state_location}/{FOLDER}"
        self._session: SparkSession | None = None
        self._letters: BuriedLetters | None = None
        self._noted: int | None = None  # what there were when a batch was last heard of, or at the start
        self._known = _Known()
        self._looked = self._unknown = False
        self._wake: Callable[[], None] | None = None
        self._lock = threading.Lock()

    def note(self, buried: Buried) -> bool:
        """A batch has buried these: count, log them, and notify operators. False where the table has no more of them
        than before: the batch was repeated, and nothing was written twice."""
        newest, before = buried.first[0], self._noted or 0
        self.look_again()
        self._noted = self._known.total
        grown = self._noted > before
        self._log(buried)
        self._notify(
            {
                "batch": str(buried.batch_id),
                "count": str(buried.total),
                **{stage: str(number) for stage, number in sorted(buried.counts.items())},
                "collections": ",".join(sorted({row["collection"] or "" for row in buried.first})),
                "error": newest["error"],
                "next_step": NEXT_STEP,
            }
        )
        return grown

    @property
    def wanted(self) -> int:
        """Of how many targets of events are to be told, at the last look."""
        return self._known.wanted

    def wakes(self, wake: Callable[[], None]) -> None:
        """From here on ``wake`` is called where targets of events are to be told of some."""
        self._wake = wake
        if self._known.wanted:
            wake()

    def look_again(self) -> None:
        """Look now: somebody knows that the table has changed."""
        self._looked = False
        self._look()

    def _log(self, buried: Buried) -> None:
        level = {Handling.WARN: logging.WARNING, Handling.SKIP: logging.DEBUG}.get(self._handling)
        if level is None:
            return
        for row in buried.first:
            named = {name: row[name] for name in ("collection", "_id", "stage", "id", "error")}
            _log.log(level, "what cannot be processed went to the dead letters", **named)
        if (more := buried.total - len(buried.first)) > 0:
            _log.log(level, "so did others of the batch", count=more, batch=buried.batch_id)

    def told(self, status: Status) -> Status:
        """The status with what is known of them; without any there is nothing to tell."""
        known = self._known
        if not known.total:
            return status
        at = None if known.newest_ms is None else datetime.fromtimestamp(known.newest_ms / 1000, UTC)
        report = DeadLettersReport(
            total=known.total,
            waiting=known.waiting,
            newest_at=at,
            collection=known.collection,
            error=known.error,
            next_step=NEXT_STEP if known.waiting else None,
        )
        return status.model_copy(update={"dead_letters": report})

    def _look(self) -> None:
        with self._lock:
            before = self._known
            if self._looked and not before.total:
                return  # the first one is this engine's to write
            try:
                self._known, self._looked = self._counted(), True
                if self._noted is None:
                    self._noted = self._known.total
            except Exception as error:  # noqa: BLE001 - a report, and an engine runs without it
                if not self._unknown:
                    warn_of(_log, "the table of dead letters cannot be read, so they are not counted", error)
                self._unknown = True
        if self._wake is not None and self._known.wanted and self._known is not before:
            self._wake()

    def _counted(self) -> _Known:
        """The table as it is: as it was known where nobody has written to it since."""
        session = self._session = self._session or session_of_few(self._spark())
        with active(session):
            newest = TableLog(session, self._path).newest()
        if newest is None:
            return _Known()
        if newest.version == self._known.version:
            return self._known
        self._letters = self._letters or BuriedLetters(session, self._path)
        table = self._letters.rows()
        if table is None:
            return _Known()
        last = F.max(F.struct("ts_ms", "collection", "error"))
        waiting, wanted = F.count_if(F.col("replayed_at").isNull()), F.count_if(F.col(EVENTS) == WANTED)
        row = table.agg(F.count(F.lit(1)), waiting, F.coalesce(wanted, F.lit(0)), last).collect()[0]
        return _Known(newest.version, row[0], row[1], row[2], *(row[3] or (None, None, None)))

"""A look at the oplog at the start and every few minutes, concurrently with the runs: for the status, and for
warnings.

It is a report. What cannot be found out (no right to ask, no answer) is logged once and stays unknown, and the engine
runs all the same.
"""

from __future__ import annotations

from typing import Any

import structlog
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from snapshotter.engine.recurring_look import RecurringLook
from snapshotter.log import warn_of
from snapshotter.position.runway import Oplog
from snapshotter.reading.oplog import look
from snapshotter.reporting.oplog_report import with_oplog
from snapshotter.reporting.status import Status
from streaming.mongo.errors import SourceError

_log = structlog.get_logger("snapshotter.oplog")
SECONDS = 300.0


class OplogWatch(RecurringLook):
    """``least_hours``: warn of a runway that is shorter (0: never). It looks ``every`` so many seconds."""

    def __init__(self, client: MongoClient[Any], least_hours: float, every: float = SECONDS) -> None:
        super().__init__("oplog", every)
        self._client, self._least_hours = client, least_hours
        self._oplog: Oplog | None = None
        self._said: set[str] = set()
        self._unknown = False

    def told(self, status: Status) -> Status:
        """The status with what is known of the oplog. What it warns of is logged when it is new."""
        found = with_oplog(status, self._oplog, self._least_hours)
        new = found.warnings[len(status.warnings) :]
        for warning in new:
            if _kind(warning) not in self._said:
                _log.warning(warning)
        self._said = {_kind(warning) for warning in new}
        return found

    def _look(self) -> None:
        try:
            self._oplog = look(self._client)
        except (PyMongoError, SourceError) as error:
            if not self._unknown:
                warn_of(_log, "the oplog cannot be looked at, so its runway is not known", error)
            self._unknown = True


def _kind(warning: str) -> str:
    """The same of two warnings that differ by their figures alone."""
    return "".join(letter for letter in warning if not letter.isdecimal())

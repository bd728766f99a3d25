"""A look at the oplog at the start and every few minutes, concurrently with the runs: for the status, and for
warnings.

It is a report. What cannot be found out (no right to ask, no answer) is logged once and stays unknown, and the engine
runs all the same.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

import structlog
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from snapshotter.log import warn_of
from snapshotter.position.runway import Oplog
from snapshotter.reading.oplog import look
from snapshotter.reporting.oplog_report import with_oplog
from snapshotter.reporting.status import Status
from streaming.mongo.errors import SourceError

_log = structlog.get_logger("snapshotter.oplog")
SECONDS = 300.0


class OplogWatch:
    """As a context manager it looks at once, and then ``every`` so many seconds until the context is left.
    ``least_hours``: warn of a runway that is shorter (0: never)."""

    def __init__(self, client: MongoClient[Any], least_hours: float, every: float = SECONDS) -> None:
        self._client, self._least_hours, self._every = client, least_hours, every
        self._oplog: Oplog | None = None
        self._said: set[str] = set()
        self._unknown = False
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._look()
        self._thread = threading.Thread(target=self._look_on, name="oplog", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def told(self, status: Status) -> Status:
        """The status with what is known of the oplog. What it warns of is logged when it is new."""
        found = with_oplog(status, self._oplog, self._least_hours)
        new = found.warnings[len(status.warnings) :]
        for warning in new:
            if _kind(warning) not in self._said:
                _log.warning(warning)
        self._said = {_kind(warning) for warning in new}
        return found

    def _look_on(self) -> None:
        while not self._stopped.wait(self._every):
            self._look()

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

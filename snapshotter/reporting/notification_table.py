"""Notifications as rows of a Delta table, ``notifications`` beside the engine's state.

Columns: ``id``, ``aggregate_type``, ``type``, ``additional_data`` (a map of texts), ``timestamp``, ``engine``; one
engine's are in order by ``timestamp``. Rows are only ever appended; to keep the table small, delete old rows and vacuum
it, like any other.

A commit costs the machine about as much as one of data, so what happens within a few seconds shares one. Commits are
numbered: where one was written and only the answer was lost, Delta skips the batch when it is sent again.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import structlog

from signals.notifications.channel import NotificationChannel
from signals.notifications.notification import Notification
from snapshotter.log import OLD_COMMITS, warn_of
from streaming.delta.small_table import SmallTable
from streaming.delta.state_merge import session_of_few

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = structlog.get_logger("snapshotter.notifications")

FOLDER = "notifications"
SCHEMA = (
    "id STRING, aggregate_type STRING, type STRING, additional_data MAP<STRING, STRING>, "
    "timestamp TIMESTAMP, engine STRING"
)
_LINGER_SECONDS = 5.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NotificationTable(NotificationChannel):
    """The table at ``path`` (a local path or a URI), written for the engine of this name; made by the first row."""

    name = "delta"
    linger_seconds = _LINGER_SECONDS

    def __init__(self, spark: SparkSession, path: str, engine: str) -> None:
        self._session = session_of_few(spark)
        self._table = SmallTable(self._session, path, partial(warn_of, _log, OLD_COMMITS, table=FOLDER))
        self._engine = engine
        self._writer = f"notifications-{uuid.uuid4().hex}"
        self._number = 0

    def send(self, batch: Sequence[Notification]) -> None:
        frame = self._session.createDataFrame([self._row(n) for n in batch], SCHEMA).coalesce(1)
        self._table.append(frame, self._writer, self._number, "")
        self._number += 1

    def _row(self, notification: Notification) -> tuple[object, ...]:
        return (
            notification.id,
            notification.aggregate_type,
            notification.type,
            dict(notification.additional_data),
            _EPOCH + timedelta(milliseconds=notification.timestamp_ms),
            self._engine,
        )

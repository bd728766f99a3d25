"""The newest landing in a table, as the table's log tells it: for an engine that has lost its own state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streaming.delta.delta_log import TableLog, active
from streaming.delta.table_guard import landing_mark, owner_of
from streaming.delta.table_identity import Owner, TableMark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class LastLanding:
    """``owner`` is the engine that the table names. ``said`` is what the newest landing says of itself (None: the log
    tells of none), and ``mark`` the version that it made. ``whole``: the log goes back to the table's first version."""

    owner: Owner | None
    said: Mapping[str, Any] | None
    mark: TableMark | None
    whole: bool


def last_landing(spark: SparkSession, path: str) -> LastLanding | None:
    """Of the table at ``path``; None where there is none."""
    log = TableLog(spark, path)
    with active(spark):
        newest = log.newest()
        if newest is None:
            return None
        reached = newest.version + 1
        for commit in log.commits.down(newest.version):
            reached = commit.version
            if (said := landing_mark(commit)) is not None:
                mark = TableMark(newest.table_id, commit.version, commit.id)
                return LastLanding(owner_of(newest), said, mark, False)
        return LastLanding(owner_of(newest), None, None, reached == 0)


def recorded_batch(spark: SparkSession, path: str, app_id: str) -> int | None:
    """The newest batch that the table at ``path`` records of the application ``app_id``; None for none, or no table."""
    with active(spark):
        newest = TableLog(spark, path).newest()
        return None if newest is None else newest.recorded(app_id)

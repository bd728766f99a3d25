"""Taking tables over from another engine: ``snapshotter take-over``.

Two engines on one table would double its rows, so each table has one owner (`streaming.delta.table_guard`), and
whoever else starts is refused until somebody decides. It takes over what this engine captures. The request that reads
these collections again, with reconcile, is in the journal before the first owner is set: whatever ends the command,
no table is this engine's without being read. The other engine's next commit there is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.engine.locked import locked
from snapshotter.landing.tables import Tables
from snapshotter.state.identity import engine_id
from snapshotter.state.journal import Journal
from snapshotter.state.storages import storage_for
from streaming.delta.changelog_table import ChangelogTable
from streaming.delta.landing_errors import TableOwned
from streaming.delta.state_table import StateTable
from streaming.delta.table_identity import Owner
from streaming.delta.table_paths import changelog_path, state_path, under
from streaming.events.envelope import SCHEMA
from streaming.namespaces import Namespace


@dataclass(frozen=True, slots=True)
class TakenOver:
    """The tables that were another engine's (by its name), and the request that reads them again; None for no table."""

    tables: tuple[tuple[Namespace, str], ...]
    request: str | None = None


def take_over(spark: SparkSession, config: EngineConfig) -> TakenOver:
    """Make the engine of this configuration the owner of every table that it captures.

    Raises `LockHeldError` where the engine runs, and `TableOwned` where a table is another collection's: then nothing
    is taken over.
    """
    storage = storage_for(config.state_location, spark)
    with locked(storage, config.name) as token:
        owner = Owner(config.name, engine_id(storage))
        app_id = f"snapshotter:{config.name}:take-over"
        layout = config.layout
        there = Tables(spark, config.warehouse, lambda: app_id, layout, lambda _: layout.least_plan()).there()
        paths = {n: under(config.warehouse, state_path(n)) for n in there if config.scope.captures(n)}
        tables = {n: StateTable(layout, spark, path, n, app_id, owner=owner) for n, path in paths.items()}
        logs = {n: _changelog(spark, config, n, app_id, owner) for n in paths}
        foreign = [n for n, table in tables.items() if _is_anothers(partial(table.look, None))]
        told = [n for n, log in logs.items() if _is_anothers(log.admit)]
        if not foreign and not told:
            return TakenOver(())
        request, both = f"take-over-{token}", sorted({*foreign, *told})
        wanted = tuple(Wanted(namespace, reconcile=True) for namespace in both)
        Journal(storage, config.remember_seconds).add(SnapshotRequest(request, wanted))
        was = {n: logs[n].take_over() or "nobody" for n in told}
        was |= {n: tables[n].take_over() or "nobody" for n in foreign}
        return TakenOver(tuple(sorted(was.items())), request)


def _changelog(
    spark: SparkSession, config: EngineConfig, namespace: Namespace, app_id: str, owner: Owner
) -> ChangelogTable:
    path = under(config.warehouse, changelog_path(namespace))
    return ChangelogTable(spark, path, namespace, app_id, SCHEMA, owner)


def _is_anothers(look: Callable[[], object]) -> bool:
    """Whether another engine owns the table that is looked at. Careful: the look makes a table that may be taken this
    engine's."""
    try:
        look()
    except TableOwned as error:
        if error.by is None:
            raise
        return True
    return False


def report(done: TakenOver) -> Sequence[str]:
    """Lines for a person."""
    if not done.tables:
        return ["nothing to take over: every table that this engine captures is its own"]
    lines = [f"{namespace}: taken over from {was!r}" for namespace, was in done.tables]
    return [*lines, f"the next start reads them again and removes what is gone (request {done.request!r})"]

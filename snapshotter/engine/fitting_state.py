"""Which state a start goes on with, where somebody has removed or renamed a part of it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.engine.beginning import START, Beginning
from snapshotter.engine.first_load import fitting_checkpoint, named_position
from snapshotter.engine.found_position import beside_checkpoint, from_tables
from snapshotter.landing.origin import scope_digest
from snapshotter.landing.tables import Tables
from snapshotter.state.progress_store import ProgressStore
from streaming.delta.table_paths import state_path, under


def fitting(store: ProgressStore, config: EngineConfig, beginning: Beginning) -> ProgressStore:
    """``store``, or the one to go on with where the checkpoint is another one than it was, or the position has another
    name by ``config``. ``beginning`` asks the oplog whether it holds a position."""
    found = beside_checkpoint(store, beginning.holds)
    store = found or fitting_checkpoint(store, config.state_location) or store
    return named_position(store, config.partition) or store


def told_by_tables(
    store: ProgressStore, config: EngineConfig, tables: Tables, spark: SparkSession, beginning: Beginning
) -> ProgressStore:
    """``store``; or, where the engine of this ``config`` has no state, the one that its ``tables`` tell of, read by
    ``spark``, if they do. ``beginning`` as for `fitting`."""
    told = config.position_start is not None or config.source_options.get(START, "-1") != "-1"
    if told or not store.untouched:
        return store
    captured = [n for n in tables.there() if config.captures_data(n)]
    paths = {n: under(config.warehouse, state_path(n)) for n in captured}
    what = config.name, scope_digest(config.source_options), beginning.holds
    return from_tables(store, spark, paths, *what) or store

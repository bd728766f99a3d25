"""Which state a start goes on with, where somebody has removed or renamed a part of it."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.engine.beginning import START, Beginning
from snapshotter.engine.first_load import fitting_checkpoint, named_position
from snapshotter.engine.found_position import beside_checkpoint, from_tables, of_older_copy
from snapshotter.landing.origin import scope_digest
from snapshotter.landing.table_faults import fault_of
from snapshotter.landing.tables import Tables
from snapshotter.state.progress_store import ProgressStore
from streaming.delta.last_landing import recorded_batch
from streaming.delta.table_paths import state_path, under
from streaming.namespaces import Namespace


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
    ``spark``, if they do; or, where these are ahead of it, one whose batches count anew. ``beginning`` as for
    `fitting`."""
    if not store.untouched:
        return of_older_copy(store, partial(_recorded, config, tables, spark), beginning.holds) or store
    if config.position_start is not None or config.source_options.get(START, "-1") != "-1":
        return store
    captured = [n for n in tables.there() if config.captures_data(n)]
    paths = {n: under(config.warehouse, state_path(n)) for n in captured}
    what = config.name, scope_digest(config.source_options), beginning.holds
    return from_tables(store, spark, paths, *what) or store


def _recorded(config: EngineConfig, tables: Tables, spark: SparkSession, namespace: Namespace) -> int | None:
    """The newest batch that a table records. What is wrong with it alone is left to the first batch, which looks at
    each."""
    path = under(config.warehouse, state_path(namespace))
    try:
        return recorded_batch(spark, path, tables.application_id())
    except Exception as error:
        if fault_of(namespace, error) is None:
            raise
        return None

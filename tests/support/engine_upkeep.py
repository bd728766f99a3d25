"""The upkeep of an engine's tables without the engine: asked to look by hand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import bson
import pytest
from pyspark.sql import SparkSession

from snapshotter.engine import kept_table, upkeep
from snapshotter.engine.upkeep import TableUpkeep
from snapshotter.landing.tables import Tables
from snapshotter.metrics.tally import Tally
from snapshotter.reporting.status import Status, UpkeepReport
from snapshotter.reporting.window_log import OpenWindow
from snapshotter.state.lock import LockLostError
from snapshotter.state.storage import MemoryStorage, Storage
from streaming.delta.table_paths import STATE
from streaming.delta.upkeep_plan import Pace, Thresholds
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.observe import observe
from streaming.namespaces import Namespace
from tests.support import tables as delta_rs
from tests.support.engines import Lab
from tests.support.state_tables import state_schema

ORDERS, ITEMS = Namespace("shop", "orders"), Namespace("shop", "items")
PLAN = observe(bson.encode({"_id": 1, "v": 1}))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks and pauses as short as can be: what is tested is that there are any, and what follows from them."""
    monkeypatch.setattr(kept_table, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(upkeep, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(kept_table, "next_look", lambda *_: 0.0)
    monkeypatch.setattr(Pace, "pause", staticmethod(lambda seconds, busy: 0.0))


class Kept:
    """Two tables, and their upkeep, which is asked to look by hand. A batch is always landing somewhere else, unless
    that is asked for."""

    def __init__(
        self, spark: SparkSession, lab: Lab, folder: Path, storage: Storage | None = None, **options: Any
    ) -> None:
        self.folder, self.spark, self.tally = folder, spark, Tally()
        self.tables = Tables(spark, str(folder), lambda: "snapshotter:test:1", COLUMNS, lambda _: PLAN)
        self.locked, self.batch = True, 0
        self.tally.put("bytes_landing", 1)
        wanted = Thresholds(files=3, retention_hours=options.pop("retention_hours", 0))
        config = replace(lab.engine().engine.config, upkeep=wanted, **options)
        self.open: list[OpenWindow] = []
        moment = lambda: spark, lambda: self.tables
        kept = self.check, self.tally, storage or MemoryStorage()
        self.upkeep = TableUpkeep(config, *moment, *kept, lambda: self.open)

    def check(self) -> None:
        if not self.locked:
            raise LockLostError("another engine has taken over")

    def path(self, namespace: Namespace) -> Path:
        return Path(self.tables.of(namespace).table.path)

    def land(self, namespace: Namespace, batch: int) -> None:
        """A row in a file of its own."""
        rows = [(f"k{batch}", batch, batch, None, batch, None, "c")]
        with self.tables.landing(namespace) as opened:
            source = self.spark.createDataFrame(rows, state_schema(PLAN)).coalesce(1)
            opened.table.land(source, batch_id=batch, metadata={}, how="append", key_ranges=None)

    def land_each(self, batches: Iterable[int], *namespaces: Namespace) -> None:
        """One batch after the other, into each of these tables."""
        for batch in batches:
            for namespace in namespaces:
                self.land(namespace, batch)

    def keys(self, namespace: Namespace) -> list[str]:
        return sorted(row["_key"] for row in delta_rs.rows(self.path(namespace), "_key"))

    def looks(self, times: int = 4) -> None:
        """So many looks, the first of which only makes the acquaintance of tables."""
        for _ in range(times):
            assert self.upkeep._look_again()

    def report(self, namespace: Namespace, table: str = STATE) -> UpkeepReport:
        told = self.upkeep.told(Status.model_construct(name="e"))
        (found,) = (r for r in told.upkeep if (r.collection, r.table) == (str(namespace), table))
        return found

    def counted(self) -> dict[str, Any]:
        return self.tally.counts()["upkeep"]

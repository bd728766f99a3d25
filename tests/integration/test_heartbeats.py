"""``heartbeat.interval.ms``: a row with the position now and then, although nothing has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from snapshotter.landing.targets.heartbeats import HeartbeatTable
from snapshotter.landing.targets.target import Contents, Identity
from streaming.positions import ClusterTime
from streaming.source.change_events import ARROW_SCHEMA
from tests.support.engines import SECONDS, Lab, lab
from tests.support.tables import rows

__all__ = ["lab"]


def beats(folder: Path) -> list[dict[str, Any]]:
    return sorted(rows(folder), key=lambda row: row["batch"]) if folder.exists() else []


def contents(spark: SparkSession, batch: int) -> Contents:
    """A batch without an event."""
    position = ClusterTime(1_764_000_000 + batch, 1)
    said = {"position": position.to_json(), "resume_token": "dG9rZW4="}
    return Contents(
        Identity(batch, said), spark.createDataFrame(ARROW_SCHEMA.empty_table()), transactional=False
    )


def test_a_row_comes_when_the_interval_is_over(spark: SparkSession, tmp_path: Path) -> None:
    """By the clock, not by batches; with the position up to which all has landed. A batch that is landed again by a new
    start adds nothing."""
    clock = [100.0]

    def table() -> HeartbeatTable:
        path = str(tmp_path / "heartbeats")
        return HeartbeatTable(spark, path, lambda: "snapshotter:e:1", "shop", 1_000, lambda: clock[0])

    target = table()
    for batch, passed in ((0, 0.0), (1, 0.5), (2, 0.6), (3, 0.1)):
        clock[0] += passed
        assert target.land(contents(spark, batch)).complete
    assert [row["batch"] for row in beats(tmp_path / "heartbeats")] == [0, 2]
    table().land(contents(spark, 2))
    first, second = beats(tmp_path / "heartbeats")
    assert second["_cluster_time"] == ClusterTime(1_764_000_002, 1).to_int()
    assert (first["server_name"], first["resume_token"], target.name) == ("shop", "dG9rZW4=", "heartbeats")
    assert pa.types.is_int64(pa.array([second["ts_ms"]]).type)


def test_an_idle_engine_beats(lab: Lab) -> None:
    """Nothing that is captured changes, and the rows tell that the position moves on."""
    lab.with_options("cluster_time", snapshot__mode="no_data", heartbeat__interval__ms=1)
    folder = lab.state / "heartbeats"
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        lab.client["elsewhere"]["junk"].insert_one({})
        engine.until("two heartbeats", lambda: len({b["_cluster_time"] for b in beats(folder)}) > 1, SECONDS)
    times = [beat["_cluster_time"] for beat in beats(folder)]
    assert times == sorted(times)
    assert beats(folder)[0]["server_name"] == f"engine-{lab.database}"


def test_without_an_interval_there_is_none(lab: Lab) -> None:
    """Debezium's default."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    assert not (lab.state / "heartbeats").exists()

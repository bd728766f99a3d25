"""A Spark that does not start, or has too little to run with, is named, with the option that helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from snapshotter.errors import EXIT_OK
from tests.support.engine_process import EngineProcess
from tests.support.tables import rows


@pytest.mark.slow
@pytest.mark.guard
@pytest.mark.parametrize(
    ("option", "wrong", "condition"),
    [
        ("spark.driver.memory", "200m", "resource (heap-too-small)"),
        ("spark.driver.memory", "much", "configuration (spark-not-started)"),
        ("spark.sql.shuffle.partitions", "many", "configuration (wrong-option)"),
    ],
)
def test_a_spark_that_does_not_start_is_named(
    option: str,
    wrong: str,
    condition: str,
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, Any]],
    database: str,
    tmp_path: Path,
) -> None:
    """Nothing is called unexpected. With the option corrected the engine starts, and reads what is there."""
    mongo_client[database]["orders"].insert_one({"_id": 1})
    right = {
        "name": "starts",
        "mongodb.connection.string": mongo_uri,
        "database.include.list": database,
    }
    engine = EngineProcess(tmp_path, {**right, option: wrong})
    assert engine.start("--once").wait() != EXIT_OK
    said = engine.log.read_text()
    assert f"class: {condition}" in said
    assert "unexpected" not in said
    if wrong == "200m":
        engine = EngineProcess(tmp_path, right)
        assert engine.start("--once").wait() == EXIT_OK
        assert [row["_id"] for row in rows(engine.table(database, "orders"))] in ([1], ["1"])

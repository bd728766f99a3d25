"""How an engine ends where its work does not: its JVM is killed, or it is stopped before Spark has started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient, WriteConcern

from snapshotter.errors import EXIT_GAVE_UP
from tests.support.engine_process import EngineProcess
from tests.support.tables import rows


def engine_of(mongo_uri: str, database: str, folder: Path) -> EngineProcess:
    options = {
        "name": database,
        "mongodb.connection.string": mongo_uri,
        "database.include.list": database,
        "snapshot.mode": "no_data",
    }
    return EngineProcess(folder, options)


@pytest.mark.guard
@pytest.mark.slow
def test_no_jvm_and_no_start(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str, tmp_path: Path
) -> None:
    """SIGTERM while Spark starts: it ends at once and cleanly, with 0, and the lock is free. What changes after that
    start, with no engine there, is seen by the next one. SIGKILL for its JVM, as where memory is short: no run can go
    on, so it ends with the code that says that a restart helps; and it does."""
    orders = mongo_client[database].get_collection("orders", write_concern=WriteConcern("majority"))
    orders.insert_one({"_id": "before"})
    engine = engine_of(mongo_uri, database, tmp_path).start()
    engine.until("the position to be taken", (engine.state / "beginning.json").exists)
    assert engine.terminate() == 0
    assert engine.files_of_progress("offsets") == -1, "Spark had started before it was told to end"
    (lock,) = (engine.state / "lock").rglob("0*")
    assert json.loads(lock.read_text())["released"]
    orders.insert_one({"_id": "between"})

    engine.start()
    engine.until("a batch", lambda: engine.batches() or None)
    orders.insert_one({"_id": "with an engine"})
    engine.kill_java()
    assert engine.wait() == EXIT_GAVE_UP
    said = engine.log.read_text()
    assert "Spark's session is gone" in said
    assert "start again" in said
    orders.insert_one({"_id": "after"})

    assert engine.start("--once").wait() == 0
    landed = sorted(row["_id"] for row in rows(engine.table(database, "orders")))
    assert landed == ["after", "between", "with an engine"]

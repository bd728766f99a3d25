"""An engine with odd neighbours: where its warehouse lies, what documents call their fields, what others add to its
tables; and what Spark shows of it."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from snapshotter.verification.verify import verify_collection
from streaming.layouts.columns.layout import COLUMNS
from tests.support.engines import SECONDS, Lab, lab
from tests.support.tables import difference

__all__ = ["lab"]

pytestmark = pytest.mark.guard
SECRET = "hunter2"


@pytest.mark.slow
def test_an_engine_among_odd_names(lab: Lab) -> None:
    """The warehouse's path would be a pattern; two fields of a document are one name to Spark, and more come that way,
    nested too; somebody adds a column between two starts. Collection and table stay equal, and the column stays."""
    warehouse = lab.folder / "wh {x} [y]"
    lab.with_options(delta__warehouse=str(warehouse), snapshot__mode="initial")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "n": n} for n in range(20)])
    clashing = {"GRÖẞE": 1, "größe": 2, "İsim": 1, "i̇sim": 2}
    orders.insert_one({"_id": "sampled", "straße": 1, "STRASSE": 2, **clashing})
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        orders.insert_one({"_id": "streamed", "x": clashing, "list": [clashing, {"GRÖSSE": 3}], "*": 1})
        orders.update_one({"_id": 3}, {"$set": {"Größe": "text"}})
        engine.catch_up(SECONDS)
        tables = engine.engine.tables
        assert tables.there() == [lab.namespace("orders")]
    path = warehouse / "state" / lab.database / "orders"
    assert difference(lab.uri, lab.database, "orders", path) == []

    name = f"delta.`{path}`"
    lab.spark.sql(f"ALTER TABLE {name} ADD COLUMNS (note STRING FIRST, x.theirs INT, later BIGINT)")
    orders.update_one({"_id": 4}, {"$set": {"later": 1, "new": 1}})
    orders.insert_one({"_id": "last", "NEW": 5, "x": {"theirs": "a text", "isim": 1}})
    with capture_logs() as logs, lab.running() as engine:
        engine.execute_snapshot(lab.name("orders"), keys=[5, 6, "sampled"], request_id="again")
        engine.wait("again", SECONDS)
        engine.catch_up(SECONDS)
        orders.insert_one({"_id": "and on", "new": 6, "NEW": 6, "later": 6})
        engine.catch_up(SECONDS)
    told = {log["field"] for log in logs if log["event"].startswith("a field has no column")}
    assert {"later", "x.theirs"} <= told
    result = verify_collection(lab.spark, lab.uri, lab.namespace("orders"), str(path), COLUMNS)
    assert result.equal, str(result)
    rows = {row["_key"]: row for row in lab.spark.read.format("delta").load(str(path)).collect()}
    assert all(row["note"] is None and row["later"] is None for row in rows.values())


def shown(spark: SparkSession) -> str:
    """All that Spark has kept of queries for its pages, which is what goes to its event log, and what it says of those
    that run."""
    session: Any = spark._jsparkSession
    store = session.sharedState().statusStore()
    done = store.executionsList()
    texts = [
        str(done.apply(at).physicalPlanDescription()) + str(done.apply(at).details())
        for at in range(done.size())
    ]
    for query in spark.streams.active:
        stream: Any = query._jsq.streamingQuery()  # type: ignore[attr-defined]
        texts += [
            str(stream.analyzedPlan().collectLeaves().head().extraOptions().asCaseSensitiveMap()),
            str(stream.logicalPlan().toString()),
            str(stream.lastExecution().toString()),
            str(query.lastProgress),
        ]
        texts += [str(query.recentProgress), str(query.status), str(stream.toString())]
    return "\n".join(texts)


def test_nothing_that_spark_shows_has_the_password(lab: Lab) -> None:
    """It is in the address, and no plan has the address: not what streams, is read, lands, or is compared."""
    lab.uri += f"{'&' if '?' in lab.uri else '/?'}appname={SECRET}"
    lab.with_options("cluster_time", snapshot__mode="initial")
    lab.collection("orders").insert_many([{"_id": n} for n in range(10)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        lab.collection("orders").insert_one({"_id": 100})
        engine.catch_up(SECONDS)
        seen = shown(lab.spark)
        assert "hints.file" in seen, "the options of the stream are shown"
        assert SECRET not in seen
        assert SECRET not in repr(engine.engine.config)
    verify_collection(lab.spark, lab.uri, lab.namespace("orders"), str(lab.table("orders")), COLUMNS)
    assert SECRET not in shown(lab.spark)

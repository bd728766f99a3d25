"""What is wrong with one collection's table suspends that collection, and stops no other: cause by cause."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from snapshotter.api import Snapshotter
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.suspension import Suspension
from snapshotter.errors import DefiniteError
from snapshotter.reporting.status import RequestState, Status
from streaming.delta.table_identity import Owner
from streaming.layouts.columns.plan import TablePlan
from tests.support.engines import SECONDS, Lab, Reads, lab, limits, reads
from tests.support.state_tables import columns_table

__all__ = ["lab", "reads"]

pytestmark = pytest.mark.guard

DOCUMENTS = 12


@dataclass(frozen=True)
class Cause:
    """How a table comes to be unusable while the engine is stopped, and what cures it; ``name`` is the cause that is
    told."""

    name: str
    harm: Callable[[Lab, Path], object]
    cure: Callable[[Lab, Path], object] = lambda lab, table: None


def sql(text: str) -> Callable[[Lab, Path], object]:
    """A statement about the table, which it calls ``{}``."""
    return lambda lab, table: lab.spark.sql(text.format(f"delta.`{table}`"))


def unset_plan(lab: Lab, table: Path) -> None:
    lab.spark.sql(f"ALTER TABLE delta.`{table}` UNSET TBLPROPERTIES ('snapshotter.plan')")


def set_aside(lab: Lab, table: Path) -> None:
    """Out of the warehouse, where it would be the table of a collection of this name."""
    table.rename(lab.folder / f"aside-{table.name}")


def other_files(lab: Lab, table: Path) -> None:
    """In the place of the table lie files that are none of Delta's."""
    shutil.rmtree(table)
    lab.spark.range(3).write.parquet(str(table))


def of_another_type(lab: Lab, table: Path) -> None:
    """Somebody has written it anew, with a column of another type."""
    rows = lab.spark.read.format("delta").load(str(table)).withColumn("v", F.lit(None).cast("timestamp"))
    rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(table))


def a_new_one(lab: Lab, table: Path) -> None:
    """Somebody has made a table anew, with the same columns."""
    shutil.rmtree(table)
    columns_table(lab.spark, str(table), lab.namespace(table.name), "somebody").create(TablePlan())


def an_older_copy(lab: Lab, table: Path) -> None:
    """The folder as it was a version ago, put back from a backup."""
    versions = sorted((table / "_delta_log").glob("[0-9]*.json"))
    checksum = versions[-1].with_suffix(".crc").name
    for name in (versions[-1].name, f".{versions[-1].name}.crc", checksum, f".{checksum}.crc"):
        (table / "_delta_log" / name).unlink(missing_ok=True)
    # An engine that starts has a JVM of its own, in which Delta remembers no newer version.
    lab.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]


def a_short_log(lab: Lab, table: Path) -> None:
    """What was done to the table is no longer in its log."""
    for name, number in (("delta.checkpointInterval", 10), *(("some.number", at) for at in range(12))):
        lab.spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('{name}' = '{number}')")
    checkpoint = max((table / "_delta_log").glob("*.checkpoint*.parquet"))
    upto = int(checkpoint.name.split(".")[0])
    for version in (table / "_delta_log").glob("[0-9]*.json"):
        if int(version.stem) <= upto:
            version.unlink()


def of_another_engine(lab: Lab, table: Path) -> None:
    columns_table(
        lab.spark, str(table), lab.namespace(table.name), "somebody", owner=Owner("thief", "1")
    ).take_over()


def taken_back(lab: Lab, table: Path) -> None:
    """As `snapshotter take-over` does it."""
    mine = lab.engine().engine.identity.owner()
    columns_table(lab.spark, str(table), lab.namespace(table.name), "somebody", owner=mine).take_over()


def an_unknown_feature(lab: Lab, table: Path) -> None:
    """The newest version asks for a feature that nobody here knows."""
    log = table / "_delta_log"
    versions = sorted(log.glob("[0-9]*.json"))
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["snapshotterUnheardOf"],
        "writerFeatures": ["snapshotterUnheardOf"],
    }
    text = "\n".join(
        json.dumps(line) for line in ({"commitInfo": {"operation": "UPGRADE"}}, {"protocol": protocol})
    )
    (log / f"{int(versions[-1].stem) + 1:020d}.json").write_text(text)


CAUSES = {
    "append_only": Cause(
        "delta_cannot_modify_append_only",
        sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.appendOnly' = 'true')"),
        sql("ALTER TABLE {} SET TBLPROPERTIES ('delta.appendOnly' = 'false')"),
    ),
    "constraint": Cause(
        "delta_violate_constraint_with_values",
        sql("ALTER TABLE {} ADD CONSTRAINT small CHECK (v < 100)"),
        sql("ALTER TABLE {} DROP CONSTRAINT small"),
    ),
    "no_plan": Cause("unusable", unset_plan, set_aside),
    "parquet": Cause("missing", other_files, set_aside),
    "type": Cause("changed", of_another_type, set_aside),
    "missing": Cause("missing", lambda lab, table: shutil.rmtree(table)),
    "another": Cause("another", a_new_one),
    "older": Cause("older", an_older_copy),
    "restored": Cause("changed", sql("RESTORE TABLE {} TO VERSION AS OF 0")),
    "deleted": Cause("changed", sql("DELETE FROM {} WHERE v > 5")),
    "log": Cause("unknown", a_short_log),
    "owned": Cause("owned", of_another_engine, taken_back),
    "feature": Cause("delta_unsupported_features_for_read", an_unknown_feature, set_aside),
}


def suspensions(engine: Snapshotter) -> dict[str, Suspension]:
    run = engine.engine.run_state
    progress = run.progress if run is not None else Progress()
    return {str(namespace): suspension for namespace, suspension in progress.suspended.items()}


def status(lab: Lab) -> Status:
    return Status.from_json((lab.state / "status.json").read_text())


@pytest.mark.slow
def test_each_cause_suspends_its_collection_and_no_other(lab: Lab) -> None:
    """While the engine is stopped, each of several tables is spoilt in its own way. The others go on, those are named
    with a cause and a next step, `--once` ends with 3 and names them, a plain request for one waits; and once the cause
    is cured, a read with reconcile makes table and collection equal again, and events land from then on."""
    lab.with_options("insert_insert", snapshot__mode="initial")
    names = [*CAUSES, "sound"]
    for name in names:
        lab.collection(name).insert_many([{"_id": n, "v": n} for n in range(DOCUMENTS)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
    for name, cause in CAUSES.items():
        cause.harm(lab, lab.table(name))
    lab.spark.sql(f"OPTIMIZE delta.`{lab.table('sound')}`")
    lab.spark.sql(f"ALTER TABLE delta.`{lab.table('sound')}` SET TBLPROPERTIES ('some.property' = '1')")
    for name in names:
        lab.collection(name).update_one({"_id": 1}, {"$set": {"v": 1_000}})
        lab.collection(name).delete_one({"_id": 2})
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        lab.assert_equal("sound")
        found = suspensions(engine)
        assert {n: found[lab.name(n)].cause for n in CAUSES} == {n: cause.name for n, cause in CAUSES.items()}
        assert all("snapshotter " in suspension.next_step for suspension in found.values())
        lab.signal("execute-snapshot", "plain", data__collections=[lab.name("append_only")])
        engine.until("the request to be known", lambda: engine.engine.journal.digest_of("plain"), SECONDS)
        engine.until("the status to say so", lambda: waits(lab, "plain"), SECONDS)
        lab.collection("sound").insert_one({"_id": 77, "v": 0})
        engine.catch_up(SECONDS)
        lab.assert_equal("sound")
    with pytest.raises(DefiniteError) as ended:
        lab.engine().engine.run(once=True)
    assert all(lab.name(name) in str(ended.value) for name in CAUSES)
    for name, cause in CAUSES.items():
        cause.cure(lab, lab.table(name))
    with lab.running() as engine:
        lab.signal(
            "execute-snapshot", "cure", data__collections=[lab.name(n) for n in CAUSES], reconcile=True
        )
        engine.wait("cure", SECONDS)
        engine.wait("plain", SECONDS)
        for name in names:
            lab.collection(name).insert_one({"_id": 100, "v": 5})
            lab.collection(name).delete_one({"_id": 3})
        engine.catch_up(SECONDS)
        assert suspensions(engine) == {}
        lab.assert_equal(*names)
    lab.engine().engine.run(once=True)


def waits(lab: Lab, request_id: str) -> bool:
    request = status(lab).request(request_id)
    return request is not None and request.state is RequestState.SUSPENDED


@pytest.mark.slow
def test_a_table_that_fails_for_no_known_reason_is_suspended_after_some_runs(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data files of one table are gone. Nobody says that this is the table's own fault, so the run is tried again; when
    it is this table alone that ends runs, it is suspended, and the other collection's changes are in its table."""
    lab.with_options("cluster_time", snapshot__mode="initial", retriable__restart__connector__wait__ms=100)
    for name in ("spoilt", "sound"):
        lab.collection(name).insert_many([{"_id": n, "v": n} for n in range(DOCUMENTS)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
    for file in lab.table("spoilt").glob("*.parquet"):
        file.unlink()
    for name in ("spoilt", "sound"):
        lab.collection(name).update_one({"_id": 1}, {"$set": {"v": 1_000}})
    with lab.running() as engine:
        engine.until("the suspension", lambda: suspensions(engine), SECONDS)
        engine.catch_up(SECONDS)
        lab.assert_equal("sound")
        assert [str(n) for n in suspensions(engine)] == [lab.name("spoilt")]


@pytest.mark.slow
def test_what_reads_in_a_suspended_collection_is_given_up(lab: Lab, reads: Reads) -> None:
    """A table is spoilt in the middle of its first load, while windows are in flight: they are given up, the load of
    the other collection is done, and behind the cure the first load goes on to its end."""
    lab.with_options("insert_insert", snapshot__mode="initial")
    lab.tune = limits(chunk_docs=4, windows=2)
    for name in ("orders", "zoo"):
        lab.collection(name).insert_many([{"_id": n, "v": n} for n in range(40)])
    cause = CAUSES["append_only"]

    def spoil(number: int, job: Any) -> None:
        if job.namespace == lab.namespace("orders") and len(lab.commits("orders")) == 1:
            cause.harm(lab, lab.table("orders"))
            lab.collection("orders").update_one({"_id": 0}, {"$set": {"v": 1_000}})

    reads.before = spoil
    with lab.running() as engine:
        engine.until("the suspension", lambda: suspensions(engine), SECONDS)
        lab.collection("orders").delete_one({"_id": 1})
        engine.until("the other load", lambda: len(lab.rows("zoo")) == 40, SECONDS)
        engine.catch_up(SECONDS)
        cause.cure(lab, lab.table("orders"))
        lab.signal("execute-snapshot", "cure", data__collections=[lab.name("orders")], reconcile=True)
        engine.wait("cure", SECONDS)
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
    lab.assert_equal("orders", "zoo")


@pytest.mark.slow
def test_altered_tables_are_repaired_where_that_is_wished(lab: Lab) -> None:
    """With `engine.table.altered=repair` a table that is gone, and one that was restored to an older version, are read
    again by themselves while changes go on, and in the end equal their collections."""
    lab.with_options("cluster_time", snapshot__mode="initial", engine__table__altered="repair")
    names = ["missing", "restored", "sound"]
    for name in names:
        lab.collection(name).insert_many([{"_id": n, "v": n} for n in range(DOCUMENTS)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        lab.collection("restored").delete_many({"v": {"$gt": 8}})
        engine.catch_up(SECONDS)
    for name in names[:2]:
        CAUSES[name].harm(lab, lab.table(name))
    with lab.running() as engine:
        engine.until("the repairs", lambda: len(repairs(engine)) == 2 and not suspensions(engine), SECONDS)
        for name in names:
            lab.collection(name).insert_one({"_id": 100, "v": 5})
        engine.catch_up(SECONDS)
        lab.assert_equal(*names)


def repairs(engine: Snapshotter) -> list[str]:
    run = engine.engine.run_state
    requests = run.progress.requests if run is not None else ()
    return [request.id for request in requests if request.ended and request.id.startswith("repair/")]

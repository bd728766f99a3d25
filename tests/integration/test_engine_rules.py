"""The rules that keep a backfill free of collisions, each shown on an engine with real parts (docs/PROTOCOL.md)."""

from __future__ import annotations

import base64
import os
import shutil
import sys
from pathlib import Path
from threading import Barrier
from typing import Any

import bson
import pytest
from pymongo.errors import AutoReconnect

from snapshotter.core.values.chunks import KeyList
from snapshotter.landing.targets import state_tables
from snapshotter.landing.targets.target import LandedCollection
from snapshotter.reading.chunk_reader import free_checkpoint
from streaming.positions import ClusterTime
from tests.support.engines import SECONDS, Lab, Reads, lab, quiet_rereads, reads
from tests.support.selection import rest_thorough

__all__ = ["lab", "reads"]


@pytest.mark.parametrize("strategy", rest_thorough(["insert_insert", "cluster_time"], ["insert_insert"]))
def test_a_batch_is_repeated_after_one_of_three_tables_had_committed(
    lab: Lab, reads: Reads, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """The query restarts in this process with windows open: the table that had the batch is left alone, the others get
    it, open windows are discarded and their chunks read again, and no table has two commits of a batch."""
    lab.with_options(strategy, snapshot__mode="no_data", retriable__restart__connector__wait__ms=1)
    names = ("a", "b", "c")
    for name in names:
        lab.collection(name).insert_many([{"_id": n, "v": 0} for n in range(10)])
    real, broken = state_tables.land_table, []

    def land_table(spark: Any, opened: Any, batch: Any, identity: Any, **how: Any) -> LandedCollection:
        if batch.closings and batch.namespace.collection != "a" and len(broken) < 2:
            broken.append(batch.namespace.collection)
            raise AutoReconnect("the network, just before the commit")
        return real(spark, opened, batch, identity, **how)

    def after(number: int, job: Any, buffer: Any) -> None:
        collection = lab.collection(job.namespace.collection)
        collection.update_one({"_id": 1}, {"$inc": {"v": 1}})
        collection.delete_one({"_id": 2})

    monkeypatch.setattr(state_tables, "land_table", land_table)
    reads.after = after
    with lab.running() as engine:
        first = engine.engine.run_state
        request = engine.wait(engine.execute_snapshot(*map(lab.name, names)), SECONDS)
        engine.catch_up(SECONDS)
        again = engine.engine.run_state
        assert first is not None
        assert again is not None
        assert first.id != again.id
        assert not request.failed
    assert broken
    for name in names:
        lab.assert_one_commit_a_batch(name)
    lab.assert_equal(*names)
    runs = {mark["metadata"]["run"] for name in names for mark in lab.commits(name)}
    closed = [w for name in names for mark in lab.commits(name) for w in mark["metadata"]["windows"]]
    assert all(window.split("/")[0] in runs for window in closed)


def test_each_commit_says_where_the_stream_stood(lab: Lab) -> None:
    """Position and resume token of its batch: whoever goes on from there misses nothing and sees nothing twice."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    orders = lab.collection("orders")
    with lab.running() as engine:
        for number in range(3):
            orders.insert_one({"_id": number})
            engine.catch_up(SECONDS)
        saved = engine.engine.store.newest()
    marks = [mark["metadata"] for mark in lab.commits("orders")]
    positions = [ClusterTime.from_json(mark["position"]).to_int() for mark in marks]
    assert positions == sorted(positions)
    landed = sorted(row["_cluster_time"] for row in lab.rows("orders"))
    assert [sum(time <= position for time in landed) for position in positions] == [1, 2, 3]
    assert saved is not None
    assert positions[-1] <= saved.position.to_int()
    orders.insert_one({"_id": "later"})
    token = bson.decode(base64.b64decode(marks[-1]["resume_token"]))
    with lab.client[lab.database].watch(resume_after=token) as changes:
        assert next(changes)["documentKey"] == {"_id": "later"}


def test_a_batch_is_read_from_the_source_once(lab: Lab) -> None:
    """Whatever looks at it (trailer, tables, updates that were not complete): a second reading could look up other
    documents. The server's own record says so: for change streams the level of `local` counts, where they read."""
    names, database, oplog = ("a", "b", "c"), lab.client[lab.database], lab.client["local"]
    scope = {"capture__scope": "database", "capture__target": lab.database}
    lab.with_options("cluster_time", snapshot__mode="no_data", **scope)
    oplog.command("profile", 2)
    try:
        with lab.running() as engine:
            for number in range(3):
                for name in names:
                    lab.collection(name).insert_one({"_id": number})
                    lab.collection(name).update_one({"_id": 0}, {"$inc": {"n": 1}})
                engine.catch_up(SECONDS)
    finally:
        oplog.command("profile", 0)
    streams = database["system.profile"].find({"command.pipeline.0.$changeStream": {"$exists": True}})
    stages = [entry["command"]["pipeline"][0]["$changeStream"] for entry in streams]
    begins = [stage["startAtOperationTime"] for stage in stages if "startAtOperationTime" in stage]
    assert len(begins) >= 3
    assert len(set(begins)) == len(begins)
    lab.assert_equal(*names)


def test_a_new_checkpoint_under_an_old_name(lab: Lab) -> None:
    """Its batches count from 0 again, and all of them land, for the application id names the checkpoint."""
    lab.with_options("cluster_time", snapshot__mode="initial")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0} for n in range(10)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        for n in range(3):
            orders.update_one({"_id": n}, {"$set": {"v": 1}})
            engine.catch_up(SECONDS)
    shutil.rmtree(lab.state)
    lab.options |= {"engine.position.start": "now"}
    orders.update_one({"_id": 5}, {"$set": {"v": 2}})
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        orders.insert_one({"_id": 11, "v": 3})
        engine.catch_up(SECONDS)
    lab.assert_equal("orders")
    assert len({mark["app_id"] for mark in lab.commits("orders")}) == 2


def test_updates_without_full_documents_are_read_again_by_key(lab: Lab, reads: Reads) -> None:
    """``capture.mode=change_streams`` gives updates bare: each id is read again in a window of its own; one that is
    deleted meanwhile is gone, and a full event that follows in the same batch needs no read."""
    lab.with_options(snapshot__mode="initial", capture__mode="change_streams")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0} for n in range(10)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
        lists = len(reads.jobs)
        orders.update_many({"_id": {"$lt": 5}}, {"$set": {"v": 1}})
        engine.catch_up(SECONDS)
        quiet_rereads(engine)
        assert any(isinstance(target, KeyList) for job in reads.jobs[lists:] for target in _targets(job))
        with lab.client.start_session() as session, session.start_transaction():
            orders.update_one({"_id": 6}, {"$set": {"v": 2}}, session=session)
            orders.replace_one({"_id": 6}, {"w": 2}, session=session)
            orders.update_one({"_id": 7}, {"$set": {"v": 2}}, session=session)
            orders.delete_one({"_id": 7}, session=session)
        lists = len(reads.jobs)
        engine.catch_up(SECONDS)
        quiet_rereads(engine)
        assert len(reads.jobs) == lists
        orders.update_one({"_id": 8}, {"$set": {"v": 3}})
        orders.delete_one({"_id": 8})
        engine.catch_up(SECONDS)
        quiet_rereads(engine)
        engine.catch_up(SECONDS)
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")


def test_an_update_looked_up_after_its_delete_hides_nothing(lab: Lab) -> None:
    """Its document is gone when it is looked up, and the delete comes in a later batch: the row stays as it was until
    then, and every READ that the update would hide lands."""
    lab.with_options("cluster_time", snapshot__mode="initial", engine__batch__max__events=1)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0} for n in range(4)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.catch_up(SECONDS)
    orders.update_one({"_id": 1}, {"$set": {"v": 1}})
    orders.update_one({"_id": 2}, {"$set": {"v": 1}})
    orders.delete_one({"_id": 1})
    with lab.running() as engine:
        request = engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS)
        assert not request.failed
        engine.catch_up(SECONDS)
        quiet_rereads(engine)
    lab.assert_equal("orders")


@pytest.mark.parametrize("where", ["files", "rows", "documents"])
def test_a_buffer_whose_blocks_are_lost_is_read_again(lab: Lab, reads: Reads, where: str) -> None:
    """An executor dies after windows of two collections were read, or the files that were written are gone, or cut off,
    of their rows or of the documents that a changelog is told of: the batch lands without them, and the chunks are read
    again instead of being recomputed. Both tables have committed the batch's events by then."""
    lab.with_options(snapshot__mode="no_data")
    if where == "documents":
        lab.options |= {"delta.changelog.enabled": "true"}
    if where == "rows":  # a table with such a column takes no files
        kind = "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState"
        lab.options |= {"transforms": "x", "transforms.x.type": kind, "transforms.x.add.fields": "op"}
    names = ("orders", "people")
    for name in names:
        lab.collection(name).insert_many([{"_id": n, "v": 0} for n in range(10)])
    both = Barrier(2, timeout=SECONDS)

    def after(number: int, job: Any, buffer: Any) -> None:
        if number < 2:
            assert (buffer.folder is None) == (where == "rows")
            free_checkpoint(buffer.frame)
            documents = [part.documents for part in buffer.trailers if part.documents is not None]
            for file in documents if where == "documents" else buffer.files:
                path = Path(buffer.folder.path) / file.name
                os.truncate(path, file.size_bytes - 1) if number else path.unlink()
            lab.collection(job.namespace.collection).update_one({"_id": 3}, {"$set": {"v": 1}})
            both.wait()

    reads.after = after
    with lab.running() as engine:
        run = engine.engine.run_state
        request = engine.wait(engine.execute_snapshot(*map(lab.name, names)), SECONDS)
        assert not request.failed
        assert run is engine.engine.run_state, "no restart was needed"
        engine.catch_up(SECONDS)
    assert len(reads.jobs) == 4
    lab.assert_equal(*names)


def _targets(job: Any) -> list[Any]:
    return [part.target for part in job.ranges]


@pytest.mark.thorough
def test_a_python_process_of_spark_that_starts_too_late_is_started_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark gives a source's process ten seconds to call back; on a machine that is short of time it does not. The
    engine begins again, within ``errors.max.retries``, and nothing is missing."""
    lab.with_options(
        "cluster_time",
        snapshot__mode="initial",
        errors__max__retries=1,
        retriable__restart__connector__wait__ms=1,
    )
    lab.collection("orders").insert_many([{"_id": n} for n in range(5)])
    late, interpreter = tmp_path / "late", tmp_path / "python"
    interpreter.write_text(
        f'#!/bin/sh\ncase "$*" in *streaming_source*) [ -e {late} ] || {{ touch {late}; exit 1; }} ;; esac\n'
        f'exec {sys.executable} "$@"\n',
        encoding="utf-8",
    )
    interpreter.chmod(0o755)
    monkeypatch.setattr(lab.spark.sparkContext, "pythonExec", str(interpreter))
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
    assert late.exists()
    lab.assert_equal("orders")

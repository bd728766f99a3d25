"""What Debezium's tests of incremental snapshots ask of a backfill, on real parts (docs/peer-tests.md): ids of each
kind, writes beside it, filters, other shapes of documents, chunks that are emptied under it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

import bson
import pytest
from bson import Binary, Decimal128, Int64, ObjectId

from snapshotter.core.values.chunks import KeyRange
from snapshotter.core.values.tasks import TaskState
from snapshotter.reading.catalogue import RequestRefused
from snapshotter.reading.chunk_reader import ReadJob
from snapshotter.reading.range_find import bound_of
from tests.support.engines import SECONDS, Gate, Lab, Reads, lab, limits, reads, task_of

__all__ = ["lab", "reads"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # every backfill waits for batches
KINDS: dict[str, Callable[[int], Any]] = {
    "int32": lambda n: n,
    "int64": lambda n: Int64(2**40 + n),
    "double": lambda n: n + 0.5,
    "decimal128": lambda n: Decimal128(f"{n}.25"),
    "object_id": lambda n: ObjectId(f"{n:024x}"),
    "uuid": lambda n: Binary.from_uuid(UUID(int=n)),
    "string": lambda n: f"id {n}",
    "date": lambda n: datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=n),
}


@pytest.mark.thorough
def test_ids_of_each_kind_fill_a_collection(lab: Lab) -> None:
    """Collections of forty documents, each with ids of one BSON type, by one signal: every document comes once, with
    its values, in chunks of ten."""
    lab.with_options(snapshot__mode="no_data")
    lab.tune = limits(chunk_docs=10, windows=4, commit_rows_target=1_000)
    for kind, make in KINDS.items():
        lab.collection(kind).insert_many([{"_id": make(n), "n": n} for n in range(40)])
    with lab.running() as engine:
        lab.signal("execute-snapshot", "ids", data__collections=[rf"{lab.database}\..*"])
        tasks = engine.wait("ids", SECONDS).tasks
    assert {t.namespace.collection: (t.rows, t.chunks, t.error) for t in tasks} == dict.fromkeys(
        KINDS, (40, 4, None)
    )
    lab.assert_equal(*KINDS)


@pytest.mark.parametrize(
    "chunk",
    [pytest.param(10, marks=pytest.mark.thorough, id="small chunks"), pytest.param(40, id="one chunk")],
)
def test_a_backfill_beside_writes_over_a_restart(lab: Lab, reads: Reads, chunk: int) -> None:
    """Around each read every document is updated, and some are inserted below and above all others; the engine is
    stopped with a chunk in flight and started again. Nothing is missing, and no row is older than its document."""
    lab.with_options(snapshot__mode="no_data")
    lab.tune = limits(chunk, 2, commit_rows_target=1_000)
    orders, more = lab.collection("orders"), count(1)
    orders.insert_many([{"_id": n, "v": 0} for n in range(40)])
    gate = Gate(lambda number, job: number == 0)  # two windows at most, of four

    def write(number: int, job: ReadJob, *read: object) -> None:
        gate(number, job)
        orders.update_many({}, {"$inc": {"v": 1}})
        n = next(more)
        orders.insert_many([{"_id": -n, "v": 0}, {"_id": 1_000 + n, "v": 0}])

    reads.before = reads.after = write
    with lab.running() as engine:
        engine.execute_snapshot(lab.name("orders"), request_id="q")
        gate.stop_here(engine)
        left = task_of(engine, "q")
        assert left.state is (TaskState.RUNNING if chunk == 10 else TaskState.DONE)
    with lab.running() as engine:
        task = engine.wait("q", SECONDS).tasks[0]
        engine.catch_up(SECONDS)
    assert (task.state, task.error) == (TaskState.DONE, None)
    assert task.superseded > 0, "updates superseded nothing"
    assert len(set(reads.targets())) == len(reads.targets()), "a chunk was read twice"
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")


def test_filters_by_signal(lab: Lab) -> None:
    """One that is no query is refused and holds up nothing; one that compares reads what it matches, in all chunks, and
    one for a single document reads that."""
    lab.with_options(snapshot__mode="no_data")
    lab.tune = limits(chunk_docs=10, windows=4, commit_rows_target=1_000)
    for name in ("orders", "people"):
        lab.collection(name).insert_many([{"_id": n, "aa": 59 - n} for n in range(60)])

    def asked(collection: str, query: str) -> dict[str, object]:
        name = lab.name(collection)
        return {
            "data__collections": [name],
            "additional__conditions": [{"data-collection": name, "filter": query}],
        }

    with lab.running() as engine:
        lab.signal("execute-snapshot", "bad", **asked("orders", "{aa: {$lt: 25"))
        lab.signal("execute-snapshot", "below", **asked("orders", "{aa: {$lt: 25}}"))
        lab.signal("execute-snapshot", "one", **asked("people", '{"aa": 7}'))
        below, one = (engine.wait(name, SECONDS).tasks[0] for name in ("below", "one"))
        assert (below.rows, below.chunks) == (25, 3)
        assert (one.rows, one.chunks) == (1, 1)
        assert dict(engine.engine.signal_outcomes.refused).keys() == {"bad"}
    assert sorted(row["aa"] for row in lab.rows("orders")) == list(range(25))
    assert [row["_id"] for row in lab.rows("people")] == [52]


@pytest.mark.thorough
def test_documents_of_another_shape(lab: Lab, reads: Reads) -> None:
    """The table has its columns already. Fields that come, change their type, or go, just before the signal and between
    two chunks, are all there in the end, whether they were read or streamed."""
    lab.with_options(snapshot__mode="initial")
    lab.tune = limits(chunk_docs=5, windows=4, commit_rows_target=1_000)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": n, "name": "x"} for n in range(12)])

    def change(number: int, *read: object) -> None:
        orders.update_many({"_id": {"$mod": [3, 0]}}, {"$set": {f"new_{number % 2}": {"at": number}}})
        orders.update_many({"_id": {"$mod": [4, 1]}}, {"$set": {"v": f"text {number}"}})
        orders.update_many({"_id": {"$mod": [4, 2]}}, {"$unset": {"name": ""}})

    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        orders.insert_many([{"_id": 100 + n, "v": [n], "street": {"no": n}} for n in range(3)])
        reads.before = reads.after = change
        task = engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS).tasks[0]
        assert (task.error, task.chunks) == (None, 3)
        engine.catch_up(SECONDS)
    lab.assert_equal("orders")


def test_a_chunk_that_is_emptied_is_no_end(lab: Lab, reads: Reads) -> None:
    """All documents of a chunk go between its plan and its read, those of another one after its read: what lies behind
    them is read all the same, and nothing comes back."""
    lab.with_options(snapshot__mode="no_data")
    lab.tune = limits(chunk_docs=3, windows=4, commit_rows_target=1_000)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n} for n in range(12)])

    def behind(job: ReadJob, number: int) -> bool:
        """Whether the chunk begins behind this id."""
        after = bound_of(bson.encode({"_id": number}))
        return any(isinstance(part.target, KeyRange) and part.target.after == after for part in job.ranges)

    def before(number: int, job: ReadJob) -> None:
        if behind(job, 2):
            assert orders.delete_many({"_id": {"$in": [3, 4, 5]}}).deleted_count == 3

    def after(number: int, job: ReadJob, buffer: object) -> None:
        if behind(job, 5):
            assert orders.delete_many({"_id": {"$in": [6, 7, 8]}}).deleted_count == 3

    reads.before, reads.after = before, after
    with lab.running() as engine:
        task = engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS).tasks[0]
        assert (task.state, task.chunks) == (TaskState.DONE, 4)
        assert (task.rows, task.superseded) == (6, 3)
        engine.catch_up(SECONDS)
    assert sorted(row["_id"] for row in lab.rows("orders")) == [0, 1, 2, 9, 10, 11]
    lab.assert_equal("orders")


@pytest.mark.thorough
def test_many_chunks_share_their_connections(lab: Lab, reads: Reads) -> None:
    """Sixty chunks of one document under ``insert_delete``, all of them written to meanwhile: the rows are the
    newest, and far fewer connections are made than chunks are read."""
    lab.with_options("insert_delete", snapshot__mode="no_data")
    lab.tune = limits(chunk_docs=1, windows=20, commit_rows_target=1_000)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0} for n in range(60)])
    made: list[int] = []

    def write(number: int, *read: object) -> None:
        orders.update_many({}, {"$inc": {"v": 1}})
        made.append(lab.client.admin.command("serverStatus")["connections"]["totalCreated"])

    reads.before = reads.after = write
    with lab.running() as engine:
        task = engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS).tasks[0]
        assert (task.error, task.chunks) == (None, 60)
        engine.catch_up(SECONDS)
        engine.until("a clean signal collection", lambda: lab.signals.count_documents({}) == 0, SECONDS)
    assert made[-1] - made[0] < 15, made
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")


def test_a_collection_that_is_captured_since_a_restart(lab: Lab) -> None:
    """Outside the include list it is neither streamed nor read. Once the list has it, a pattern that matches it reads
    it, though this engine has never seen a document of it; and it is streamed from there on."""
    lab.with_options(
        "cluster_time", snapshot__mode="initial", collection__include__list=rf"{lab.database}\.orders"
    )
    for name in ("orders", "people"):
        lab.collection(name).insert_many([{"_id": n} for n in range(5)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        lab.collection("people").insert_one({"_id": "before"})
        with pytest.raises(RequestRefused, match="is no captured collection"):
            engine.execute_snapshot(lab.name("people"))
        engine.catch_up(SECONDS)
    assert not lab.table("people").exists()
    lab.options["collection.include.list"] = rf"{lab.database}\.orders,{lab.database}\.people"
    with lab.running() as engine:
        request = engine.wait(engine.execute_snapshot(rf"{lab.database}\.peo.*"), SECONDS)
        assert [(t.namespace.collection, t.rows) for t in request.tasks] == [("people", 6)]
        lab.collection("people").insert_one({"_id": "after"})
        engine.catch_up(SECONDS)
    lab.assert_equal("orders", "people")

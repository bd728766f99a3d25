"""An engine that is killed, again and again, while everything is written to: no row is lost, doubled or stale.

The moments are random (see the seed) and of every kind: before its first batch, in the middle of a batch, right after
a table's commit, right after its progress was saved. With post-images every version of a table is judged, too.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pymongo import MongoClient
from pymongo.collection import Collection
from pyspark.sql import SparkSession

from snapshotter.core.values.watermark_ids import Strategy
from snapshotter.testing.processes import wait_until
from streaming.mongo.deployment import majority_time
from streaming.positions import ClusterTime
from tests.support.engine_process import EngineProcess
from tests.support.equality import differences
from tests.support.history import Change, changes_since, judge, never_back, table_state, table_versions
from tests.support.kills import moments
from tests.support.workload import Workload, WorkloadPlan, document, load

CHUNK = 150
ONE_KILLS_CHUNK = 300
IN_THE_FIRST_LOAD = 2  # of seven; where there is but one, it is in a backfill of tables that are loaded
KILLS = ("start", "commits", "commits", "commits", "progress", "offsets", "offsets")
ONE_KILL = ("commits",)
FILES = 0.7  # how often READs are written to files, as against held as rows


def options(
    uri: str, database: str, strategy: Strategy, chunk: int = CHUNK, *, files: bool = True
) -> dict[str, str]:
    """``files``: READs are written to files when they are read."""
    found = {
        "engine.read.files.min.documents": "0" if files else "10000",
        "name": f"killed-{strategy}".replace("_", "-"),
        "mongodb.connection.string": uri,
        "database.include.list": database,
        "incremental.snapshot.watermarking.strategy": strategy.value,
        "incremental.snapshot.chunk.size": str(chunk),
        # Two windows a commit: a backfill takes several batches, and there is time to be killed in.
        "engine.commit.target.rows": str(2 * chunk),
    }
    return {**found, "signal.data.collection": f"{database}.signals"} if strategy.in_stream else found


def between_commit_and_save(engine: EngineProcess, plan: WorkloadPlan) -> bool:
    """Whether some table has committed a batch of which no progress is saved."""
    paths = [engine.table(plan.database, name) for name in plan.collections]
    tables = [DeltaTable(str(path)) for path in paths if DeltaTable.is_deltatable(str(path))]
    newest = max((table.transaction_version(engine.app_id()) or -1 for table in tables), default=-1)
    return newest > max(engine.batches(), default=-1)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kills", "drawn"),
    [
        pytest.param(ONE_KILL, None, marks=pytest.mark.proof, id="one kill"),
        *(pytest.param(KILLS, strategy, id=f"seven kills-{strategy}") for strategy in Strategy),
    ],
)
def test_killed_engine_loses_and_doubles_nothing(
    kills: Sequence[str],
    drawn: Strategy | None,
    mongo_uri: str,
    database: str,
    mongo_client: MongoClient[dict[str, Any]],
    tmp_path: Path,
    rng: random.Random,
    spark: SparkSession,
) -> None:
    """Killed again and again in backfills under writes, the first of which is the initial load: in the end tables equal
    collections, to the last field. Each version of a table that is loaded is the collection at its position, so none
    shows half a transaction; and no document ever goes back to what it was in an earlier one. Under one strategy tables
    get columns meanwhile. One kill is under any of the strategies."""
    strategy = drawn or rng.choice(list(Strategy))
    print(f"strategy {strategy}")
    grows = strategy is Strategy.CLUSTER_TIME
    plan = WorkloadPlan(mongo_uri, database, rng.getrandbits(32), documents=600, rate=40, settled=not grows)
    for name in plan.collections:
        mongo_client[database].create_collection(name, changeStreamPreAndPostImages={"enabled": True})
    load(plan)
    before = majority_time(mongo_client)
    images = {"capture.mode.full.update.type": "post_image", "collection.exclude.list": ".*history.end"}
    chunk = CHUNK if len(kills) > 1 else ONE_KILLS_CHUNK
    given = options(mongo_uri, database, strategy, chunk, files=rng.random() < FILES)
    engine = EngineProcess(tmp_path, {**given, **images})
    between = partial(between_commit_and_save, engine, plan)
    loaded, in_between = None, 0
    with Workload(plan) as workload:
        for number, moment in enumerate(moments(rng, kills), 1):
            engine.start()
            if number > min(IN_THE_FIRST_LOAD, len(kills) - 1) and loaded is None:
                loaded = engine.until("the initial load", lambda: loaded_at(engine))
            ask_if_idle(engine, plan)
            moment.wait(engine)
            if moment.kind == "commits":
                engine.stop_where("a commit whose batch is not saved", between)
            engine.kill(alone=moment.alone)
            gap = engine.batches() != [] and between()
            in_between += gap
            print(f"kill {number}: {moment}, batch {max(engine.batches(), default=-1)}, in between: {gap}")
        workload.stop()
    if grows:
        bring_a_new_field(mongo_client, plan)
    print(f"{workload.written} documents written, {in_between} kills between a commit and the save after it")
    assert in_between, "no kill hit between a table's commit and the save of progress"
    assert engine.start("--once").wait() == 0
    progress = engine.progress()
    assert progress is not None
    states = {(r["id"], t["namespace"], t["state"]) for r in progress["requests"] for t in r["tasks"]}
    assert states
    assert {state for _, _, state in states} == {"done"}, states
    assert differences(spark, engine.settings, plan.database, plan.collections) == []
    assert loaded is not None
    for name in plan.collections:
        changes = changes_since(mongo_client, mongo_client[database][name], before)
        judge_all(engine.table(database, name), loaded, changes, plan.documents)
    grown = sum(alterations(engine.table(database, name)) for name in plan.collections)
    print(f"tables were altered {grown} times")
    assert bool(grown) == grows


def judge_all(path: Path, loaded: ClusterTime, changes: list[Change], documents: int) -> None:
    """Every version of a table, and those behind its load to the full."""
    versions = table_versions(path)
    never_back([table_state(path, version.version) for version in versions])
    complete = [version for version in versions if version.position > loaded]
    print(f"{path.name}: {len(changes)} changes, {len(complete)} versions since the initial load")
    judge(path, complete, changes, documents)


def bring_a_new_field(client: MongoClient[dict[str, Any]], plan: WorkloadPlan) -> None:
    """One document more in each collection, with a field that none had: a table that has been made must grow. What the
    workload brings may all have been there when the table was made."""
    k = 20_000  # far above what the workload gets to
    for name in plan.collections:
        client[plan.database][name].insert_one(document(k, {"k": k, "v": 1, "tx": None, "came_last": True}))


def alterations(path: Path) -> int:
    """How often a table got columns after it had been made."""
    history = DeltaTable(str(path)).history()
    return sum(commit["operation"] == "ADD COLUMNS" for commit in history)


def loaded_at(engine: EngineProcess) -> ClusterTime | None:
    """Where the stream was when the initial load had ended, as far as is saved."""
    progress = engine.progress()
    return ClusterTime.from_json(progress["position"]) if progress and ended(engine, "initial") else None


def ask_if_idle(engine: EngineProcess, plan: WorkloadPlan) -> None:
    """Have both collections read again, unless that is still under way."""
    progress = engine.progress()
    if progress is None:
        return  # the initial load is to come
    states = [t["state"] for r in progress["requests"] for t in r["tasks"]]
    if all(state == "done" for state in states):
        engine.execute_snapshot(*(f"{plan.database}.{name}" for name in plan.collections))


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.proof
def test_sigterm_ends_cleanly_and_nothing_is_read_twice(
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, Any]],
    database: str,
    tmp_path: Path,
    rng: random.Random,
    spark: SparkSession,
) -> None:
    """Stopped twice in the middle of a backfill: exit code 0. What is in flight lands within seconds, or is read again,
    and nothing else is. Its watermarks are gone by the next batch at the latest."""
    plan = WorkloadPlan(mongo_uri, database, rng.getrandbits(32), documents=3_000, rate=40, settled=True)
    load(plan)
    strategy = Strategy.INSERT_INSERT
    # 64 windows are in flight at most.
    chunk, in_flight, cut_short = 30, 64, 0
    more = {
        "snapshot.mode": "no_data",
        "incremental.snapshot.chunk.size": str(chunk),
        "engine.commit.target.rows": "1000",
    }
    engine = EngineProcess(tmp_path, {**options(mongo_uri, database, strategy), **more})
    signals = mongo_client[database]["signals"]
    with Workload(plan) as workload, chunk_reads(mongo_client, plan) as reads:
        engine.start()
        request = engine.execute_snapshot(*(f"{database}.{name}" for name in plan.collections))
        done = 0
        for _ in range(2):
            engine.until("more chunks", lambda n=done: chunks_of(engine, request) > n)  # type: ignore[misc]
            assert engine.terminate() == 0
            done = chunks_of(engine, request)  # with those that were in flight: they close first
            print(f"stopped after {done} chunks")
            assert done < 2 * plan.documents // chunk, "the backfill was over before the engine was stopped"
            left, at_once = runs_in(signals), "the next start repeats" in engine.log.read_text()
            print(f"at once: {at_once}, {left.total()} watermarks are left")
            assert left.total() <= (2 * in_flight if at_once else 0)
            last = engine.status()
            assert last is not None
            cut_short += bool(last.windows)
            engine.start()
            engine.until("a clean collection", lambda n=left: not n.keys() & runs_in(signals).keys())  # type: ignore[misc]
        engine.until("the backfill's end", lambda: ended(engine, request))
        workload.stop()
        found = reads()
    assert engine.terminate() == 0
    again = len(found) - len(set(found))
    assert again <= in_flight * cut_short, "a chunk was read twice"
    assert cut_short or len(found) == chunks_of(engine, request)
    assert engine.start("--once").wait() == 0
    assert differences(spark, engine.settings, plan.database, plan.collections) == []


@pytest.mark.slow
@pytest.mark.thorough
def test_a_killed_blocking_snapshot_goes_on(
    mongo_uri: str, database: str, tmp_path: Path, rng: random.Random, spark: SparkSession
) -> None:
    """Killed twice while the stream waits for it, without its JVM and with it: it goes on where it was, what was
    written meanwhile lands behind it, and nothing else is read: no initial load begins, though the mode has one."""
    plan = WorkloadPlan(mongo_uri, database, rng.getrandbits(32), documents=1_500, rate=20, settled=True)
    load(plan)
    more = {
        "snapshot.mode": "initial",
        "incremental.snapshot.chunk.size": "50",
        "engine.commit.target.rows": "200",
    }
    engine = EngineProcess(tmp_path, {**options(mongo_uri, database, Strategy.INSERT_INSERT), **more})
    with Workload(plan) as workload:
        engine.start()
        engine.until("the initial load", lambda: ended(engine, "initial"))
        names = [f"{database}.{name}" for name in plan.collections]
        request = engine.execute_snapshot(*names, kind="blocking")
        done = 0
        for alone in (True, False):
            engine.until("more chunks", lambda n=done: chunks_of(engine, request) > n)  # type: ignore[misc]
            engine.kill(alone=alone)
            done = chunks_of(engine, request)
            print(f"killed after {done} chunks")
            assert not ended(engine, request), "the snapshot was over before the engine was killed"
            engine.start()
        engine.until("the snapshot's end", lambda: ended(engine, request))
        workload.stop()
    assert engine.terminate() == 0
    assert engine.start("--once").wait() == 0
    progress = engine.progress()
    assert progress is not None
    assert {r["id"] for r in progress["requests"]} == {"initial", request}
    assert differences(spark, engine.settings, plan.database, plan.collections) == []


def runs_in(signals: Collection[dict[str, Any]]) -> Counter[str]:
    """The runs of which there are watermarks, and how many."""
    ids = [str(document["_id"]) for document in signals.find({}, {"_id": 1})]
    return Counter(i.split("/")[-2] for i in ids if re.search("-(open|close)$", i))


def chunks_of(engine: EngineProcess, request_id: str) -> int:
    progress = engine.progress() or {"requests": []}
    return sum(t["chunks"] for r in progress["requests"] if r["id"] == request_id for t in r["tasks"])


def ended(engine: EngineProcess, request_id: str) -> bool:
    progress = engine.progress() or {"requests": []}
    return any(
        all(t["state"] == "done" for t in r["tasks"]) for r in progress["requests"] if r["id"] == request_id
    )


@contextmanager
def chunk_reads(client: MongoClient[dict[str, Any]], plan: WorkloadPlan) -> Iterator[Any]:
    """The server's own record of the reads of chunks: what ``reads()`` gives is one text for each, its range."""
    database = client[plan.database]
    database.create_collection("system.profile", capped=True, size=64 << 20)
    # A chunk is read whole; probes for bounds ask for ids only, and reads of single ids name them.
    is_chunk = {
        "op": "query",
        "command.find": {"$in": list(plan.collections)},
        "command.limit": {"$exists": False},
        "command.projection": {"$exists": False},
    }
    database.command("profile", 2, filter=is_chunk)
    try:
        yield lambda: [
            f"{entry['command']['find']} {entry['command'].get('filter')}"
            for entry in database["system.profile"].find(is_chunk)
            if "$in" not in str(entry["command"].get("filter"))
        ]
    finally:
        database.command("profile", 0, filter="unset")
        wait_until(lambda: database.command("profile", -1)["was"] == 0, "the profiler to be off")

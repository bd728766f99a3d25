"""Round after round something goes wrong with the replica set, the network, or the engine's process: nothing is lost,
nothing doubled, nothing goes back.

The moments and their order are random (see the seed); each kind of mishap comes equally often, while changes stream
alone and while collections are backfilled.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from snapshotter.core.values.watermark_ids import Strategy
from snapshotter.testing.kafka import KafkaBroker, start_kafka
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from snapshotter.testing.processes import wait_until
from streaming.mongo.deployment import majority_time
from streaming.positions import ClusterTime
from tests.support.engine_process import EngineProcess
from tests.support.equality import differences
from tests.support.history import Change, changes_since, judge, never_back, table_state, table_versions
from tests.support.kafka_records import consumed, records_of
from tests.support.network import Network, network_of
from tests.support.topic_history import judge_topic
from tests.support.workload import Workload, WorkloadPlan, load

ELECTION_MS = 3_000
_LONG_SECONDS = 5_400


@dataclass(slots=True)
class Around:
    """What mishaps happen to."""

    deployment: MongoDeployment
    network: Network
    engine: EngineProcess
    rng: random.Random
    kafka: KafkaBroker | None

    def passes(self, least: float, most: float) -> None:
        """Time passes: some seconds between these two."""
        threading.Event().wait(self.rng.uniform(least, most))

    def step_down(self) -> None:
        self.deployment.step_down(seconds=5)

    def kill_primary(self) -> None:
        node = self.network.of(self.deployment.primary_address()).node
        self.deployment.kill(node)
        self.deployment.primary_address()
        self.deployment.restart(node)

    def freeze_primary(self) -> None:
        """Until another one is elected; then it is there again, and has to learn of that."""
        old = self.deployment.primary_address()
        node = self.network.of(old).node
        self.deployment.freeze(node)
        try:
            wait_until(lambda: self.deployment.primary_address() != old, "another primary")
        finally:
            self.deployment.thaw(node)

    def cut(self) -> None:
        """Shorter than an election takes, or longer."""
        self.network.cut()
        self.passes(0.5, 2 * ELECTION_MS / 1_000)
        self.network.mend()

    def slow(self) -> None:
        self.network.slow(0.02)
        self.passes(3, 6)
        self.network.slow(0)

    def stop_process(self) -> None:
        """The engine, its JVM and its workers are stopped, and continued."""
        with self.engine.stopped():
            self.passes(2, 8)

    def kill_broker(self) -> None:
        assert self.kafka is not None
        self.kafka.kill()
        self.passes(0.5, 4)
        self.kafka.start()


MISHAPS: Mapping[str, Callable[[Around], None]] = {
    "step-down": Around.step_down,
    "primary killed": Around.kill_primary,
    "primary frozen": Around.freeze_primary,
    "network cut": Around.cut,
    "network slow": Around.slow,
    "process stopped": Around.stop_process,
}
TOPIC_MISHAPS = {"broker killed": Around.kill_broker}


@pytest.fixture
def replica_set() -> Iterator[MongoDeployment]:
    with start_mongodb(nodes=3, set_parameters={"periodicNoopIntervalSecs": 1}) as deployment:
        yield deployment


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("rounds", "tells"),
    [
        pytest.param(2, None, marks=pytest.mark.proof, id="2"),
        pytest.param(30, False, marks=pytest.mark.timeout(_LONG_SECONDS), id="30"),
        pytest.param(30, True, marks=pytest.mark.timeout(_LONG_SECONDS), id="30-topics"),
    ],
)
def test_round_after_round_tables_are_what_collections_were(
    rounds: int,
    tells: bool | None,
    replica_set: MongoDeployment,
    tmp_path: Path,
    rng: random.Random,
    spark: SparkSession,
) -> None:
    """The engine goes on by itself each time. In the end tables equal collections, no version shows half a transaction
    or an older state of a document, and between backfills each is the collection at its position. Where there are
    topics, they tell each change once and in order, but for stretches that come again whole, and amount to the same.
    ``tells``: whether there are; None leaves it to the seed."""
    tells = rng.choice([False, True]) if tells is None else tells
    strategy = rng.choice(list(Strategy))
    with network_of(replica_set, ELECTION_MS) as network, ExitStack() as stack:
        kafka = stack.enter_context(start_kafka()) if tells else None
        plan = WorkloadPlan(network.uri, "rounds", rng.getrandbits(32), documents=300, rate=40, settled=True)
        client = replica_set.client()
        for name in plan.collections:
            client["rounds"].create_collection(name, changeStreamPreAndPostImages={"enabled": True})
        load(plan)
        before = majority_time(client)
        engine = EngineProcess(tmp_path, options(network.uri, strategy, rng) | topics(kafka, plan))
        around = Around(replica_set, network, engine, rng, kafka)
        with Workload(plan) as workload:
            engine.start()
            loaded = engine.until("the initial load", lambda: ended(engine, "initial"))
            for number, kind in enumerate(kinds(rounds, rng, MISHAPS | (TOPIC_MISHAPS if tells else {})), 1):
                mishap(around, plan, kind, backfilling=number % 2 == 1, number=number)
            print(f"{workload.stop()} documents written")
        assert engine.terminate() == 0
        assert engine.start("--once").wait() == 0
        assert differences(spark, engine.settings, plan.database, plan.collections) == []
        for name in plan.collections:
            changes = changes_since(client, client["rounds"][name], before)
            judge_table(engine, plan, name, changes, loaded)
            if kafka is not None:
                held = {d["k"]: d["v"] for d in client["rounds"][name].find({}, {"_id": 0, "k": 1, "v": 1})}
                messages = consumed(kafka, topic(name), records_of(kafka, topic(name)))
                told = [(message.key(), message.value()) for message in messages]
                reads = judge_topic(told, changes, held, loaded)
                print(f"{name}: {len(told)} records, {reads} different READs among them")


def judge_table(
    engine: EngineProcess, plan: WorkloadPlan, name: str, changes: Sequence[Change], loaded: ClusterTime
) -> None:
    """Every version since the initial load, and no document that goes back in any."""
    path = engine.table("rounds", name)
    versions = table_versions(path)
    never_back([table_state(path, version.version) for version in versions])
    complete = [version for version in versions if version.position > loaded]
    print(f"{name}: {len(changes)} changes, {len(complete)} versions since the initial load")
    judge(path, complete, changes, plan.documents)


def kinds(rounds: int, rng: random.Random, mishaps: Mapping[str, object]) -> list[str]:
    """What goes wrong in each round: each kind equally often, or two of them."""
    names = list(mishaps)
    found = [names[n % len(names)] for n in range(rounds)] if rounds > 2 else rng.sample(names, rounds)
    rng.shuffle(found)
    return found


def mishap(around: Around, plan: WorkloadPlan, kind: str, *, backfilling: bool, number: int) -> None:
    """One round: something goes wrong, in a backfill or beside none, and the engine gets over it."""
    engine, client = around.engine, around.deployment.client()
    request = (
        engine.execute_snapshot(*(f"rounds.{name}" for name in plan.collections)) if backfilling else None
    )
    if request is not None:
        engine.until("the backfill", lambda: engine.request(request))
    around.passes(0, 2)
    (MISHAPS | TOPIC_MISHAPS)[kind](around)
    around.deployment.primary_address()
    since = majority_time(client)
    if request is not None:
        engine.until("the backfill to end", lambda: ended(engine, request))
    reached = engine.until("the stream to go on", lambda: position_behind(engine, since))
    print(f"round {number}: {kind}, backfilling: {backfilling}, then at {reached}")


def ended(engine: EngineProcess, request_id: str) -> ClusterTime | None:
    """The position that is saved with the end of a request, which has not failed."""
    progress = engine.progress()
    found = [r for r in progress["requests"] if r["id"] == request_id] if progress else []
    states = {t["state"] for r in found for t in r["tasks"]}
    assert "failed" not in states, found
    return ClusterTime.from_json(progress["position"]) if progress and states == {"done"} else None


def position_behind(engine: EngineProcess, time: ClusterTime) -> ClusterTime | None:
    progress = engine.progress()
    position = ClusterTime.from_json(progress["position"]) if progress else None
    return position if position is not None and position > time else None


def options(uri: str, strategy: Strategy, rng: random.Random) -> dict[str, str]:
    """READs are written to files, or are held as rows."""
    found = {
        "name": "rounds",
        "mongodb.connection.string": uri,
        "database.include.list": "rounds",
        "collection.exclude.list": ".*history.end",
        "capture.mode.full.update.type": "post_image",
        "incremental.snapshot.watermarking.strategy": strategy.value,
        "incremental.snapshot.chunk.size": "50",
        "engine.commit.target.rows": "100",
        "engine.read.files.min.documents": rng.choice(["0", "10000"]),
        "retriable.restart.connector.wait.ms": "500",
    }
    return {**found, "signal.data.collection": "rounds.signals"} if strategy.in_stream else found


def topics(kafka: KafkaBroker | None, plan: WorkloadPlan) -> dict[str, str]:
    """The options for topics at this broker, where they are made; none without a broker."""
    if kafka is None:
        return {}
    for name in plan.collections:
        kafka.create_topic(topic(name))
    return {
        "engine.topics.enabled": "true",
        "engine.topics.bootstrap.servers": kafka.bootstrap,
        "topic.prefix": "shop",
    }


def topic(collection: str) -> str:
    return f"shop.rounds.{collection}"

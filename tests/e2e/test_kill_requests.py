"""An engine that is killed, again and again, while operators ask, pause, resume, stop and ask again: nothing that was
asked for is lost or done twice, and nothing is said to be completed that is not.

Moments and commands are random (see the seed). Signals come by the signal collection, by a file and by a real Kafka
broker, some by all three.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient, WriteConcern
from pyspark.sql import SparkSession

from snapshotter.testing.kafka import KafkaBroker
from tests.support.engine_process import EngineProcess
from tests.support.equality import differences
from tests.support.kills import moments
from tests.support.workload import Workload, WorkloadPlan, load

STILL, STILL_DOCUMENTS = "still", 40
KILLS = ("start", "commits", "commits", "progress", "progress", "offsets", "offsets", "offsets")
ONE_KILL = ("commits",)
KINDS = {"ask": 5, "again": 3, "pause": 2, "resume": 2, "stop": 1}
"""What operators do, and how often."""
CHANNELS = ("collection", "file", "kafka")
ONE_LIFE = (("ask", "pause", "again", "ask", "stop"),)
PREFIX = "asked-and-killed"


@dataclass(slots=True)
class Operators:
    """Send signals as chance has it, and know what may have become of them. ``asked``: of each request its signal;
    ``stoppable``: requests that a stop named; ``stopped_all``: one named none, so that any may have been met."""

    client: MongoClient[dict[str, Any]]
    database: str
    file: Path
    broker: KafkaBroker
    topic: str
    chance: random.Random
    collections: tuple[str, ...]
    asked: dict[str, dict[str, Any]] = field(default_factory=dict)
    stoppable: set[str] = field(default_factory=set)
    stopped_all: bool = False
    sent: int = 0

    def act(self, kind: str | None = None, ways: Sequence[str] = ()) -> str:
        """One signal, by these channels, else by one or all; says which."""
        kind = (kind or self.chance.choices(list(KINDS), list(KINDS.values()))[0]) if self.asked else "ask"
        self.sent += 1
        match kind:
            case "ask":
                signal = self._request(f"q{self.sent}")
                self.asked[signal["id"]] = signal
            case "again":
                signal = self.chance.choice(list(self.asked.values()))
            case _:
                some = self.chance.random() < 0.6
                named = self.chance.sample(sorted(self.asked), k=min(2, len(self.asked))) if some else []
                if kind == "stop":
                    # What has been asked for by the time it is read nobody knows: channels have no common order.
                    self.stoppable |= set(named)
                    self.stopped_all = self.stopped_all or not named
                signal = self._signal(
                    f"c{self.sent}", f"{kind}-snapshot", {"requests": named} if named else {}
                )
        # The last way counts twice: what comes more than once is what is easily done more than once.
        ways = ways or self.chance.choice((*((c,) for c in CHANNELS), CHANNELS, CHANNELS))
        self.send(signal, ways)
        return f"{kind} {signal['id']} by {' and '.join(ways)}"

    def resume(self) -> None:
        """Whatever is paused goes on; behind what else was sent by each channel."""
        for channel in CHANNELS:
            self.send(self._signal(f"go-on-by-{channel}", "resume-snapshot", {}), (channel,))

    def channels_are_read(self) -> bool:
        return all(self.state_of(f"go-on-by-{channel}") == "completed" for channel in CHANNELS)

    def state_of(self, name: str) -> str | None:
        found = self.client[self.database]["signals_status"].find_one({"id": name}) or {}
        return found.get("state")

    def ask_for_all(self) -> None:
        """All is read once more. Nothing that was sent before is still on its way, and could stop it."""
        names = [f"{self.database}.{name}" for name in self.collections]
        self.asked["the-end"] = self._signal("the-end", "execute-snapshot", {"data-collections": names})
        self.send(self.asked["the-end"], ("collection",))

    def send(self, signal: dict[str, Any], channels: Sequence[str]) -> None:
        """In the collection under an ``_id`` of its own, so that one signal may come several times."""
        text = json.dumps(signal)
        if "collection" in channels:
            signals = self.client[self.database].get_collection(
                "signals", write_concern=WriteConcern("majority")
            )
            signals.insert_one(dict(signal))
        if "file" in channels:
            with self.file.open("a") as lines:
                lines.write(f"{text}\n")
        if "kafka" in channels:
            self.broker.send(self.topic, PREFIX, text.encode())

    def _request(self, name: str) -> dict[str, Any]:
        chosen = self.chance.sample(self.collections, k=self.chance.choice((1, 1, 2)))
        data: dict[str, Any] = {"data-collections": [f"{self.database}.{c}" for c in sorted(chosen)]}
        if self.chance.random() < 0.3:
            data["priority"] = self.chance.randrange(3)
        return self._signal(name, "execute-snapshot", data)

    @staticmethod
    def _signal(name: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        return {"id": name, "type": kind, "data": data}


def options(uri: str, operators: Operators) -> dict[str, str]:
    database = operators.database
    return {
        "name": PREFIX,
        "mongodb.connection.string": uri,
        "database.include.list": database,
        "signal.data.collection": f"{database}.signals",
        "signal.enabled.channels": "source,file,kafka",
        "signal.file": str(operators.file),
        "signal.kafka.bootstrap.servers": operators.broker.bootstrap,
        "signal.kafka.topic": operators.topic,
        "incremental.snapshot.chunk.size": "60",
        "engine.read.files.min.documents": "0",
        # Two windows a commit: a request takes several batches, and there is time to be killed in.
        "engine.commit.target.rows": "120",
    }


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kills", "signals"),
    [
        pytest.param(ONE_KILL, ONE_LIFE, id="one kill"),
        pytest.param(KILLS, ((None,) * 7,) * 8, id="eight kills"),
    ],
)
def test_killed_among_signals_nothing_is_lost_or_done_twice(
    kills: Sequence[str],
    signals: Sequence[Sequence[str | None]],
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, Any]],
    database: str,
    tmp_path: Path,
    rng: random.Random,
    spark: SparkSession,
    kafka: KafkaBroker,
    topic: str,
) -> None:
    """Each request ends once: as completed, or stopped where a stop was sent; in the end tables equal collections."""
    plan = WorkloadPlan(mongo_uri, database, rng.getrandbits(32), documents=200, rate=20, settled=True)
    load(plan)
    mongo_client[database][STILL].insert_many([{"_id": n} for n in range(STILL_DOCUMENTS)])
    names = (*plan.collections, STILL)
    operators = Operators(mongo_client, database, tmp_path / "signals.jsonl", kafka, topic, rng, names)
    engine = EngineProcess(tmp_path, options(mongo_uri, operators))
    with Workload(plan) as workload:
        for number, (moment, kinds) in enumerate(zip(moments(rng, kills), signals, strict=True), 1):
            engine.start()
            engine.until("a batch", lambda: engine.files_of_progress("progress") >= 0)
            for n, kind in enumerate(kinds[:-1]):
                print(operators.act(kind, CHANNELS if n == 0 else ()))  # each channel is used in each life
                if n % 3 == 0:
                    one_more_batch(engine)
            moment.wait(engine)
            engine.kill(alone=moment.alone)
            print(f"kill {number}: {moment}, batch {max(engine.batches(), default=-1)}")
            print(f"while it is gone: {operators.act(kinds[-1])}")
        workload.stop()
    operators.resume()
    engine.start()
    engine.until("every channel to be read", operators.channels_are_read)
    operators.ask_for_all()
    engine.until("the end", lambda: operators.state_of("the-end") == "completed")
    assert engine.terminate() == 0
    check(engine, operators)
    assert differences(spark, engine.settings, database, names) == []


def one_more_batch(engine: EngineProcess) -> None:
    goal = engine.files_of_progress("progress") + 1
    engine.until("one more batch", lambda: engine.files_of_progress("progress") >= goal)


def check(engine: EngineProcess, operators: Operators) -> None:
    """What is durable, what the status collection says, and what was told, of each request that was ever sent."""
    progress = engine.progress() or {"requests": []}
    ended = {r["id"]: {t["state"] for t in r["tasks"]} for r in progress["requests"]}
    assert set(ended) == {"initial", *operators.asked}, "requests were lost, or made up"
    stopped = {name for name, states in ended.items() if "stopped" in states}
    assert all(states <= {"done", "stopped"} for states in ended.values()), ended
    assert operators.stopped_all or stopped <= operators.stoppable
    assert "the-end" not in stopped
    statuses = {d["id"]: d for d in operators.client[operators.database]["signals_status"].find()}
    for name in ended:
        assert statuses[name]["state"] == ("stopped" if name in stopped else "completed"), statuses[name]
        for collection in statuses[name]["collections"]:
            if collection["name"].endswith(f".{STILL}") and collection["state"] == "completed":
                assert collection["rows"] + collection["dropped"] == STILL_DOCUMENTS, statuses[name]
    heard = dict(told(engine))
    assert any("COMPLETED" in kinds for kinds in heard.values())
    for name, kinds in heard.items():
        assert name not in stopped or kinds[-1] != "COMPLETED", (name, kinds)
        if "COMPLETED" in kinds:
            assert name in ended, (name, kinds)
            assert "STARTED" not in kinds[kinds.index("COMPLETED") :], (
                f"{name} was carried out twice: {kinds}"
            )
    print(f"{len(operators.asked)} requests, stopped: {sorted(stopped)}; {operators.sent} signals")


def told(engine: EngineProcess) -> Iterator[tuple[str, list[str]]]:
    """Of each request what was announced in all lives, in order: every announcement is a line of the log."""
    found: dict[str, list[str]] = {}
    for life in range(1, engine.starts + 1):
        text = (engine.folder / f"engine-{life}.log").read_text(errors="replace")
        for kind, name in re.findall(r" event=([A-Z_]+) id=(\S+)", text):
            found.setdefault(name, []).append(kind)
    yield from found.items()

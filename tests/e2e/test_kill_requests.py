"""An engine that is killed, again and again, while operators ask, pause, resume, stop and ask again: nothing that was
asked for is lost or done twice, and nothing is said to be completed that is not.

Moments and commands are random (see the seed). Signals come by the signal collection and by a file, some by both.
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

from tests.support.engine_process import EngineProcess
from tests.support.equality import differences
from tests.support.kills import moments
from tests.support.workload import Workload, WorkloadPlan, load

STILL, STILL_DOCUMENTS = "still", 40
KILLS = ("start", "commits", "commits", "progress", "progress", "offsets", "offsets", "offsets")
FEW_KILLS = ("progress", "offsets")
KINDS = {"ask": 5, "again": 3, "pause": 2, "resume": 2, "stop": 1}
"""What operators do, and how often."""
FEW_SIGNALS = (("ask", "ask", "pause", "again"), ("resume", "ask", "stop", "again"))


@dataclass(slots=True)
class Operators:
    """Send signals as chance has it, and know what may have become of them. ``asked``: of each request its signal;
    ``stoppable``: requests that a stop named; ``stopped_all``: one named none, so that any may have been met."""

    client: MongoClient[dict[str, Any]]
    database: str
    file: Path
    chance: random.Random
    collections: tuple[str, ...]
    asked: dict[str, dict[str, Any]] = field(default_factory=dict)
    stoppable: set[str] = field(default_factory=set)
    stopped_all: bool = False
    sent: int = 0

    def act(self, kind: str | None = None) -> str:
        """One signal, by one channel or both; says which."""
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
        channels = self.chance.choice(("collection", "file", "both"))
        self.send(signal, channels)
        return f"{kind} {signal['id']} by {channels}"

    def finish(self) -> None:
        """Whatever is paused goes on, in the order of each channel, and in the end all is read once more."""
        for channel in ("collection", "file"):
            self.send(self._signal(f"go-on-by-{channel}", "resume-snapshot", {}), channel)
        names = [f"{self.database}.{name}" for name in self.collections]
        self.asked["the-end"] = self._signal("the-end", "execute-snapshot", {"data-collections": names})
        self.send(self.asked["the-end"], "collection")

    def send(self, signal: dict[str, Any], channels: str) -> None:
        """In the collection under an ``_id`` of its own, so that one signal may come several times."""
        if channels != "file":
            signals = self.client[self.database].get_collection(
                "signals", write_concern=WriteConcern("majority")
            )
            signals.insert_one(dict(signal))
        if channels != "collection":
            with self.file.open("a") as lines:
                lines.write(json.dumps(signal) + "\n")

    def _request(self, name: str) -> dict[str, Any]:
        chosen = self.chance.sample(self.collections, k=self.chance.choice((1, 1, 2)))
        data: dict[str, Any] = {"data-collections": [f"{self.database}.{c}" for c in sorted(chosen)]}
        if self.chance.random() < 0.3:
            data["priority"] = self.chance.randrange(3)
        return self._signal(name, "execute-snapshot", data)

    @staticmethod
    def _signal(name: str, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        return {"id": name, "type": kind, "data": data}


def options(uri: str, database: str, file: Path) -> dict[str, str]:
    return {
        "name": "asked-and-killed",
        "mongodb.connection.string": uri,
        "database.include.list": database,
        "signal.data.collection": f"{database}.signals",
        "signal.enabled.channels": "source,file",
        "signal.file": str(file),
        "incremental.snapshot.chunk.size": "60",
        # Two windows a commit: a request takes several batches, and there is time to be killed in.
        "engine.commit.target.rows": "120",
    }


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kills", "signals"),
    [
        pytest.param(FEW_KILLS, FEW_SIGNALS, id="two kills"),
        pytest.param(KILLS, ((None,) * 7,) * 8, marks=pytest.mark.thorough, id="eight kills"),
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
) -> None:
    """Each request ends once: as completed, or stopped where a stop was sent; in the end tables equal collections."""
    plan = WorkloadPlan(mongo_uri, database, rng.getrandbits(32), documents=200, rate=20, settled=True)
    load(plan)
    mongo_client[database][STILL].insert_many([{"_id": n} for n in range(STILL_DOCUMENTS)])
    file = tmp_path / "signals.jsonl"
    names = (*plan.collections, STILL)
    operators = Operators(mongo_client, database, file, rng, names)
    engine = EngineProcess(tmp_path, options(mongo_uri, database, file))
    with Workload(plan) as workload:
        for number, (moment, kinds) in enumerate(zip(moments(rng, kills), signals, strict=True), 1):
            engine.start()
            engine.until("a batch", lambda: engine.files_of_progress("progress") >= 0)
            for n, kind in enumerate(kinds[:-1]):
                print(operators.act(kind))
                if n % 3 == 0:
                    one_more_batch(engine)
            moment.wait(engine)
            engine.kill(alone=moment.alone)
            print(f"kill {number}: {moment}, batch {max(engine.batches(), default=-1)}")
            print(f"while it is gone: {operators.act(kinds[-1])}")
        workload.stop()
    operators.finish()
    assert engine.start("--once").wait() == 0
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
    statuses = {d["_id"]: d for d in operators.client[operators.database]["signals_status"].find()}
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

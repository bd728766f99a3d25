"""Asking an engine by Kafka and by file, on a real broker: each starts a backfill, an id runs once whatever it comes
by, and a broker that is away is a matter of its channel alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from signals import SnapshotClient, SnapshotRejected
from signals.actions import ExecuteSnapshot
from snapshotter.api import Snapshotter
from snapshotter.core.values.tasks import TaskState
from snapshotter.intake.channels import PolledSignals
from snapshotter.reporting.status import Status
from snapshotter.testing.kafka import KafkaBroker
from snapshotter.testing.processes import wait_until
from tests.support.engines import SECONDS, Gate, Lab, Reads, lab, reads

__all__ = ["lab", "reads"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # every backfill waits for batches
DOCUMENTS = 20


def prepared(lab: Lab, bootstrap: str, **options: object) -> Path:
    """An engine with both channels, and nothing loaded; returns the signal file, which is not there yet."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    file = lab.folder / "signals.jsonl"
    lab.options |= {
        "topic.prefix": "shop",
        "signal.enabled.channels": "source,kafka,file",
        "signal.data.collection": lab.name("signals"),
        "signal.kafka.bootstrap.servers": bootstrap,
        "signal.file": str(file),
        **options,
    }
    for name in ("orders", "people"):
        lab.collection(name).insert_many([{"_id": n} for n in range(DOCUMENTS)])
    return file


def asking(name: str, *collections: str) -> bytes:
    """A request as Kafka and the file carry it."""
    data = {"data-collections": list(collections), "type": "incremental"}
    return json.dumps({"id": name, "type": "execute-snapshot", "data": data}).encode()


def append(file: Path, *lines: bytes) -> None:
    with file.open("ab") as signals:
        signals.write(b"".join(line + b"\n" for line in lines))


def completed(engine: Snapshotter, name: str) -> None:
    """Once the request is known, however it came, it completes with every document."""
    (task,) = engine.wait(name, SECONDS).tasks
    assert (task.state, task.rows) == (TaskState.DONE, DOCUMENTS)


def health(lab: Lab) -> dict[str, str | None]:
    """Of each channel, what the status file says."""
    status = Status.from_json((lab.state / "status.json").read_text())
    return {channel.name: channel.trouble for channel in status.channels}


def told(engine: Snapshotter, lab: Lab, what: str, check: Callable[[str | None], bool]) -> None:
    engine.until(what, lambda: check(health(lab).get("kafka")), SECONDS)


def starts(engine: Snapshotter, name: str) -> int:
    return sum(a.kind == "STARTED" and a.request_id == name for a in engine.engine.announcer.announced)


def test_kafka_and_a_file_start_backfills(lab: Lab, reads: Reads, kafka: KafkaBroker, topic: str) -> None:
    """A message and a line each do. An id that comes by both, and by the program's own queue, runs once; what is no
    signal is refused by its place. The client over Kafka asks, waits, is refused, pauses, resumes and stops. After a
    restart nothing is carried out again, and what came meanwhile is, also where the engine is to end by itself.
    """
    file = prepared(lab, kafka.bootstrap, **{"signal.kafka.topic": topic})
    orders, people = lab.name("orders"), lab.name("people")
    client = SnapshotClient.over_kafka(
        kafka.bootstrap, topic, "shop", client=lab.client, signal_collection=lab.name("signals")
    )
    with lab.running() as engine:
        both = asking("both", orders)
        waits = waits_of(engine)
        engine.engine.in_process.send(ExecuteSnapshot("both", (orders,)))
        kafka.send(topic, "shop", both, b"{")
        client.execute(people, id="by-kafka")
        append(file, both, asking("by-file", people))
        for name in ("by-kafka", "by-file", "both"):
            completed(engine, name)
        assert starts(engine, "both") == 1
        ((refused, why),) = engine.engine.signal_outcomes.refused
        assert refused.startswith(f"{topic}/0/")
        assert "is not JSON" in why
        controlled(client, reads, orders, lab.name("no_such"))
        told(engine, lab, "the channels to work", lambda trouble: trouble is None)
        assert health(lab) == dict.fromkeys(("inbox", "in-process", "kafka", "file"))
        seen = len(waits)
        engine.until("more looks at channels, of an idle source", lambda: len(waits) > seen + 20, SECONDS)
        assert set(waits[1:]) == {("look", engine.engine.config.poll_ms / 1000)}
    client.execute(orders, id="meanwhile")
    again = lab.engine().engine
    again.run(once=True)
    assert {a.request_id for a in again.announcer.announced if a.kind == "STARTED"} == {"meanwhile"}
    assert [a.kind for a in again.announcer.announced][-1] == "COMPLETED"
    assert again.signal_outcomes.refused == []
    assert client.wait("meanwhile", 1).rows == DOCUMENTS
    lab.assert_equal("orders", "people")


def waits_of(engine: Snapshotter) -> list[tuple[str, float]]:
    """From now on, what the control loop has done since its last wait, and how long it then waits. (The
    first of them began before.)"""
    inner = engine.engine
    look, wait = inner._channels.look, inner._stop.wait
    done: list[str] = []
    found: list[tuple[str, float]] = []

    def looks() -> Iterator[PolledSignals]:
        done.append("look")
        yield from look()

    def waits(seconds: float) -> bool:
        found.append(("".join(done), seconds))
        done.clear()
        return wait(seconds)

    inner._channels.look, inner._stop.wait = looks, waits  # type: ignore[method-assign, assignment]
    return found


def state_of(client: SnapshotClient, request: str) -> str | None:
    status = client.status(request)
    return status.state if status is not None else None


def controlled(client: SnapshotClient, reads: Reads, orders: str, nothing: str) -> None:
    """A request that is held up while it reads, and one that waits behind it: the second is paused, the first is
    stopped, and the second resumed."""
    done = client.wait("by-kafka", SECONDS)
    assert (done.state, done.rows) == ("completed", DOCUMENTS)
    with pytest.raises(SnapshotRejected, match="no captured collection"):
        client.wait(client.execute(nothing, id="nothing"), SECONDS)
    gate = Gate(lambda number, job: True)
    reads.before = gate
    client.execute(orders, id="held")
    assert gate.ready.wait(SECONDS)
    try:
        client.execute(orders, id="later")
        client.pause(["later"])
        wait_until(lambda: state_of(client, "later") == "paused", "the pause", seconds=SECONDS)
        client.stop(requests=["held"])
        assert client.wait("held", SECONDS).state == "stopped"
    finally:
        gate.go.set()
    client.resume(["later"])
    assert (client.wait("later", SECONDS).state, client.wait("later", 1).rows) == ("completed", DOCUMENTS)


@pytest.fixture
def away(kafka: KafkaBroker, topic: str) -> Iterator[KafkaBroker]:
    """A broker that has the topic, and has died; after the test it serves again."""
    kafka.kill()
    yield kafka
    kafka.kill()
    kafka.start()


def test_a_broker_that_is_away_disturbs_nothing_and_is_heard_when_it_is_back(
    lab: Lab, away: KafkaBroker, topic: str
) -> None:
    """From the start on: the stream flows, other channels are looked at while the source is idle, and the status says
    what is wrong with which broker. When it serves, under the running engine, its signals start backfills."""
    file = prepared(lab, away.bootstrap, **{"signal.poll.interval.ms": 200, "signal.kafka.topic": topic})
    with Snapshotter(lab.settings(), lab.spark) as engine:
        append(file, asking("by-file", lab.name("orders"), lab.name("people")))
        tasks = engine.wait("by-file", SECONDS).tasks
        assert [task.state for task in tasks] == [TaskState.DONE] * 2
        lab.collection("orders").insert_one({"_id": "streamed"})
        engine.catch_up(SECONDS)
        told(
            engine, lab, "the status to say why", lambda trouble: trouble is not None and "refused" in trouble
        )
        assert f"Kafka at {away.bootstrap}" in (health(lab)["kafka"] or "")
        assert [name for name, trouble in health(lab).items() if trouble] == ["kafka"]
        away.start()
        away.send(topic, "shop", asking("back", lab.name("people")))
        completed(engine, "back")
        assert starts(engine, "back") == 1
        told(engine, lab, "the channel to work", lambda trouble: trouble is None)
    lab.assert_equal("orders", "people")

"""Snapshot modes on real parts: what a start reads, when it ends by itself, and what a lost position leads to."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from snapshotter.api import Snapshotter
from snapshotter.configuration.snapshot_modes import GROUP
from snapshotter.core.values.progress import RequestProgress
from snapshotter.core.values.tasks import TaskState
from snapshotter.engine.lost_positions import PositionGone
from snapshotter.errors import ConfigurationError, describe
from snapshotter.testing.mongodb import MongoDeployment
from tests.support.engines import SECONDS, Gate, Lab, Reads, lab, limits, reads, task_of
from tests.support.oplogs import forget, forgetful
from tests.support.packages import install

__all__ = ["forgetful", "lab", "reads"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # every start of an engine does


def prepared(lab: Lab, mode: str, **options: object) -> Lab:
    lab.with_options("cluster_time", snapshot__mode=mode, **options)
    lab.collection("orders").insert_many([{"_id": n, "total": n} for n in range(20)])
    return lab


def to_its_end(lab: Lab) -> Snapshotter:
    """An engine that ends by itself."""
    engine = lab.engine()
    engine.engine.run()
    return engine


def known(engine: Snapshotter) -> dict[str, RequestProgress]:
    newest = engine.engine.store.newest()
    return {r.id: r for r in newest.requests} if newest is not None else {}


def test_initial_only_ends_by_itself(lab: Lab, reads: Reads) -> None:
    """When the load has ended; a second start finds nothing to do, and does not stream what came since."""
    prepared(lab, "initial_only")
    engine = to_its_end(lab)
    assert known(engine)["initial"].tasks[0].state is TaskState.DONE
    lab.assert_equal("orders")
    lab.collection("orders").insert_one({"_id": 100})
    read = len(reads.jobs)
    to_its_end(lab)
    assert len(reads.jobs) == read
    assert len(lab.rows("orders")) == 20


def test_always_reads_at_every_start(lab: Lab, reads: Reads) -> None:
    """A second start reads all of it again, once, under an id of its own."""
    prepared(lab, "always")
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
    with lab.running() as engine:
        done = engine.wait("initial-2", SECONDS)
        assert done.tasks[0].rows == 20
        newest = engine.engine.store.newest()
        assert newest is not None
        assert [request.id for request in newest.requests] == ["initial", "initial-2"]
    lab.assert_equal("orders")


NIGHTLY = """
class Nightly:
    def should_snapshot_data(self, offset_exists, snapshot_in_progress):
        return offset_exists and not snapshot_in_progress

    def should_stream(self):
        return False

    def should_snapshot_on_data_error(self):
        return False
"""


def test_switches_and_a_mode_of_ones_own(
    lab: Lab, reads: Reads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``configuration_based`` with nothing but ``start.stream``: nothing is read, changes land. Then a class that a
    package brings, which reads everything at later starts, and does not stream: the engine ends by itself."""
    prepared(lab, "configuration_based", snapshot__mode__configuration__based__start__stream="true")
    with lab.running() as engine:
        lab.collection("orders").insert_one({"_id": 100})
        engine.catch_up(SECONDS)
    assert reads.jobs == []
    assert [row["_id"] for row in lab.rows("orders")] == [100]
    install(tmp_path, monkeypatch, "our_modes", NIGHTLY, GROUP, {"nightly": "Nightly"})
    lab.with_options("cluster_time", snapshot__mode="custom", snapshot__mode__custom__name="nightly")
    ended = to_its_end(lab)
    assert known(ended)["initial"].tasks[0].state is TaskState.DONE
    lab.assert_equal("orders")


def test_a_lost_position_is_given_up_where_the_mode_says_so(
    lab: Lab, reads: Reads, forgetful: MongoDeployment
) -> None:
    """``when_needed``: a new position, everything read again, and what was deleted, or dropped, meanwhile is gone from
    the tables. What had ended before is not carried out again, and what was paused half-way is paused still. Any other
    mode says what to do."""
    lab.uri, lab.client = forgetful.uri, forgetful.client()
    prepared(lab, "initial")
    lab.tune = limits(10, 1)
    lab.collection("people").insert_one({"_id": 1})
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        engine.wait(engine.execute_snapshot(lab.name("orders"), request_id="once"), SECONDS)
        reads.before = gate = Gate(lambda number, job: True)
        engine.execute_snapshot(lab.name("orders"), request_id="half")
        assert gate.ready.wait(SECONDS)
        engine.pause("half")
        gate.go.set()
        engine.until("a chunk to land", lambda: task_of(engine, "half").chunks, SECONDS)
        engine.catch_up(SECONDS)
    lab.collection("orders").delete_one({"_id": 3})
    lab.collection("orders").update_one({"_id": 4}, {"$set": {"total": -4}})
    lab.collection("people").drop()
    forget(forgetful)
    with pytest.raises(PositionGone, match="the oplog no longer holds") as failed:
        to_its_end(lab)
    assert describe(failed.value).condition == "position-lost"
    lab.with_options("cluster_time", snapshot__mode="when_needed")
    with lab.running() as engine:
        done = engine.wait("heal", SECONDS)
        assert {t.namespace.collection: t.deleted for t in done.tasks} == {"orders": 1, "people": 1}
        assert known(engine)["half"].paused
        assert not known(engine)["half"].ended
        assert engine.execute_snapshot(lab.name("orders"), request_id="once") == "once"
        lab.collection("orders").insert_one({"_id": 100})
        engine.resume("half")
        assert engine.wait("half", SECONDS).tasks[0].state is TaskState.DONE
        engine.catch_up(SECONDS)
    lab.assert_equal("orders")
    assert lab.rows("people") == []
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        assert set(known(engine)) == {"initial", "heal", "once", "half"}, "and the new position goes on"


def test_an_initial_load_may_be_filtered(lab: Lab, reads: Reads) -> None:
    """``snapshot.collection.filter.overrides``: only what matches is read, what streams is not filtered. A filter that
    the server does not understand is refused before anything is started. ``snapshot.fetch.size`` reaches the server.
    """
    option = f"snapshot.collection.filter.overrides.{lab.name('orders')}"
    prepared(lab, "initial", snapshot__collection__filter__overrides=lab.name("orders"))
    lab.options["snapshot.fetch.size"] = 7
    lab.options[option] = '{"total": {"$nonsense": 5}}'
    with pytest.raises(ConfigurationError, match=r"nonsense.*MongoDB refuses it"):
        to_its_end(lab)
    assert not lab.state.exists()
    lab.options[option] = '{"total": {"$lt": 5}}'
    database = lab.client[lab.database]
    database.command("profile", 2)
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        database.command("profile", 0)
        assert (
            database["system.profile"].count_documents({"command.find": "orders", "command.batchSize": 7})
            == 1
        )
        lab.collection("orders").insert_one({"_id": 100, "total": 100})
        engine.catch_up(SECONDS)
    assert sorted(row["_id"] for row in lab.rows("orders")) == [0, 1, 2, 3, 4, 100]


def test_a_delayed_stream_loses_nothing(lab: Lab) -> None:
    """``streaming.delay.ms``: the position is taken at once and stands still until the pause is over; then everything
    since lands. A short pause ends by itself."""
    prepared(lab, "no_data", streaming__delay__ms=3_600_000)
    with lab.running() as engine:
        begun = engine.position()
        lab.collection("orders").insert_one({"_id": 100})
        run = engine.engine.run_state
        assert run is not None
        batch = run.progress.batch_id
        engine.engine._hints.request_batch()
        engine.until("a batch without events", lambda: run.progress.batch_id > batch, SECONDS)
        assert engine.position() == begun
        run.pacing.streams_at = 0.0
        engine.catch_up(SECONDS)
    assert [row["_id"] for row in lab.rows("orders")] == [100]
    lab.with_options(streaming__delay__ms=1_500)
    lab.collection("orders").insert_one({"_id": 101})
    began = time.monotonic()
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        assert time.monotonic() - began >= 1.5
    assert sorted(row["_id"] for row in lab.rows("orders")) == [100, 101]


def test_a_stop_ends_the_pause_before_a_load(lab: Lab, reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    """``snapshot.delay.ms``: nothing is read before it is over, and nobody has to wait for it to stop the engine."""
    prepared(lab, "initial", snapshot__delay__ms=3_600_000)
    engine = lab.engine()
    idle, begun = engine.engine._idle, threading.Event()

    def wait(seconds: float) -> None:
        assert seconds == 3_600
        begun.set()
        idle(seconds)

    monkeypatch.setattr(engine.engine, "_idle", wait)
    thread = threading.Thread(target=engine.engine.run)
    thread.start()
    asked = begun.wait(SECONDS)
    engine.engine.stop()
    thread.join(SECONDS)
    assert asked, "the engine never asked for the pause"
    assert not thread.is_alive()
    assert reads.jobs == []
    assert not (lab.state / "checkpoint").exists()


def test_signals_are_accepted_in_the_pause_before_a_load(
    lab: Lab, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``snapshot.delay.ms``: one by the inbox at once, and one that is inserted into the signal collection meanwhile is
    seen behind the pause, also at an engine's very first start. The lock is renewed, and the load comes after all."""
    prepared(lab, "initial", snapshot__delay__ms=3_600_000).with_options("insert_insert")
    inbox, asked = (
        lab.state / "inbox",
        {"type": "execute-snapshot", "data": {"data-collections": [lab.name("orders")]}},
    )
    made = lab.engine()
    engine, idle, renewals = made.engine, made.engine._idle, []
    renew = engine._lock.renew
    monkeypatch.setattr(engine._lock, "renew", lambda: renewals.append(renew()))

    def pause(seconds: float) -> None:
        assert seconds == 3_600
        inbox.mkdir(exist_ok=True)
        (inbox / "by-inbox.json").write_text(json.dumps({"id": "by-inbox", **asked}))
        deadline = time.monotonic() + SECONDS
        while not engine.journal.requests:
            assert time.monotonic() < deadline, "the signal was not looked at"
            idle(0.1)
        assert [request.id for request in engine.journal.requests] == ["by-inbox"]
        assert renewals
        assert reads.jobs == []
        lab.signals.insert_one({"_id": "by-collection", **asked})

    monkeypatch.setattr(engine, "_idle", pause)
    with made:
        for name in ("initial", "by-inbox", "by-collection"):
            made.wait(name, SECONDS)
    lab.assert_equal("orders")


@pytest.mark.thorough
def test_any_number_of_threads_reads_all(lab: Lab, reads: Reads) -> None:
    """``snapshot.max.threads``: seven, a stop in the middle, and then one: nothing is lost, and what had landed is not
    read again."""
    prepared(lab, "initial", snapshot__max__threads=7)
    lab.tune = lambda config: limits(2, 7, readers=config.limits.readers)(config)
    with lab.running() as engine:
        run = engine.engine.run_state
        assert run is not None
        assert run.lane.readers == 7
        engine.until(
            "a chunk to land",
            lambda: any(t.chunks for r in run.standing().requests for t in r.tasks),
            SECONDS,
        )
    landed = known(engine)["initial"].tasks[0].chunks
    read = len(reads.targets())
    lab.options["snapshot.max.threads"] = 1
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
    assert len(reads.targets()) - read == 10 - landed
    lab.assert_equal("orders")

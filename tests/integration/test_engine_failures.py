"""What goes wrong on real parts, as the engine names it, goes on after it, and is restarted: a full disk, commits that
conflict, executors and workers that die, a MongoDB that is away, an operator who pauses or restarts.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from delta import DeltaTable
from pymongo.errors import AutoReconnect
from pyspark.sql import SparkSession

from signals.actions import PauseStream, Restart, ResumeStream
from signals.channels.inbox_channel import InboxChannel
from signals.notifications.notification import Notification
from snapshotter.api import Snapshotter
from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.configuration.patience import RestartPolicy
from snapshotter.engine.readiness import READY, Readiness
from snapshotter.errors import DefiniteError, GaveUp, describe
from snapshotter.landing.targets import state_tables
from snapshotter.reporting.status import STATUS_FILE, EngineState, Status
from snapshotter.reporting.views import SilentView
from snapshotter.state.storage import LocalStorage
from snapshotter.testing.processes import wait_until
from tests.integration.test_engine_interruptions import killed
from tests.integration.test_state_table_conflicts import held
from tests.support.engines import SECONDS, Lab, lab, reads

__all__ = ["lab", "reads"]

pytestmark = pytest.mark.guard

QUICK = {"retriable__restart__connector__wait__ms": 1}


def status(lab: Lab) -> Status:
    return Status.from_json((lab.state / STATUS_FILE).read_text())


def until(lab: Lab, what: str, holds: Callable[[Status], object]) -> Status:
    """Until the status shows it."""

    def shown() -> Status | None:
        found = status(lab)
        return found if holds(found) else None

    return wait_until(shown, what, seconds=SECONDS)


def in_condition(name: str) -> Callable[[Status], bool]:
    return lambda found: found.last_error is not None and found.last_error.condition == name


class Failing:
    """Landings that fail with what ``error`` gives, while it gives something."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: Callable[[], Exception | None] = lambda: None
        self.count = 0
        real = state_tables.land_table

        def land_table(*arguments: Any, **named: Any) -> Any:
            if (error := self.error()) is not None:
                self.count += 1
                raise error
            return real(*arguments, **named)

        monkeypatch.setattr(state_tables, "land_table", land_table)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    return Failing(monkeypatch)


def restarting(minute_ms: float, most: int | None = 7) -> Callable[[EngineConfig], EngineConfig]:
    """An engine that restarts by itself, and whose minutes are that short."""
    policy = RestartPolicy(enabled=True, most=most, minute_ms=minute_ms)
    return lambda config: replace(config, restart_policy=policy)


# Named states


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own, of that size. Skips the test where this user may not mount one."""
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={megabytes}m"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Take all the room that is left there."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return path


def test_a_full_disk_is_named_and_waited_for(lab: Lab) -> None:
    """The status says that it is a resource that is short, which, and what to do; once there is room again, everything
    lands, once."""
    lab.with_options("cluster_time", snapshot__mode="no_data", **QUICK)
    orders = lab.collection("orders")
    with small_disk(lab.folder / "warehouse", 64) as disk:
        with lab.running() as engine:
            orders.insert_one({"_id": "first"})
            engine.catch_up(SECONDS)
            filler = fill(disk)
            orders.insert_many([{"_id": n, "text": "x" * 1_000} for n in range(100)])
            wait_until(lambda: noted(engine, "disk-full"), "the full disk to be named", seconds=SECONDS)
            filler.unlink()
            engine.catch_up(SECONDS)
            found = until(lab, "the engine to be well", lambda s: s.error is None and s.health == "Active")
        assert found.last_error is not None
        assert found.last_error.failure == "resource"
        assert found.last_error.retriable
        assert found.last_error.next_step == "make room on the disk, and start again"
        lab.assert_equal("orders")
        lab.assert_one_commit_a_batch("orders")


def noted(engine: Snapshotter, condition: str) -> bool:
    """Whether the engine has met it; the status itself may not be written on a full disk."""
    report = engine.engine.status._last_error
    return report is not None and report.condition == condition


def test_commits_that_conflict_again_and_again_are_named(
    lab: Lab, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Delta really raises is a commit conflict, of the sink, worth another attempt. Once the others leave the
    table alone, the batch lands."""
    lab.with_options("cluster_time", snapshot__mode="no_data", **QUICK)
    error = conflict(spark, lab.folder / "of-its-own")
    found = describe(error)
    assert (found.failure, found.condition, found.exit_code, found.retriable) == (
        "sink",
        "commit-conflict",
        4,
        True,
    )
    assert found.expected
    failing = Failing(monkeypatch)
    orders = lab.collection("orders")
    with lab.running() as engine:
        orders.insert_one({"_id": "first"})
        engine.catch_up(SECONDS)
        begun = failing.count
        failing.error = lambda: error if failing.count < begun + 2 else None
        orders.insert_one({"_id": "second"})
        engine.catch_up(SECONDS)
        shown = until(lab, "the conflict to be named", in_condition("commit-conflict"))
    assert shown.last_error is not None
    assert "DESCRIBE HISTORY" in (shown.last_error.next_step or "")
    lab.assert_equal("orders")


def conflict(spark: SparkSession, folder: Path) -> Exception:
    """What Delta raises where another commit deletes the rows that a MERGE has read."""
    path, gate = folder / "table", folder / "gate"
    gate.mkdir(parents=True)
    spark.range(10).write.format("delta").save(str(path))
    target = DeltaTable.forPath(spark, str(path)).alias("t")
    source = held(spark.range(10), gate).alias("s")
    merge = target.merge(source, "t.id = s.id").whenMatchedUpdate(set={"id": "s.id + 100"})
    failed: list[Exception] = []

    def run() -> None:
        try:
            merge.execute()
        except Exception as error:  # noqa: BLE001 - it is what is asked for
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until((gate / "reached").exists, "the MERGE to read its source", seconds=SECONDS)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id < 5")
    (gate / "opened").touch()
    thread.join(SECONDS)
    (error,) = failed
    return error


def test_an_error_of_a_run_has_one_class_wherever_it_is_shown(lab: Lab, failing: Failing) -> None:
    """The status, a notification and the error that ends the engine name the same class, state and next step."""
    lab.with_options("cluster_time", snapshot__mode="no_data", errors__max__retries=1, **QUICK)
    heard: list[Notification] = []
    engine = lab.engine()
    engine.on_notification(heard.append)
    engine.start()
    failing.error = lambda: AutoReconnect("the network is down")
    lab.collection("orders").insert_one({"_id": 1})
    with pytest.raises(GaveUp) as ended:
        engine.catch_up(SECONDS)
    with pytest.raises(GaveUp):
        engine.stop()
    found, shown = describe(ended.value), status(lab)
    assert shown.error is not None
    assert (shown.state, shown.health) == (EngineState.FAILED, "Broken")
    assert (shown.error.failure, shown.error.condition) == (found.failure, found.condition)
    assert (shown.error.next_step, shown.error.retriable) == (found.next_step, found.retriable)
    (broken,) = [n for n in heard if n.type == "BROKEN"]
    assert broken.aggregate_type == "Engine"
    assert broken.additional_data["failure"] == found.failure == "connection"
    assert broken.additional_data["condition"] == found.condition == "source-unreachable"
    assert broken.additional_data["next_step"] == found.next_step


# Restarts


def test_an_engine_that_has_failed_restarts_by_itself(lab: Lab, failing: Failing) -> None:
    """Retries first; when they are used up it is broken, restarts after growing pauses in the same process, and is
    Active again when what was wrong is over. Nothing is lost, nothing doubled, and the count is durable."""
    lab.with_options("cluster_time", snapshot__mode="no_data", errors__max__retries=1, **QUICK)
    lab.tune = restarting(minute_ms=1.0)
    heard: list[Notification] = []
    engine = lab.engine()
    engine.on_notification(heard.append)
    with engine:
        orders = lab.collection("orders")
        orders.insert_one({"_id": "first"})
        engine.catch_up(SECONDS)
        # Two attempts in each life: three lives fail, and so three restarts.
        failing.error = lambda: AutoReconnect("the network is down") if failing.count < 6 else None
        orders.insert_one({"_id": "second"})
        engine.catch_up(SECONDS)
        counted = LocalStorage(lab.state).read_text("restarts.json")
        assert counted is not None
        until(lab, "the end of the breakdown", lambda s: s.health == "Active" and s.error is None)
    assert failing.count == 6
    assert [n.type for n in heard if n.aggregate_type == "Engine"] == ["BROKEN", "ACTIVE"]
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")


def test_restarts_come_to_an_end(lab: Lab, failing: Failing) -> None:
    """After as many as are allowed the engine ends with the error, and the count is kept for the next process."""
    lab.with_options("cluster_time", snapshot__mode="no_data", errors__max__retries=0, **QUICK)
    lab.tune = restarting(minute_ms=1.0, most=2)
    engine = lab.engine().start()
    failing.error = lambda: AutoReconnect("the network is down")
    lab.collection("orders").insert_one({"_id": 1})
    with pytest.raises(GaveUp):
        engine.catch_up(SECONDS)
    with pytest.raises(GaveUp):
        engine.stop()
    assert failing.count == 3
    found = status(lab)
    assert found.restarts is not None
    assert (found.health, found.restarts.count, found.restarts.next_at) == ("Broken", 2, None)
    assert found.restarts.last_at is not None
    assert json.loads((lab.state / "restarts.json").read_text())["restarts"] == 2


def test_while_it_waits_the_engine_keeps_its_name_and_hears_a_restart(lab: Lab, failing: Failing) -> None:
    """Broken, with the time of the restart in the status; a second engine is refused; `restart` does not wait."""
    lab.with_options("cluster_time", snapshot__mode="no_data", errors__max__retries=0, **QUICK)
    lab.tune = restarting(minute_ms=3_600_000.0)
    orders = lab.collection("orders")
    with lab.running() as engine:
        failing.error = lambda: AutoReconnect("the network is down") if failing.count < 2 else None
        orders.insert_one({"_id": 1})  # fails; restarted at once; fails; would wait for 2 of these minutes
        found = until(
            lab,
            "the wait",
            lambda s: s.restarts is not None and s.restarts.next_at is not None and s.restarts.count,
        )
        assert (found.state, found.health) == (EngineState.FAILED, "Broken")
        assert found.error is not None
        with pytest.raises(Exception, match="another engine named"):
            lab.engine().start()
        InboxChannel(LocalStorage(lab.state)).send(Restart("now"))
        engine.catch_up(SECONDS)
        again = until(lab, "it to be well", lambda s: s.health == "Active")
        assert again.restarts is not None
        assert (again.restarts.count, again.restarts.next_at) == (1, None)
    lab.assert_equal("orders")


def test_a_stop_ends_the_wait_for_a_restart(lab: Lab, failing: Failing) -> None:
    """Cleanly, and at once."""
    lab.with_options("cluster_time", snapshot__mode="no_data", errors__max__retries=0, **QUICK)
    lab.tune = restarting(minute_ms=3_600_000.0)
    engine = lab.engine().start()
    failing.error = lambda: AutoReconnect("the network is down")
    lab.collection("orders").insert_one({"_id": 1})
    until(
        lab,
        "the wait",
        lambda s: s.restarts is not None and s.restarts.next_at is not None and s.restarts.count,
    )
    engine.stop()
    assert status(lab).state is EngineState.STOPPED


# What operators ask for


def test_a_restart_by_hand_begins_another_run(lab: Lab) -> None:
    """In the same process, under the same lock; nothing is lost, and delivered again the signal does nothing."""
    lab.with_options("insert_insert", snapshot__mode="no_data")
    orders = lab.collection("orders")
    with lab.running() as engine:
        orders.insert_one({"_id": 1})
        engine.catch_up(SECONDS)
        first, token = engine.engine.run_state, engine.engine._lock.token
        lab.signal("restart", "again")
        engine.until("another run", lambda: engine.engine.run_state is not first, SECONDS)
        second = engine.engine.run_state
        orders.insert_one({"_id": 2})
        engine.catch_up(SECONDS)
        engine.engine.act(Restart("again"))
        orders.insert_one({"_id": 3})
        engine.catch_up(SECONDS)
        assert engine.engine.run_state is not first
        assert engine.engine._lock.token == token
        assert second is not None
    lab.assert_equal("orders")


def test_a_paused_stream_stays_paused_over_a_restart_and_takes_signals(lab: Lab) -> None:
    """Nothing lands while it is paused, also in another process; a request that is inserted meanwhile is in the
    journal, and is carried out once the stream goes on; so is everything that has changed."""
    lab.with_options("insert_insert", snapshot__mode="no_data")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n} for n in range(20)])
    with lab.running() as engine:
        orders.insert_one({"_id": 100})
        engine.catch_up(SECONDS)
        engine.pause_stream("pause")
        found = until(lab, "the pause", lambda s: s.health == "Paused")
        assert found.stream_paused
        assert found.state is EngineState.RUNNING
    with lab.running() as engine:
        orders.insert_one({"_id": 101})
        lab.signal("execute-snapshot", "asked", data__collections=[lab.name("orders")])
        wait_until(
            lambda: any(r.id == "asked" for r in engine.engine.journal.requests),
            "the request",
            seconds=SECONDS,
        )
        with pytest.raises(Exception, match="another engine named"):
            lab.engine().start()
        assert {row["_id"] for row in lab.rows("orders")} == {100}
        InboxChannel(LocalStorage(lab.state)).send(ResumeStream("resume"))
        until(lab, "the end of the pause", lambda s: not s.stream_paused)
        engine.catch_up(SECONDS)
        assert not engine.wait("asked", SECONDS).failed
    lab.assert_equal("orders")


def test_once_does_not_wait_for_a_stream_that_is_paused(lab: Lab) -> None:
    """There is no end to wait for: it says what to do."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    lab.collection("orders").insert_one({"_id": 1})
    with lab.running() as engine:
        engine.engine.act(PauseStream("pause"))
    again = lab.engine()
    with pytest.raises(DefiniteError, match="the stream is paused") as ended:
        again.engine.run(once=True)
    assert "snapshotter resume-stream" in describe(ended.value).next_step


class Watching(SilentView):
    """Keeps what it is shown, and behind how many statuses something was announced."""

    def __init__(self) -> None:
        self.shown: list[Status] = []
        self.told: list[tuple[int, str]] = []

    def update(self, status: Status) -> None:
        self.shown.append(status)

    def announce(self, text: str) -> None:
        self.told.append((len(self.shown), text))


def test_a_life_has_its_states(lab: Lab) -> None:
    """Starting, until it says that it is ready; running, stopping, stopped; Active until it has ended. A change is
    written at once."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    engine, view = lab.engine(), Watching()
    engine.engine.status.view = view
    engine.engine.readiness = Readiness(view)
    with engine:
        lab.collection("orders").insert_one({"_id": 1})
        engine.catch_up(SECONDS)
    states = [(status.state, status.health) for status in view.shown]
    assert list(dict.fromkeys(states)) == [
        (EngineState.STARTING, "Active"),
        (EngineState.RUNNING, "Active"),
        (EngineState.STOPPING, "Active"),
        (EngineState.STOPPED, "Paused"),
    ]
    ((before, said),) = view.told
    assert said == READY
    assert view.shown[before - 1].state is EngineState.STARTING
    assert view.shown[before].state is EngineState.RUNNING


def test_a_worker_that_is_killed_is_a_named_state(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL of a Python worker, as where memory is short: Spark tells it by what it came upon first, and either is
    expected, worth another attempt, and gone on after."""
    lab.with_options("cluster_time", snapshot__mode="no_data", **QUICK)
    orders = lab.collection("orders")
    with lab.running() as engine:
        orders.insert_one({"_id": 1})
        engine.catch_up(SECONDS)
        killed(monkeypatch, tmp_path / "flags", 1)
        orders.insert_many([{"_id": n} for n in range(10, 1_000)])
        engine.catch_up(SECONDS)
        found = until(lab, "it to be well", lambda s: s.last_error is not None and s.health == "Active")
    assert found.last_error is not None
    assert found.last_error.condition in ("worker-killed", "network-failing")
    assert found.last_error.retriable
    lab.assert_equal("orders")

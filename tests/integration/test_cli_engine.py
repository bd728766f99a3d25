"""The command line around a real engine: run, execute-snapshot, status, verify, and what keeps `run` from working.

The commands run in this process, on the session that all tests share; nothing else is different.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from snapshotter.cli.app import app
from snapshotter.engine import assembly
from snapshotter.reading.catalogue import RequestRefused
from snapshotter.reporting.status import EngineState, RequestState, Status
from tests.support.engines import SECONDS, Lab, lab, reads, shared

__all__ = ["lab", "reads"]

Command = Callable[..., Result]


@pytest.fixture
def command(lab: Lab, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command with the lab's configuration."""
    monkeypatch.setattr(assembly, "spark_session", lambda settings, **_: shared(spark))

    def invoke(name: str, *arguments: str) -> Result:
        result = CliRunner().invoke(app, [name, "-c", str(lab.config_file()), *arguments])
        print(result.output)
        return result

    return invoke


def status(command: Command) -> Status:
    result = command("status", "--json")
    assert result.exit_code == 0
    return Status.from_json(result.stdout)


def test_run_once_catches_up_and_finishes_what_was_asked(lab: Lab, command: Command) -> None:
    """Changes and signals of the time when no engine ran are carried out, then it ends with 0; the status says so, and
    ``verify`` finds collection and table equal."""
    lab.with_options(snapshot__mode="initial")
    lab.collection("orders").insert_many([{"_id": n, "total": n / 4} for n in range(20)])
    lab.client[lab.database].create_collection("signals")
    assert command("status").exit_code == 3, "no engine has run yet"
    assert command("run", "--once").exit_code == 0
    assert [r.id for r in status(command).requests] == ["initial"]

    lab.collection("orders").update_one({"_id": 3}, {"$set": {"total": None}})
    lab.collection("orders").delete_one({"_id": 4})
    sent = command("execute-snapshot", lab.name("orders"), "--id", "again")
    assert (sent.exit_code, sent.stdout) == (0, "again\n")
    assert command("run", "--once").exit_code == 0
    found = status(command)
    again = found.request("again")
    assert found.state is EngineState.STOPPED
    assert found.position is not None
    assert again is not None
    assert (again.state, again.collections[0].rows) == (RequestState.COMPLETED, 19)
    assert again.completed_at is not None
    assert again.accepted_at is not None
    equal = command("verify", "--json")
    assert equal.exit_code == 0
    assert json.loads(equal.stdout)[0]["documents"] == 19
    lab.assert_equal("orders")


def test_read_only_signals_by_the_inbox_and_waiting(lab: Lab, command: Command) -> None:
    """Without a signal collection the command writes to the inbox; ``--wait`` ends when the snapshot has, with 3 when
    it was refused. Nothing is written to MongoDB."""
    lab.with_options("cluster_time", snapshot__mode="no_data", signal__poll__interval__ms=50)
    lab.collection("orders").insert_many([{"_id": n} for n in range(20)])
    assert command("execute-snapshot", lab.name("orders"), "--id", "early").exit_code == 0
    assert command("run", "--once").exit_code == 0
    early = status(command).request("early")
    assert early is not None
    assert early.state is RequestState.COMPLETED
    with lab.running():
        done = command("execute-snapshot", lab.name("orders"), "--wait", "--timeout", str(SECONDS))
        assert done.exit_code == 0
        misspelt = "execute-snapshot", lab.name("nothing"), "--wait", "--timeout", str(SECONDS), "--id", "bad"
        refused = command(*misspelt)
        assert refused.exit_code == 2
        told = " ".join(refused.stderr.split())
        assert f"nothing is no captured collection (near it: {lab.name('orders')})" in told
        assert "nothing was sent" in told
        sent = command(*misspelt, "--force")
        assert sent.exit_code == 3
        assert "nothing is no captured collection" in sent.stderr
        both = command(
            *(
                "execute-snapshot",
                lab.name("orders"),
                lab.name("ordres"),
                "--wait",
                "--timeout",
                str(SECONDS),
            ),
            *("--force", "--id", "both"),
        )
        assert both.exit_code == 0
        read = status(command).request("both")
        assert read is not None
        assert ([c.name for c in read.collections], read.unknown) == (
            [lab.name("orders")],
            (lab.name("ordres"),),
        )
    assert lab.client[lab.database].list_collection_names() == ["orders"]
    lab.assert_equal("orders")


def test_an_engine_is_asked_and_watched(lab: Lab, command: Command) -> None:
    """From the command line and from the program that runs it, in the same words. Commands are waited for until they
    are carried out; one about a request that there is not is an error with those that there are. A request says when it
    was asked for, accepted, started and ended; ids that no document has are told with what ids look like."""
    lab.with_options("cluster_time", snapshot__mode="no_data", signal__poll__interval__ms=50)
    lab.collection("orders").insert_many([{"_id": n} for n in range(20)])
    wait = ("--wait", "--timeout", str(SECONDS))
    with lab.running() as engine:
        first = command(
            "execute-snapshot", lab.name("orders"), "--key", '"7"', "--key", "8", "--id", "keys", *wait
        )
        assert first.exit_code == 0
        assert 'has the id "7"; ids there look like 0 and 19; did you mean 7?' in " ".join(
            first.stderr.split()
        )
        for words in (
            ["pause-snapshot"],
            ["resume-snapshot", "--request", "keys"],
            ["log", "at {}"],
            ["restart"],
        ):
            done = command(*words, *wait)
            assert (done.exit_code, f"{words[0]} is carried out" in done.stderr) == (0, True)
        none = command("stop-snapshot", "--request", "nope", *wait)
        assert (none.exit_code, "there is no request nope; there are keys" in none.stderr) == (2, True)
        with pytest.raises(RequestRefused, match="there is no request nope; there are keys"):
            engine.pause_snapshot("nope")
        shown = command("status").stdout
        assert shown.startswith(f"engine-{lab.database} running · lag=")
        assert "request keys is completed · incremental, keys · started " in shown
        assert f"{lab.name('orders')} has 1 of the 2 ids that were named" in " ".join(shown.split())
        assert command("status", "--check").exit_code == 0
        assert command("pause-stream", *wait).exit_code == 0
        assert command("status", "--check").exit_code == 1
        assert command("resume-stream", *wait).exit_code == 0
        again = engine.execute_snapshot(lab.name("orders"), keys=9)
        engine.wait(again, SECONDS)
        asked = engine.status(again)
        assert asked is not None
        assert (asked.state, asked.rows, asked.kind) == ("completed", 1, "incremental")
        assert asked.took_seconds is not None
        assert engine.table(lab.name("orders")).rows().count() == 2
        assert f"engine-{lab.database} running" in repr(engine)
        assert lab.name("orders") in engine._repr_html_()
    report = status(command).request("keys")
    assert report is not None
    times = [report.asked_at, report.accepted_at, report.started_at, report.completed_at]
    known = [time for time in times if time is not None]
    assert (len(known), known) == (4, sorted(known))
    stopped = command("status")
    assert stopped.stdout.startswith(f"engine-{lab.database} stopped at ")
    assert command("status", "--check").exit_code == 1


@pytest.mark.parametrize("strategy", ["cluster_time", "insert_insert"])
def test_wait_gives_up_when_no_engine_runs(lab: Lab, command: Command, strategy: str) -> None:
    """With ``--timeout``; the signal stays where it is. Before an engine's very first start that is the inbox in any
    case: its stream begins at that start, and would never show a document inserted before."""
    lab.with_options(strategy)
    lab.collection("orders").insert_one({})
    given_up = command("execute-snapshot", lab.name("orders"), "--wait", "--timeout", "0.1", "--id", "later")
    assert given_up.exit_code == 3
    assert "has not ended after 0.1 s" in given_up.stderr
    assert (lab.state / "inbox" / "later.json").exists()


@pytest.mark.guard
def test_verify_names_the_keys_that_differ(lab: Lab, command: Command, spark: SparkSession) -> None:
    """It sees a field that was dropped, a number that was cut, a null in place of a missing field, a row that is gone
    and one too much: exit 1, and each is named."""
    lab.with_options("cluster_time", snapshot__mode="initial")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": f"id-{n}", "note": "x", "total": n + 0.5} for n in range(8)])
    orders.insert_one({"_id": "id-null", "note": None, "total": 1.5})
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
    path = str(lab.table("orders"))

    def tamper(change: str) -> None:
        spark.sql(change.format(table=f"delta.`{path}`"))

    tamper(
        """UPDATE {table} SET
        note = CASE WHEN _id IN ('id-1', 'id-3') THEN NULL ELSE note END,
        total = CASE WHEN _id = 'id-2' THEN floor(total) ELSE total END,
        _rescued_data = CASE _id WHEN 'id-3' THEN '{{"/note":null}}' WHEN 'id-null' THEN NULL
            ELSE _rescued_data END"""
    )
    tamper("DELETE FROM {table} WHERE _id = 'id-4'")
    row = spark.read.format("delta").load(path).where("_id = 'id-5'")
    row = row.withColumn("_id", F.lit("id-extra")).withColumn("_key", F.concat("_key", F.lit("x")))
    row.write.format("delta").mode("append").save(path)
    different = command("verify", lab.name("orders"))
    assert different.exit_code == 1
    for name in ("id-1", "id-2", "id-3", "id-null", "id-4", "id-5x"):
        assert name in different.stdout, name
    assert not any(name in different.stdout for name in ("id-0", "id-6", "id-7"))
    assert json.loads(command("verify", "--json").stdout)[0]["equal"] is False


def test_an_unwritable_warehouse(lab: Lab, command: Command) -> None:
    """Exit 3: the place and the option are named; what is there stays as it was."""
    blocked = lab.folder / "a-file"
    blocked.write_text("not a folder")
    lab.with_options("cluster_time", delta__warehouse=str(blocked / "lake"))
    lab.collection("orders").insert_one({})
    refused = command("run", "--once")
    assert refused.exit_code == 3
    assert str(blocked) in refused.stderr
    assert "delta.warehouse" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert blocked.read_text() == "not a folder"


def test_a_second_engine_on_a_name(lab: Lab, command: Command) -> None:
    """Exit 3 with the address of the first one, which goes on; its status is not overwritten."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    orders = lab.collection("orders")
    with lab.running() as first:
        refused = command("run", "--once")
        owner = first.engine.status.owner
        assert refused.exit_code == 3
        assert f"host {owner.host}, process {owner.pid}" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert status(command).state is EngineState.RUNNING
        orders.insert_one({"_id": 1})
        first.catch_up(SECONDS)
    lab.assert_equal("orders")


def test_giving_up_after_the_retries_allowed(
    lab: Lab, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 4 when an error that may pass does not, as often as ``errors.max.retries`` says; progress is kept."""
    from pymongo.errors import AutoReconnect

    from snapshotter.landing.targets import state_tables

    lab.with_options(
        "cluster_time",
        snapshot__mode="initial",
        errors__max__retries=1,
        retriable__restart__connector__wait__ms=1,
    )
    lab.collection("orders").insert_many([{"_id": n} for n in range(5)])
    attempts: list[Any] = []
    real = state_tables.land_table

    def land_table(*arguments: Any, **named: Any) -> Any:
        attempts.append(threading.current_thread().name)
        raise AutoReconnect("the network is down")

    monkeypatch.setattr(state_tables, "land_table", land_table)
    gave_up = command("run", "--once")
    assert gave_up.exit_code == 4
    assert "the network is down" in gave_up.stderr
    assert "errors.max.retries" in gave_up.stderr
    assert len(attempts) == 2
    assert status(command).state is EngineState.FAILED
    monkeypatch.setattr(state_tables, "land_table", real)
    assert command("run", "--once").exit_code == 0
    lab.assert_equal("orders")


def test_the_exit_code_of_the_process(lab: Lab, tmp_path: Path) -> None:
    """An option that does not exist: exit 2 with the nearest one named, before anything is started."""
    lab.options["collection.include.lst"] = "x"
    result = CliRunner().invoke(app, ["run", "-c", str(lab.config_file())])
    assert result.exit_code == 2
    assert "collection.include.list" in result.stderr

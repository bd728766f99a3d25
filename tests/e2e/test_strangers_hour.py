"""A stranger's hour: install, init, run, backfill, break it, recover, read the table with DuckDB, hand over.

The stranger has the installed program and a MongoDB with a shop that people keep changing, and knows nothing but what
the program prints. Whatever breaks is put right by the next step that is printed, word for word. How long one waits for
a refusal, the first row and the end is printed with the load of the machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from snapshotter.configuration.options import find
from snapshotter.demo.shop import Writer, load
from snapshotter.engine.readiness import READY
from snapshotter.reporting.status import EngineState, RequestState, Status
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from tests.support.distribution import build, install_beside
from tests.support.sources import ROOT
from tests.support.stranger import FILE, Stranger, delete_by_hand
from tests.support.terminal import CTRL_C

pytestmark = [pytest.mark.slow, pytest.mark.guard, pytest.mark.timeout(900)]
ORDERS, CUSTOMERS = "shop.orders", "shop.customers"
DOCUMENTS, CHANGES_A_SECOND = 20_000, 100
_OPTIONS = """
"spark.master" = "local[2]"
"spark.driver.memory" = "1g"
"mongodb.server.selection.timeout.ms" = "3000"
"incremental.snapshot.chunk.size" = "2500"
"engine.commit.target.rows" = "5000"
"""
"""What a small machine wants besides; a backfill takes four commits, so there is a midst to be killed in."""
_DUCKDB = re.compile(r"^## DuckDB\n.*?^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment that has the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = build(folder, "--wheel").glob("*.whl")
    return install_beside(wheel, folder)


@pytest.fixture
def mongo() -> Iterator[MongoDeployment]:
    """A MongoDB that may be killed, with a shop, and an oplog that keeps three days."""
    days = "--oplogMinRetentionHours", "72"
    with start_mongodb(set_parameters={"periodicNoopIntervalSecs": 1}, extra_args=days) as deployment:
        for _ in load(deployment.uri, DOCUMENTS):
            pass
        customers = deployment.client()["shop"]["customers"]
        customers.insert_many([{"_id": n, "name": f"customer {n}"} for n in range(100)])
        yield deployment


@contextmanager
def people(mongo: MongoDeployment) -> Iterator[None]:
    """Who place, change and cancel orders until the end of the block."""
    writer = Writer(mongo.uri, DOCUMENTS, CHANGES_A_SECOND)
    writer.start()
    try:
        yield
    finally:
        writer.stop()


def test_a_strangers_hour(programs: Path, mongo: MongoDeployment, tmp_path: Path) -> None:
    """From an installed program to a table that somebody else reads, through six things that go wrong: a warehouse that
    is none, a mistyped name, an engine that is killed in the midst of a backfill, a MongoDB that is, rows that somebody
    deletes in a table, and, once all is handed over, the engine's whole state gone. After each the program says what to
    do, that is done, and in the end tables equal collections."""
    seconds: dict[str, float] = {}
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    export = {"MONGODB_URI": mongo.uri}
    with Stranger(mine, programs, export) as stranger, Stranger(theirs, programs, export) as colleague:
        start = configured(stranger)
        warehouse_in_the_way(stranger, start, seconds)
        began = time.time()
        engine = stranger.start(start, READY)
        seconds["first word"], seconds["ready"] = engine.came[0][0], engine.came[-1][0]
        with people(mongo):
            backfilled(stranger, seconds)
            seconds["first row"] = first_row(stranger) - began
            killed_in_a_backfill(stranger)
            mongodb_killed(stranger, mongo)
            rows_deleted(stranger, mongo)
            seconds["stopped"] = stop(stranger)
            handed_over(stranger, colleague)
            state_gone(colleague)
        equal(colleague)
        read_by_duckdb(colleague, mongo)
        stop(colleague)
    load_now = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"load {load_now}; seconds:", *(f"{what} {took:.1f}" for what, took in seconds.items()))


def configured(stranger: Stranger) -> list[str]:
    """A first configuration, and a look at what it is for; returns what to run next."""
    assert stranger.run("--version").out.startswith("snapshotter ")
    asked = ["init", "-c", FILE, "--address", "${env:MONGODB_URI}", "--warehouse", "warehouse"]
    wrong = stranger.run(*asked, "--collection", "shop.ordres", code=2)
    collections = ["--collection", wrong.near("shop.ordres"), "--collection", CUSTOMERS]
    written = stranger.run(*asked, *collections, "--signals", "shop.signals")
    assert written.command == ["run", "-c", FILE]
    with (stranger.folder / FILE).open("a") as file:
        file.write(_OPTIONS)
    examined = stranger.ask("doctor")
    assert examined.command == ["run", "-c", FILE]
    return examined.command


def warehouse_in_the_way(stranger: Stranger, start: list[str], seconds: dict[str, float]) -> None:
    """A file where the warehouse is to be: refused before Spark is started; then it is out of the way."""
    warehouse = stranger.folder / "warehouse"
    warehouse.write_text("an export of last year")
    refused = stranger.run(*start, code=3)
    seconds["refused"] = refused.seconds
    assert "nothing can be written to" in refused.text
    assert refused.next_step.startswith("check delta.warehouse, that it can be written to")
    warehouse.rename(stranger.folder / "export")


def backfilled(stranger: Stranger, seconds: dict[str, float]) -> None:
    """A mistyped name is refused with the one that was meant; with that, orders are read again under changes."""
    wrong = stranger.ask("execute-snapshot", "shop.ordres", code=2)
    assert "nothing was sent" in wrong.text
    began = time.monotonic()
    stranger.ask("execute-snapshot", wrong.near("shop.ordres"), "--id", "by-hand", "--wait")
    seconds["backfill"] = time.monotonic() - began
    shown = stranger.ask("status")
    assert shown.out.startswith("shop running · lag=")
    assert "request by-hand is completed · incremental" in shown.out
    stranger.ask("status", "--check")


def first_row(stranger: Stranger) -> float:
    """When the first rows were in a table: the moment of that commit, in seconds since the epoch."""
    said = json.loads(stranger.ask("table show", ORDERS, "-n", "100000", "--json").out)
    landed = [one["landed_at"] for one in said["versions"] if one["inserted"]]
    return datetime.fromisoformat(landed[-1]).timestamp()


def killed_in_a_backfill(stranger: Stranger) -> None:
    """SIGKILL, as the kernel does it for want of memory. The status says that it is lost and how to start it again, and
    the request goes on to its end by itself."""
    asked = "execute-snapshot", ORDERS, "--id", "killed"
    stranger.ask(*asked)
    stranger.until("a window of it", lambda s: is_at(s, "killed", RequestState.RUNNING) and s.windows)
    assert stranger.engine is not None
    os.kill(stranger.engine.process.pid, signal.SIGKILL)
    stranger.engine.wait()
    stranger.until_said("that it is lost", "status", "--check", code=3)
    lost = stranger.ask("status")
    assert lost.out.startswith("shop lost: last heard of")
    stranger.start(lost.command, READY)
    stranger.until("its end", lambda s: is_at(s, "killed", RequestState.COMPLETED))


def mongodb_killed(stranger: Stranger, mongo: MongoDeployment) -> None:
    """The status says so, and that nobody has to do anything here: once it is back, changes land."""
    mongo.kill(0)
    stranger.until("what is wrong", lambda s: s.error is not None)
    broken = stranger.ask("status")
    assert "connection (source-unreachable)" in " ".join(broken.out.split())
    assert "mongodb.connection.string can be reached" in broken.next_step
    assert broken.next_step.endswith("the engine tries again by itself")
    stranger.ask("status", "--check", code=3)
    mongo.restart(0)
    stranger.until("that all is well", lambda s: s.error is None and s.health == "Active")
    stranger.ask("status", "--check")


def rows_deleted(stranger: Stranger, mongo: MongoDeployment) -> None:
    """Somebody deletes rows in a table: its collection is suspended, all else goes on, and the command that is named
    reads it again."""
    delete_by_hand(stranger.folder / "warehouse" / "state" / "shop" / "customers")
    mongo.client()["shop"]["customers"].insert_one({"_id": 100, "name": "one more"})
    stranger.until("that it is suspended", lambda s: s.suspended)
    shown = stranger.ask("status")
    assert f"{CUSTOMERS} is suspended since" in shown.out
    said = stranger.run(*shown.command)
    request = said.out.strip()
    stranger.until(
        "that it lands again", lambda s: not s.suspended and is_at(s, request, RequestState.COMPLETED)
    )


def state_gone(stranger: Stranger) -> None:
    """Somebody tidies up while the engine is stopped: all but the tables is gone. It goes on where these tell."""
    shutil.rmtree(stranger.folder / "warehouse" / "_snapshotter")
    unknown = stranger.ask("status", code=3)
    assert "no engine named 'shop' has run" in unknown.text
    stranger.start(unknown.command, READY)
    stranger.until("a batch", lambda s: s.state is EngineState.RUNNING and s.batch is not None)


def equal(stranger: Stranger) -> None:
    """Document by document, while the engine runs."""
    said = stranger.ask("verify").out
    for name in (ORDERS, CUSTOMERS):
        assert f"{name}: equal" in said


def read_by_duckdb(stranger: Stranger, mongo: MongoDeployment) -> None:
    """By the lines of `docs/reading-tables.md`: the rows are the documents that there are."""
    found = _DUCKDB.search((ROOT / "docs" / "reading-tables.md").read_text())
    assert found
    names: dict[str, Any] = {}
    lines = (
        found[1].replace("/lake", str(stranger.folder / "warehouse")).replace("_id, total", "_id, version")
    )
    exec(lines, names)
    with MongoClient[dict[str, Any]](mongo.uri) as client:
        documents = {str(d["_id"]): d["version"] for d in client["shop"]["orders"].find({}, {"version": 1})}
    assert dict(names["rows"]) == documents


def stop(stranger: Stranger) -> float:
    """Ctrl+C; returns how many seconds it took."""
    engine = stranger.engine
    assert engine is not None
    began = time.monotonic()
    engine.press(CTRL_C)
    assert engine.wait() == 0, engine.screen.text
    took = time.monotonic() - began
    assert "stopped at" in engine.screen.text.rstrip().splitlines()[-1]
    assert stranger.ask("status", "--check", code=1).out.startswith("shop stopped at")
    return took


def handed_over(stranger: Stranger, colleague: Stranger) -> None:
    """Somebody else gets the folder: what it says of itself is documented, and what to run next is said."""
    for name in (FILE, "warehouse"):
        (stranger.folder / name).rename(colleague.folder / name)
    options = json.loads(colleague.ask("config", "--json").out)
    assert all(find(name) is not None for name in options)
    told = Status.from_json(colleague.ask("status", "--json").out)
    assert told.state is EngineState.STOPPED
    assert told.position is not None
    position = json.loads(colleague.ask("position show", "--json").out)
    assert position["position"] == told.position.model_dump()
    assert colleague.ask("doctor").command == ["run", "-c", FILE]


def is_at(status: Status, request_id: str, state: RequestState) -> bool:
    """Whether a request is in this state."""
    found = status.request(request_id)
    return found is not None and found.state is state

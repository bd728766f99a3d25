"""What keeps an engine from starting: each with its exit code, a message that names the option or the value, and
nothing touched."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from typer.testing import CliRunner

from snapshotter.cli.app import app
from snapshotter.configuration.settings import Settings
from snapshotter.engine import preflight
from snapshotter.engine.assembly import engine_config
from snapshotter.engine.connecting import reach
from snapshotter.engine.privileges import Privilege as Needed
from snapshotter.engine.privileges import lacking
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from snapshotter.testing.processes import free_port, wait_until
from streaming.mongo.deployment import connect
from streaming.mongo.errors import classify
from streaming.mongo.server_codes import Kind

Privilege = tuple[str, str, list[str]]
LISTS = ["listCollections"]


@pytest.fixture(scope="module")
def guarded() -> Iterator[MongoDeployment]:
    """A deployment with access control."""
    with start_mongodb(auth=True) as deployment:
        deployment.client()["shop"]["orders"].insert_one({"_id": 1})
        yield deployment


def run(folder: Path, uri: str, **options: object) -> tuple[int, str]:
    """``snapshotter run --once`` in this process; it must not get as far as Spark. Returns exit code and messages."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    config = {
        "name": "shop",
        "mongodb.connection.string": uri,
        "delta.warehouse": str(folder / "lake"),
        **named,
    }
    path = folder / "shop.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    result = CliRunner().invoke(app, ["run", "--once", "-c", str(path)])
    assert not (folder / "lake").exists(), "something was written"
    assert "Traceback" not in result.stderr
    return result.exit_code, result.stderr


def user(deployment: MongoDeployment, name: str, privileges: list[Privilege]) -> str:
    """The address for a user who may do these things, and nothing else."""
    admin = deployment.client().admin
    rights = [{"resource": {"db": d, "collection": c}, "actions": a} for d, c, a in privileges]
    admin.command("createRole", name, privileges=rights, roles=[])
    admin.command("createUser", name, pwd="secret-word", roles=[name])
    return deployment.uri.replace(deployment.uri[10 : deployment.uri.index("@")], f"{name}:secret-word")


def check(folder: Path, uri: str, **named: str) -> None:
    """Preflight alone, as it asks before an engine starts. Raises what is wrong."""
    options = {"name": "shop", "mongodb.connection.string": uri, "delta.warehouse": str(folder), **named}
    client: MongoClient[dict[str, Any]] = MongoClient(uri)
    with client:
        preflight.check(client, engine_config(Settings.from_options(options, {})))


def test_a_standalone_server(tmp_path: Path) -> None:
    """Exit 2 from the command itself: there is no change stream, and the message says how to get one."""
    with start_mongodb(standalone=True) as server:
        config = tmp_path / "shop.json"
        options = {
            "name": "shop",
            "mongodb.connection.string": server.uri,
            "delta.warehouse": str(tmp_path / "lake"),
        }
        config.write_text(json.dumps(options), encoding="utf-8")
        command = "import sys; from snapshotter.cli import main; sys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-c", command, "run", "-c", str(config)],
            capture_output=True,
            text=True,
            env={**os.environ, "SNAPSHOTTER_LOG_LEVEL": "info"},
            timeout=300,
            check=False,
        )
        assert done.returncode == 2, done.stderr
        assert "standalone server" in done.stderr
        assert "--replSet" in done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "lake").exists()
        assert server.client().list_database_names() == ["admin", "config", "local"]


def test_a_signal_collection_outside_the_captured_scope(tmp_path: Path, mongo_uri: str) -> None:
    """Exit 2, and the option is named, before anything is asked of the server."""
    scope = {"capture__scope": "database", "capture__target": "shop"}
    code, said = run(tmp_path, mongo_uri, **scope, signal__data__collection="other.signals")
    assert code == 2
    assert "signal.data.collection = other.signals" in said
    assert "capture.target" in said
    scope = {"capture__scope": "collection", "capture__target": "shop.orders"}
    strategy = {"incremental__snapshot__watermarking__strategy": "insert_insert"}
    code, said = run(tmp_path, mongo_uri, **scope, **strategy, signal__data__collection="shop.signals")
    assert code == 2
    assert "cluster_time" in said


def test_threads_of_python_that_are_not_threads_of_the_jvm(
    tmp_path: Path, mongo_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table's landing has its own session in its own thread, so PySpark has to keep the two together."""
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")
    code, said = run(tmp_path, mongo_uri)
    assert code == 2
    assert "PYSPARK_PIN_THREAD = false" in said


def test_an_unreachable_address(tmp_path: Path) -> None:
    """It is waited for, and each attempt is said; once they are used up, exit 4, for it may come back. The address is
    in the messages, its password is not."""
    address = f"mongodb://me:secret-word@127.0.0.1:{free_port()}/?replicaSet=rs&serverSelectionTimeoutMS=300"
    pauses = {"connect__max__attempts": 2, "connect__backoff__initial__delay__ms": 1}
    code, said = run(tmp_path, address, **pauses)
    assert code == 4
    assert "127.0.0.1" in said
    assert "attempt 1 of 2 in 0.001 s" in said
    assert "attempt 2 of 2 in 0.002 s" in said
    assert "gave up after 2 attempts to reconnect (connect.max.attempts)" in said
    assert "class: connection (source-unreachable), worth another attempt" in said
    assert "mongodb.connection.string" in said
    assert "secret-word" not in said


def test_a_mongodb_that_is_away_at_the_start_is_waited_for(tmp_path: Path) -> None:
    """An engine that is started before its MongoDB says so at once, and runs once that is there."""
    said: list[str] = []
    # One of its own, which a test may take away: the parameter asks for nothing else.
    with start_mongodb(set_parameters={"periodicNoopIntervalSecs": 10}) as deployment:
        node = deployment.kill(0)

        def say(text: str) -> None:
            said.append(text)
            if len(said) == 2:  # only now
                deployment.restart(node)

        options = {
            "name": "shop",
            "mongodb.connection.string": f"{deployment.uri}&serverSelectionTimeoutMS=200",
            "delta.warehouse": str(tmp_path / "lake"),
            "connect.backoff.initial.delay.ms": "50",
            "connect.backoff.max.delay.ms": "100",
            "connect.max.attempts": "10000",
        }
        config = engine_config(Settings.from_options(options, {}))
        check = partial(preflight.check, connect(config.uri), config)
        reach(check, config.reconnects, threading.Event(), say)
    assert len(said) >= 2
    assert all("MongoDB cannot be reached, and is waited for: attempt" in text for text in said)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_for_mongodb(tmp_path: Path, kind: signal.Signals) -> None:
    """Ctrl+C, and SIGTERM: the process ends with 0 before it has touched anything, in the midst of an attempt, too."""
    with waiting_for_mongodb(tmp_path) as process:
        wait_until(lambda: catches(process.pid, kind), "its handlers to be set")
        process.send_signal(kind)
        ends_untouched(process, tmp_path)


def test_a_signal_ends_it_whichever_thread_is_given_that(tmp_path: Path) -> None:
    """The kernel gives it to another one than Python's main thread where that was stopped, and has not run since."""
    with waiting_for_mongodb(tmp_path) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "checking MongoDB" in line:
                break
        another = max(int(task.name) for task in Path(f"/proc/{process.pid}/task").iterdir())
        assert another != process.pid
        assert ctypes.CDLL(None).tgkill(process.pid, another, signal.SIGTERM) == 0
        ends_untouched(process, tmp_path)


def waiting_for_mongodb(folder: Path) -> subprocess.Popen[str]:
    """An engine whose MongoDB is not there; it logs to its stderr."""
    config = folder / "shop.json"
    address = f"mongodb://127.0.0.1:{free_port()}/?replicaSet=rs&serverSelectionTimeoutMS=600000"
    options = {
        "name": "shop",
        "mongodb.connection.string": address,
        "delta.warehouse": str(folder / "lake"),
    }
    config.write_text(json.dumps(options), encoding="utf-8")
    command = "import sys; from snapshotter.cli import main; sys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", command, "--log-level", "debug", "run", "-c", str(config)],
        stderr=subprocess.PIPE,
        text=True,
    )


def ends_untouched(process: subprocess.Popen[str], folder: Path) -> None:
    """With 0, no stack, and nothing on disk."""
    try:
        _, said = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert not (folder / "lake").exists()


def catches(pid: int, kind: signal.Signals) -> bool:
    """Whether the process has a handler of its own for both signals, as the kernel knows."""
    caught = re.search(r"^SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return caught is not None and all(
        int(caught[1], 16) >> (one - 1) & 1 for one in (signal.SIGTERM, signal.SIGINT)
    )


def test_a_wrong_password(tmp_path: Path, guarded: MongoDeployment) -> None:
    """Exit 3, for a restart does not make it right; the options are named, the password is not shown."""
    address = guarded.uri.replace(guarded.uri[10 : guarded.uri.index("@")], "admin:secret-word")
    code, said = run(tmp_path, address)
    assert code == 3
    assert "mongodb.password" in said
    assert "secret-word" not in said


@pytest.mark.parametrize(
    ("name", "privileges", "missing", "where"),
    [
        ("no_stream", [("", "", ["find", *LISTS])], "changeStream", "all databases"),
        ("no_find", [("", "", ["changeStream", *LISTS])], "find", "all databases"),
        (
            "no_insert",
            [("", "", ["find", "changeStream", *LISTS]), ("shop", "signals", ["remove"])],
            "insert",
            "shop.signals",
        ),
        (
            "no_remove",
            [("", "", ["find", "changeStream", *LISTS]), ("shop", "signals", ["insert"])],
            "remove",
            "shop.signals",
        ),
    ],
)
def test_a_missing_privilege(
    tmp_path: Path,
    guarded: MongoDeployment,
    name: str,
    privileges: list[Privilege],
    missing: str,
    where: str,
) -> None:
    """Exit 3: user, privilege, resource and the option that needs it are named; nothing is tried out by writing."""
    uri = user(guarded, name, privileges)
    code, said = run(tmp_path, uri, signal__data__collection="shop.signals")
    assert code == 3, said
    assert f"{name}@admin lacks the privilege {missing!r} on {where}" in said
    assert ("signal.data.collection" if missing in ("insert", "remove") else "capture.scope") in said
    assert guarded.client()["shop"].list_collection_names() == ["orders"]


@pytest.mark.parametrize("where", [("local", "oplog.rs"), ("config", "collections"), ("admin", "x")])
@pytest.mark.parametrize("named", [True, False])
def test_databases_that_the_server_wants_by_name(
    guarded: MongoDeployment, where: tuple[str, str], named: bool
) -> None:
    """A right on all databases is none on ``local`` and ``config``: the server says so, and so does preflight."""
    database, collection = where
    resource = database if named else "", ""
    uri = user(guarded, f"reads-{named}-{database}", [(*resource, ["find"])])
    client: MongoClient[dict[str, Any]]
    with MongoClient(uri) as client:
        try:
            client[database][collection].find_one()
            allowed = True
        except OperationFailure as error:
            allowed = classify(error).kind is not Kind.PERMISSION
        missing = lacking(client, [Needed("find", database, collection, "a test")])[1]
    assert allowed == (not missing)

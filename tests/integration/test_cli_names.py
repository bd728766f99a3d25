"""Names of collections that there are not: said where they are given, with what is near them or what there is."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from signals.actions import ExecuteSnapshot, StopSnapshot
from signals.channels.inbox_channel import InboxChannel
from snapshotter.cli.app import app
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.reading.catalogue import digest_of
from snapshotter.reporting.status import (
    STATUS_FILE,
    CollectionReport,
    EngineState,
    RequestReport,
    RequestState,
    Status,
)
from snapshotter.state.journal import Journal
from snapshotter.state.storage import LocalStorage
from snapshotter.testing.processes import free_port
from streaming.namespaces import Namespace


@pytest.fixture
def shop(mongo_client: Any, database: str) -> Any:
    """A database of this test's own, with orders and customers."""
    for name in ("orders", "customers"):
        mongo_client[database][name].insert_one({"_id": 1})
    return mongo_client[database]


def invoke(folder: Path, uri: str, shop: Any, words: str, **more: str) -> Result:
    """A command on a configuration that captures the shop, in this process."""
    options = {
        "name": "shop",
        "mongodb.connection.string": uri,
        "delta.warehouse": str(folder / "lake"),
        "database.include.list": shop.name,
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    path = folder / "shop.json"
    path.write_text(json.dumps(options), encoding="utf-8")
    return CliRunner().invoke(app, [*words.split(), "-c", str(path)])


def test_config_says_what_matches_nothing(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """With the names near it, or else those that there are; a warning, for it may come later; output stays clean."""
    lists = rf"{shop.name}\.ordres,^x$"
    result = invoke(tmp_path, mongo_uri, shop, "config --json", collection__include__list=lists)
    assert (result.exit_code, json.loads(result.stdout)["name"]) == (0, "shop")
    near, far = result.stderr.splitlines()
    assert near.startswith("warning: collection.include.list: ")
    assert (
        f"matches no collection, nor does any other entry, so nothing is captured (near it: {shop.name}.o"
        in near
    )
    assert f"; there are {shop.name}.customers, {shop.name}.orders" in far or "and" in far
    quiet = invoke(tmp_path, mongo_uri, shop, "config --offline", collection__include__list=lists)
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    loaded = {"snapshot__include__collection__list": rf"{shop.name}\.ordres"}
    result = invoke(tmp_path, mongo_uri, shop, "config", **loaded)
    assert "warning: snapshot.include.collection.list: " in result.stderr


def test_config_goes_without_a_server(tmp_path: Path, shop: Any) -> None:
    """It is said that nobody looked; the settings are printed all the same."""
    away = f"mongodb://127.0.0.1:{free_port()}"
    quick = {"mongodb__server__selection__timeout__ms": "50"}
    result = invoke(tmp_path, away, shop, "config", **quick)
    assert result.exit_code == 0
    assert "note: nobody looked whether lists match what there is: " in result.stderr
    assert "capture.mode = " in result.stdout


@pytest.mark.parametrize("command", ["execute-snapshot", "stop-snapshot", "verify"])
def test_a_command_refuses_a_name_that_is_not_there(
    tmp_path: Path, mongo_uri: str, shop: Any, command: str
) -> None:
    """Exit code 2, with the name near it, and nothing is sent or started."""
    result = invoke(tmp_path, mongo_uri, shop, f"{command} {shop.name}.ordres")
    assert result.exit_code == 2, result.output
    assert f"{shop.name}.ordres is no captured collection (near it: {shop.name}.orders" in result.stderr
    assert not (tmp_path / "lake").exists()


def test_stop_snapshot_knows_what_was_asked_for(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """A collection that is gone, but of a request, can be stopped; any other with --force."""
    state = LocalStorage(tmp_path / "lake" / "_snapshotter" / "shop")
    part = CollectionReport(name=f"{shop.name}.gone", state=RequestState.RUNNING)
    request = RequestReport(id="r", state=RequestState.RUNNING, collections=(part,))
    status = Status(name="shop", state=EngineState.RUNNING, updated_at=datetime.now(UTC), requests=(request,))
    state.write_text(STATUS_FILE, status.to_json())
    for words in (f"{shop.name}.gone", f"{shop.name}.nowhere --force", f"{shop.name}.orders", ""):
        result = invoke(tmp_path, mongo_uri, shop, f"stop-snapshot {words}")
        assert result.exit_code == 0, result.output
    received = InboxChannel(state).poll()
    assert len(received) == 4
    assert all(isinstance(one.action, StopSnapshot) for one in received)


def test_an_id_that_no_document_has_is_said(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """With what ids look like there; it is sent, for its row may have to go."""
    sound = invoke(tmp_path, mongo_uri, shop, f"execute-snapshot {shop.name}.orders --key 1")
    assert (sound.exit_code, sound.stderr.count("warning")) == (0, 0)
    other = invoke(tmp_path, mongo_uri, shop, f'execute-snapshot {shop.name}.orders --key "1"')
    assert other.exit_code == 0, other.output
    text = (
        f'warning: no document of {shop.name}.orders has the id "1"; ids there look like 1; did you mean 1?'
    )
    assert text in other.stderr


def test_a_shell_completes_captured_collections(
    tmp_path: Path, mongo_uri: str, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are at MongoDB now."""
    assert invoke(tmp_path, mongo_uri, shop, "config --offline").exit_code == 0
    monkeypatch.setenv("_SNAPSHOTTER_COMPLETE", "complete_bash")
    words = f"snapshotter verify -c {tmp_path}/shop.json {shop.name}.or"
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    shown = CliRunner().invoke(app, [], prog_name="snapshotter")
    assert shown.stdout.split() == [f"{shop.name}.orders"]


@pytest.mark.parametrize(
    ("told", "exit_code", "said"),
    [
        ({"state": "completed"}, 0, "request q1 is completed"),
        ({"state": "failed", "reason": "no such index"}, 3, "request q1 failed: no such index"),
        ({"state": "running"}, 3, "request q1 has ended, and the engine no longer knows how"),
        (None, 3, "request q1 has ended, and the engine no longer knows how"),
    ],
)
def test_how_a_forgotten_request_ended(
    tmp_path: Path, mongo_uri: str, shop: Any, told: dict[str, str] | None, exit_code: int, said: str
) -> None:
    """What the engine remembers no longer is in the status collection: what is waited for is looked for there."""
    shop["signals"].insert_one({"_id": "other"})
    if told is not None:
        shop["signals_status"].insert_one(
            {"_id": {"id": "q1", "engine": "shop"}, "id": "q1", "engine": "shop", **told}
        )
    ask = ExecuteSnapshot("q1", (f"{shop.name}.orders",))
    journal = Journal(LocalStorage(tmp_path / "lake" / "_snapshotter" / "shop"))
    request = SnapshotRequest("q1", (Wanted(Namespace(shop.name, "orders")),), digest=digest_of(ask))
    journal.add(request)
    over = RequestProgress.accepted(request)
    journal.forget(Progress(3, requests=(replace(over.with_task(over.tasks[0].stopped()), ended_in=3),)))
    words = f"execute-snapshot {shop.name}.orders --id q1 --wait --timeout 30"
    result = invoke(tmp_path, mongo_uri, shop, words, signal__data__collection=f"{shop.name}.signals")
    assert (result.exit_code, result.stdout) == (exit_code, "q1\n"), result.output
    assert said in result.stderr

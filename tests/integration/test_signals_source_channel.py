"""Signals through a real signal collection: written by the command line, read as the stream delivers them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from bson import encode
from pymongo import MongoClient
from typer.testing import CliRunner

from signals.actions import Condition, ExecuteSnapshot, PauseSnapshot
from signals.channels.source_channel import SourceChannel, decode
from signals.errors import DuplicateSignal
from snapshotter.cli.app import app
from snapshotter.core.values.progress import Progress
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import LocalStorage
from snapshotter.testing.mongodb import start_mongodb


def test_what_is_sent_arrives_in_the_stream(mongo_client: MongoClient[dict[str, Any]], database: str) -> None:
    """The change stream delivers the document, and decoding it gives the action that was sent."""
    action = ExecuteSnapshot(
        "r1", ("shop.orders",), additional_conditions=(Condition("shop.orders", '{"a": 1}'),)
    )
    channel = SourceChannel(mongo_client, f"{database}.signals")
    with mongo_client[database].watch(max_await_time_ms=5_000) as stream:
        assert channel.send(action) == "r1"
        document = next(stream)["fullDocument"]
    assert list(document) == ["_id", "type", "data"]
    assert decode(encode(document)).parse() == action


def test_an_id_is_sent_once(mongo_client: MongoClient[dict[str, Any]], database: str) -> None:
    """The second signal of an id is refused with the collection named, and the first stays as it is."""
    channel = SourceChannel(mongo_client, f"{database}.signals")
    channel.send(PauseSnapshot("r1"))
    with pytest.raises(DuplicateSignal, match=rf"'r1' is in {database}.signals already"):
        channel.send(ExecuteSnapshot("r1", ("a.b",)))
    assert mongo_client[database].signals.find_one() == {"_id": "r1", "type": "pause-snapshot", "data": {}}


def test_the_command_line_uses_the_signal_collection(
    mongo_client: MongoClient[dict[str, Any]], mongo_uri: str, database: str, tmp_path: Path
) -> None:
    """With a signal collection ``execute-snapshot`` inserts a document, and leaves the inbox alone."""
    config = tmp_path / "shop.json"
    options = {
        "name": "shop",
        "mongodb.connection.string": mongo_uri,
        "signal.data.collection": f"{database}.signals",
        "delta.warehouse": str(tmp_path / "lake"),
    }
    config.write_text(json.dumps(options), encoding="utf-8")
    state = tmp_path / "lake" / "_snapshotter" / "shop"
    ProgressStore(LocalStorage(state)).save(Progress(batch_id=0))  # an engine has run
    orders = mongo_client[database].create_collection("orders").full_name
    arguments = ["execute-snapshot", "-c", str(config), orders, "--filter", "{n: ObjectId()}"]
    assert CliRunner().invoke(app, arguments).exit_code == 2
    arguments[-1] = "{n: NumberLong(5)}"
    result = CliRunner().invoke(app, [*arguments, "--id", "r2"])
    assert (result.exit_code, result.stdout) == (0, "r2\n"), result.output
    raw = mongo_client[database].get_collection("signals").find_one({"_id": "r2"})
    assert raw is not None
    condition = Condition(orders, '{"n": {"$numberLong": "5"}}')
    assert decode(encode(raw)).parse() == ExecuteSnapshot("r2", (orders,), additional_conditions=(condition,))
    assert not (state / "inbox").exists()


def test_a_standalone_server_is_refused(tmp_path: Path) -> None:
    """No change stream would ever deliver the signal: exit 2, and nothing is inserted."""
    with start_mongodb(standalone=True) as server:
        config = tmp_path / "shop.properties"
        lines = [
            "name=shop",
            f"debezium.source.mongodb.connection.string={server.uri}",
            "debezium.source.signal.data.collection=shop.signals",
            f"delta.warehouse={tmp_path}",
        ]
        config.write_text("\n".join(lines), encoding="utf-8")
        result = CliRunner().invoke(app, ["execute-snapshot", "-c", str(config), "shop.orders"])
        assert result.exit_code == 2
        assert "standalone server" in result.stderr
        assert "--replSet" in result.stderr
        assert server.client()["shop"].list_collection_names() == []

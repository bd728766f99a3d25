"""``snapshotter doctor`` on a real server: each finding made to happen, its exit code, and its remedy."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from snapshotter.cli.app import app
from snapshotter.configuration.settings import Settings
from snapshotter.doctor.examination import examine
from snapshotter.doctor.finding import Finding
from snapshotter.reporting.status import STATUS_FILE, EngineState, Status
from snapshotter.state.storage import LocalStorage
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from snapshotter.testing.processes import free_port
from tests.support.mongos import mongos_before
from tests.support.next_steps import OPEN, Said, broken_in
from tests.support.oplogs import forget, short_oplog

IMAGES = {"capture.mode.full.update.type": "post_image"}


@pytest.fixture
def shop(mongo_client: Any, database: str) -> Any:
    """A database of this test's own, with a collection of orders."""
    mongo_client[database]["orders"].insert_many([{"_id": n} for n in range(5)])
    return mongo_client[database]


def options(folder: Path, uri: str, shop: Any, **more: str) -> dict[str, str]:
    """Of an engine that captures the shop."""
    return {
        "name": "shop",
        "mongodb.connection.string": uri,
        "delta.warehouse": str(folder / "lake"),
        "database.include.list": shop.name,
        **more,
    }


def config_file(folder: Path, given: dict[str, str]) -> Path:
    path = folder / "shop.json"
    path.write_text(json.dumps(given), encoding="utf-8")
    return path


def doctor(path: Path, *arguments: str) -> Result:
    """The command, in this process."""
    result = CliRunner().invoke(app, ["doctor", "-c", str(path), *arguments], env={"COLUMNS": "80"})
    assert "Traceback" not in result.output
    return result


def findings(given: dict[str, str]) -> list[Finding]:
    """What is found, each remedy one that can be followed."""
    found = examine(Settings.from_options(given, {}))
    remedies = [re.sub(r"\b(?:shop|test_\w+|oplog)\.\w+", OPEN, one.remedy) for one in found]
    assert not [why for remedy in remedies for why in broken_in(Said("doctor", remedy))]
    return found


def of(found: list[Finding], subject: str) -> list[tuple[str, str]]:
    return [(one.severity.value, one.what) for one in found if one.subject == subject]


def severities(found: list[Finding]) -> set[str]:
    return {one.severity.value for one in found}


def test_a_sound_one(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """Exit 0: nothing worse than a note, the command that comes next, and nothing was written."""
    path = config_file(tmp_path, options(tmp_path, mongo_uri, shop, **{"engine.oplog.warning.hours": "0"}))
    result = doctor(path)
    assert result.exit_code == 0, result.output
    assert f"1 collection is captured: {shop.name}.orders" in " ".join(result.stdout.split())
    assert "0 errors, 0 warnings" in result.stdout
    assert result.stdout.splitlines()[-1] == f"next: snapshotter run -c {path}"
    assert list(tmp_path.iterdir()) == [path]


def test_collections_of_each_kind(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """Capped, clustered, time series, a view, a collation, ids of several types: each by its name."""
    shop.create_collection("log", capped=True, size=4_096)
    shop.create_collection("near", clusteredIndex={"key": {"_id": 1}, "unique": True})
    shop.create_collection("beats", timeseries={"timeField": "at"})
    shop.create_collection("paid", viewOn="orders", pipeline=[])
    shop.create_collection("people", collation={"locale": "en", "strength": 2}).insert_one({"_id": "Ann"})
    shop.create_collection("numbered", collation={"locale": "en", "strength": 2}).insert_one({"_id": 1})
    shop["mixed"].insert_many([{"_id": 1}, {"_id": "one"}])
    shop["whole"].insert_many([{"_id": 1}, {"_id": 2.5}])
    found = findings(options(tmp_path, mongo_uri, shop))
    expected = {
        "log": ("note", "is capped"),
        "near": ("note", "is clustered"),
        "beats": ("note", "is a time-series collection"),
        "paid": ("note", f"is a view of {shop.name}.orders"),
        "people": ("warning", "read as one window"),
        "numbered": ("note", "its ids hold none"),
        "mixed": ("note", "from number to string"),
    }
    for name, (severity, said) in expected.items():
        ((actual, what),) = of(found, f"{shop.name}.{name}")
        assert actual == severity, name
        assert said in what
    assert not of(found, f"{shop.name}.whole")
    assert not of(found, f"{shop.name}.orders")


def test_a_list_that_names_what_cannot_be_captured_or_is_not_there(
    tmp_path: Path, mongo_uri: str, shop: Any
) -> None:
    """A view by its name is a warning; a misspelt name is said with the one near it, by the name of the option."""
    shop.create_collection("paid", viewOn="orders", pipeline=[])
    lists = {"collection.include.list": rf"{shop.name}\.paid,{shop.name}\.ordres"}
    found = findings(options(tmp_path, mongo_uri, shop, **lists))
    ((severity, _),) = of(found, f"{shop.name}.paid")
    assert severity == "warning"
    listed = of(found, "collection.include.list")
    assert [severity for severity, _ in listed] == ["warning", "warning"]
    assert (
        f"matches no collection, nor does any other entry, so nothing is captured (near it: {shop.name}.o"
        in listed[1][1]
    )
    assert ("warning", "no collection is captured that there is by now") in of(found, "collections")


def test_post_images(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """Off though they are counted on: a warning whose command switches them on; then it is gone."""
    found = findings(options(tmp_path, mongo_uri, shop, **IMAGES))
    (lacking,) = (one for one in found if one.subject == f"{shop.name}.orders")
    assert (lacking.severity, "changeStreamPreAndPostImages" in lacking.remedy) == ("warning", True)
    enabled = findings(options(tmp_path, mongo_uri, shop, **IMAGES, **{"engine.post.images.enable": "true"}))
    assert [severity for severity, _ in of(enabled, f"{shop.name}.orders")] == ["note"]
    shop.command({"collMod": "orders", "changeStreamPreAndPostImages": {"enabled": True}})
    assert not of(findings(options(tmp_path, mongo_uri, shop, **IMAGES)), f"{shop.name}.orders")


def test_a_small_oplog(tmp_path: Path) -> None:
    """It is said for how long it holds a position, and that a backfill takes longer; exit 1."""
    with short_oplog() as deployment:
        database = deployment.client()["shop"]
        database["orders"].insert_many([{"_id": n} for n in range(10_000)])
        forget(deployment)
        given = options(tmp_path, deployment.uri, database)
        found = findings(given)
        ((severity, what),) = of(found, "runway")
        assert (severity, "under engine.oplog.warning.hours=48" in what) == ("warning", True)
        assert of(found, "backfill")
        assert doctor(config_file(tmp_path, given)).exit_code == 1


def test_a_warehouse_that_cannot_be_written_to(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """A file is in the way: an error, exit 3; the rest is looked at all the same."""
    (tmp_path / "lake").write_text("a file")
    path = config_file(tmp_path, options(tmp_path, mongo_uri, shop))
    result = doctor(path, "--json")
    assert result.exit_code == 3
    told = json.loads(result.stdout)
    assert told["exit_code"] == 3
    assert told["next"] == f"snapshotter doctor -c {path}"
    (refused,) = (one for one in told["findings"] if one["severity"] == "error")
    assert (refused["subject"], "a file is in the way" in refused["what"]) == ("delta.warehouse", True)
    assert any(one["area"] == "what is captured" for one in told["findings"])


def test_a_warehouse_that_cannot_be_written(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """Not even by an administrator."""
    given = {**options(tmp_path, mongo_uri, shop), "delta.warehouse": "/proc/lake"}
    ((severity, _), *_) = of(findings(given), "delta.warehouse")
    assert severity == "error"


def test_clocks_that_differ(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """This machine's clock as one that is wrong would show it."""
    settings = Settings.from_options(options(tmp_path, mongo_uri, shop), {})
    ((severity, what),) = of(examine(settings, lambda: time.time() + 120), "clocks")
    assert (severity, "120 s ahead of MongoDB's" in what) == ("warning", True)


def test_options_without_effect_and_a_port_that_is_taken(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """What a start would warn of, and what it would refuse, side by side."""
    found = findings(
        options(tmp_path, mongo_uri, shop, **{"engine.watermarks.keep": "true", "key.converter": "x"})
    )
    assert [severity for severity, _ in of(found, "options")] == ["warning", "warning"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = options(tmp_path, mongo_uri, shop, **{"metrics.port": str(taken.getsockname()[1])})
        assert [severity for severity, _ in of(findings(given), "metrics.port")] == ["error"]
        status = Status(
            name="shop", state=EngineState.RUNNING, updated_at=datetime.now(UTC), snapshot_speed=2_000
        )
        LocalStorage(tmp_path / "lake" / "_snapshotter" / "shop").write_text(STATUS_FILE, status.to_json())
        found = findings(given)
    assert not of(found, "metrics.port"), "the engine that runs has it"
    assert all("2,000 documents a second, as measured" in what for _, what in of(found, "backfill"))


def test_a_sharded_cluster(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """Through a router, which has no oplog to look at: what can be told is told, and nothing is an error."""
    with mongos_before(mongo_uri) as mongos:
        found = findings(options(tmp_path, mongos.uri, shop))
    assert "error" not in severities(found)
    assert any("a sharded cluster" in what for _, what in of(found, "deployment"))
    assert of(found, "collections") == [("ok", f"1 collection is captured: {shop.name}.orders")]


def test_a_wrong_configuration_and_nobody_there(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """Options that fight are refused with 2, as by each command; a MongoDB that is away is an error among others."""
    wrong = options(tmp_path, mongo_uri, shop, **{"database.exclude.list": "other"})
    result = doctor(config_file(tmp_path, wrong))
    assert result.exit_code == 2
    assert "cannot be set together with database.include.list" in result.stderr
    away = options(tmp_path, f"mongodb://127.0.0.1:{free_port()}", shop)
    result = doctor(config_file(tmp_path, {**away, "mongodb.server.selection.timeout.ms": "100"}))
    assert result.exit_code == 3
    assert "mongodb.connection.string" in result.stdout
    assert "delta.warehouse" in result.stdout


def test_nothing_is_cut_at_80_columns(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """Names of collections and options are whole, however long."""
    name = f"{'very-long.' * 8}name"
    shop.create_collection(name, capped=True, size=4_096)
    shown = doctor(config_file(tmp_path, options(tmp_path, mongo_uri, shop))).stdout
    assert f"{shop.name}.{name}" in shown
    words = [line.split() for line in shown.splitlines() if len(line) > 80]
    assert all(any(len(word) > 40 for word in line) for line in words)


# Privileges


@pytest.fixture(scope="module")
def guarded() -> Iterator[MongoDeployment]:
    """A server with access control, and a shop."""
    with start_mongodb(auth=True) as deployment:
        shop = deployment.client()["shop"]
        shop["orders"].insert_many([{"_id": n} for n in range(3)])
        shop.create_collection("log", capped=True, size=4_096)
        yield deployment


def examined(deployment: MongoDeployment, folder: Path, name: str, actions: list[str]) -> list[Finding]:
    """By a user of this name who may do this in all databases, and nothing else."""
    deployment.add_user(
        name, [{"resource": {"db": "", "collection": ""}, "actions": actions}], password="secret"
    )
    uri = deployment.bare_uri.replace("//", f"//{name}:secret@") + "&authSource=admin"
    found = findings(options(folder, uri, deployment.client()["shop"], **{"engine.oplog.warning.hours": "0"}))
    assert "secret" not in str(found)
    return found


READS = ["find", "changeStream", "listCollections"]


def test_the_least_role_is_enough(tmp_path: Path, guarded: MongoDeployment) -> None:
    """What an engine can do without is a note, with the privilege by its name; nothing is worse."""
    found = examined(guarded, tmp_path, "least", READS)
    assert severities(found) <= {"ok", "note"}
    wishes = [what for _, what in of(found, "collStats")]
    assert len(wishes) == 2
    assert "the MongoDB user least@admin lacks the privilege 'collStats' on local.oplog.rs" in " ".join(
        wishes
    )
    assert "on the cluster" in of(found, "serverStatus")[0][1]
    assert "on local.oplog.rs" in of(found, "find")[0][1]


@pytest.mark.parametrize("action", READS)
def test_one_privilege_less(tmp_path: Path, guarded: MongoDeployment, action: str) -> None:
    """An error that names it and what to grant; all that can be looked at without it is looked at."""
    found = examined(guarded, tmp_path, f"no-{action}", [one for one in READS if one != action])
    errors = [one for one in found if one.severity == "error" and one.subject == action]
    assert f"lacks the privilege '{action}' on all databases" in errors[0].what
    resource = {"resource": {"db": "", "collection": ""}, "actions": [action]}
    assert json.dumps([resource]) in errors[0].remedy
    assert {"ok"} == {one.severity for one in found if one.area == "warehouse"}
    if action != "listCollections":
        assert [severity for severity, _ in of(found, "shop.log")] == ["note"]
    if action == "changeStream":
        ((severity, what),) = of(found, "oplog")
        assert (severity, "lacks the privilege 'find' on local.oplog.rs" in what) == ("note", True)
    if action == "find":
        assert any("on shop.log" in what for severity, what in of(found, "find") if severity == "warning")


def test_a_user_of_one_collection(tmp_path: Path, guarded: MongoDeployment) -> None:
    """Nothing is worse than a note; one is that it may not ask how the server reads a list, with the privilege."""
    privileges = [
        {"resource": {"db": "shop", "collection": "orders"}, "actions": ["find", "changeStream"]},
        {"resource": {"db": "shop", "collection": ""}, "actions": ["listCollections"]},
    ]
    guarded.add_user("single", privileges, password="secret")
    uri = guarded.bare_uri.replace("//", "//single:secret@") + "&authSource=admin"
    narrow = {
        "capture.scope": "collection",
        "capture.target": "shop.orders",
        "engine.oplog.warning.hours": "0",
    }
    found = findings(options(tmp_path, uri, guarded.client()["shop"], **narrow))
    assert severities(found) <= {"ok", "note"}
    assert of(found, "collections") == [("ok", "1 collection is captured: shop.orders")]
    ((severity, what),) = of(found, "lists")
    assert (severity, "single@admin lacks the privilege 'find' on shop" in what) == ("note", True)

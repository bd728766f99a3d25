"""The least that each way of running needs, on a server with access control.

The roles are those of docs/privileges.md, read from the page: with them everything works, and with one action less of
any of them the engine refuses to start, says which one on which resource, and ends with 3. That it is no more than the
server itself demands is seen by what each part does at the server.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from pyspark.sql import SparkSession
from structlog.testing import capture_logs
from typer.testing import CliRunner

from snapshotter.cli.app import app
from snapshotter.configuration.settings import Settings
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.watermark_ids import Strategy
from snapshotter.core.values.window import WindowId
from snapshotter.engine import preflight
from snapshotter.engine.assembly import engine_config
from snapshotter.engine.privileges import covers, needed, warn_of_wishes
from snapshotter.errors import EXIT_DEFINITE, DefiniteError, exit_code
from snapshotter.reading.ranges import IdProber, is_simple_collation
from snapshotter.reading.stored_images import StoredImages, lost_without
from snapshotter.reading.watermarks import CausalClock, watermark_writer
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storages import storage_for
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from streaming.mongo.deployment import majority_time
from streaming.mongo.errors import AccessDeniedError, classify
from streaming.mongo.server_codes import Kind
from streaming.namespaces import Namespace
from tests.support.changes import read_since
from tests.support.engines import SECONDS, Lab

PAGE = (Path(__file__).parents[2] / "docs" / "privileges.md").read_text(encoding="utf-8")
ROLES: dict[str, list[dict[str, Any]]] = {
    role["role"]: role["privileges"]
    for role in map(json.loads, re.findall(r"createRole\((\{.*?\n\})\)", PAGE, re.DOTALL))
}
ORDERS = Namespace("shop", "orders")
CLUSTER_TIME = {"incremental.snapshot.watermarking.strategy": "cluster_time"}
SIGNALS = {"signal.data.collection": "shop.signals"}
DATABASE = {"capture.scope": "database", "capture.target": "shop"}
IMAGES = {"capture.mode.full.update.type": "post_image", "engine.post.images.enable": "true"}
WAYS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "deployment": (("snapshotterReads",), CLUSTER_TIME),
    "deployment, signals": (("snapshotterSignals",), SIGNALS),
    "deployment, insert_delete": (
        ("snapshotterSignals",),
        {**SIGNALS, "incremental.snapshot.watermarking.strategy": "insert_delete"},
    ),
    "deployment, post-images": (("snapshotterReads", "snapshotterPostImages"), {**CLUSTER_TIME, **IMAGES}),
    "database": (("snapshotterDatabaseReads",), {**DATABASE, **CLUSTER_TIME}),
    "database, signals": (("snapshotterDatabase",), {**DATABASE, **SIGNALS}),
    "collection": (
        ("snapshotterCollection",),
        {"capture.scope": "collection", "capture.target": "shop.orders", **CLUSTER_TIME},
    ),
}
"""Each way of running: the roles that the page gives for it, and its options."""

Privileges = list[dict[str, Any]]


def of(*roles: str) -> Privileges:
    return [privilege for role in roles for privilege in ROLES[role]]


def without(privileges: Privileges, at: int, action: str) -> Privileges:
    """The privileges but for one action of the one at this place."""
    fewer = [dict(privilege) for privilege in privileges]
    fewer[at]["actions"] = [one for one in fewer[at]["actions"] if one != action]
    return [privilege for privilege in fewer if privilege["actions"]]


def place(resource: dict[str, str]) -> str:
    """A resource as messages name it."""
    database, collection = resource["db"], resource["collection"]
    return f"{database}.{collection}" if collection else database or "all databases"


@pytest.fixture(scope="module")
def guarded() -> Iterator[MongoDeployment]:
    """A server with access control."""
    with start_mongodb(auth=True, set_parameters={"periodicNoopIntervalSecs": 1}) as deployment:
        deployment.client()["other"]["things"].insert_one({"_id": 1})
        yield deployment


@pytest.fixture
def shop(guarded: MongoDeployment) -> Iterator[Any]:
    """The database that the page's roles are about, with a collection of orders; gone afterwards."""
    database = guarded.client()["shop"]
    database["orders"].insert_many([{"_id": f"order {n:03d}", "total": n} for n in range(30)])
    database.create_collection("signals")
    yield database
    database.client.drop_database("shop")


def user(guarded: MongoDeployment, privileges: Privileges) -> str:
    """The address for somebody new who has exactly these privileges."""
    name = f"user-{uuid.uuid4().hex[:8]}"
    guarded.add_user(name, privileges, password="secret-word")
    return guarded.bare_uri.replace("//", f"//{name}:secret-word@") + "&authSource=admin"


def config_file(folder: Path, uri: str, options: dict[str, str]) -> Path:
    named = {"name": "shop", "mongodb.connection.string": uri, "delta.warehouse": str(folder / "lake")}
    path = folder / "shop.json"
    path.write_text(json.dumps({**named, **options}), encoding="utf-8")
    return path


def check(uri: str, options: dict[str, str]) -> None:
    """Preflight, as before any start. Raises what is wrong."""
    named = {"name": "shop", "mongodb.connection.string": uri, "delta.warehouse": "/nowhere"}
    client: MongoClient[dict[str, Any]]
    with MongoClient(uri) as client:
        preflight.check(client, engine_config(Settings.from_options({**named, **options}, {})))


@pytest.mark.parametrize("way", WAYS)
def test_each_privilege_is_enough_and_none_is_too_many(way: str, guarded: MongoDeployment, shop: Any) -> None:
    """Preflight passes with the page's roles. Without any one of their actions it names that action, the resource, the
    option that needs it, and what to grant."""
    roles, options = WAYS[way]
    privileges = of(*roles)
    check(user(guarded, privileges), options)
    tried = 0
    for at, privilege in enumerate(privileges):
        for action in privilege["actions"]:
            with pytest.raises(DefiniteError) as caught:
                check(user(guarded, without(privileges, at, action)), options)
            where = place(privilege["resource"])
            assert f"lacks the privilege {action!r} on {where}, which" in caught.value.message
            assert re.search(
                r"which (capture\.scope|engine\.\S+|signal\.data\.collection) ", caught.value.message
            )
            assert json.dumps({"resource": privilege["resource"], "actions": [action]}) in str(
                caught.value.next_step
            )
            assert exit_code(caught.value) == EXIT_DEFINITE
            tried += 1
    assert tried == sum(len(privilege["actions"]) for privilege in privileges)


def test_all_that_is_missing_is_named_at_once(guarded: MongoDeployment, tmp_path: Path) -> None:
    """By the command, which ends with 3 before it has written anything."""
    uri = user(guarded, [{"resource": {"db": "", "collection": ""}, "actions": ["find"]}])
    result = CliRunner().invoke(app, ["run", "--once", "-c", str(config_file(tmp_path, uri, SIGNALS))])
    assert result.exit_code == EXIT_DEFINITE, result.stderr
    for action, where in (
        ("changeStream", "all databases"),
        ("listCollections", "all databases"),
        ("insert", "shop.signals"),
        ("remove", "shop.signals"),
        ("insert", "shop.signals_status"),
        ("update", "shop.signals_status"),
    ):
        assert f"the privilege {action!r} on {where}" in " ".join(result.stderr.split())
    assert not (tmp_path / "lake").exists()
    assert guarded.client()["shop"].list_collection_names() == []


def test_nobody_is_refused(guarded: MongoDeployment, tmp_path: Path) -> None:
    """Without credentials, where the server wants some: exit 3, and the options for them."""
    path = config_file(tmp_path, guarded.bare_uri, CLUSTER_TIME)
    result = CliRunner().invoke(app, ["run", "--once", "-c", str(path)])
    assert result.exit_code == EXIT_DEFINITE, result.stderr
    assert "mongodb.user" in result.stderr
    assert not (tmp_path / "lake").exists()


def test_a_narrow_user_needs_a_narrow_scope(guarded: MongoDeployment) -> None:
    """Who may read one database, or one collection, may not follow a deployment: ``capture.scope`` is named."""
    for role, way in (("snapshotterDatabaseReads", "database"), ("snapshotterCollection", "collection")):
        uri = user(guarded, of(role))
        check(uri, WAYS[way][1])
        with pytest.raises(DefiniteError, match=r"all databases, which capture\.scope = deployment needs"):
            check(uri, CLUSTER_TIME)


def test_options_that_need_less(guarded: MongoDeployment) -> None:
    """Without a status collection its privileges are not asked for; where watermarks are kept, nothing is removed."""
    signals = of("snapshotterSignals")
    check(user(guarded, signals[:-1]), {**SIGNALS, "engine.status.collection": "false"})
    check(user(guarded, without(signals, 1, "remove")), {**SIGNALS, "engine.watermarks.keep": "true"})
    kept_in_vain = {"engine.watermarks.keep": "true", **WAYS["deployment, insert_delete"][1]}
    with pytest.raises(DefiniteError, match=r"'remove' on shop\.signals"):
        check(user(guarded, without(signals, 1, "remove")), kept_in_vain)


def test_sizes_are_only_wished_for(guarded: MongoDeployment) -> None:
    """A start without ``collStats`` goes on, and says what that means; with the page's role for it nothing is said."""
    options = {"name": "x", "mongodb.connection.string": "mongodb://h", "delta.warehouse": "/nowhere"}
    config = engine_config(Settings.from_options({**options, **CLUSTER_TIME}, {}))
    client: MongoClient[Any]
    for roles, said in ((("snapshotterReads",), 1), (("snapshotterReads", "snapshotterSizes"), 0)):
        with MongoClient(user(guarded, of(*roles))) as client, capture_logs() as logs:
            warn_of_wishes(client, config)
        assert [log["log_level"] for log in logs] == ["warning"] * said
        assert said == str(logs).count("lacks the privilege 'collStats' on all databases")


def test_roles_of_mongodbs_own(guarded: MongoDeployment) -> None:
    """``readAnyDatabase`` is enough for a whole deployment, ``read`` for one database."""
    admin = guarded.client()["admin"]
    for role, where, way in (("readAnyDatabase", "admin", "deployment"), ("read", "shop", "database")):
        name = f"{role}-{uuid.uuid4().hex[:8]}"
        admin.command("createUser", name, pwd="secret-word", roles=[{"role": role, "db": where}])
        check(guarded.bare_uri.replace("//", f"//{name}:secret-word@") + "&authSource=admin", WAYS[way][1])


def test_shard_keys() -> None:
    """Through mongos the role for it is asked for as well, and nothing else."""
    options = {"name": "x", "mongodb.connection.string": "mongodb://h", "delta.warehouse": "/nowhere"}
    config = engine_config(Settings.from_options(options, {}))
    more = set(needed(config, sharded=True)) - set(needed(config))
    assert [{"resource": one.resource, "actions": [one.action]} for one in more] == of("snapshotterSharded")


def open_stream(client: MongoClient[Any]) -> None:
    client.watch(full_document="updateLookup").close()


def read_documents(client: MongoClient[Any]) -> None:
    assert IdProber(client).max_bound(ORDERS) is not None
    assert client["shop"]["orders"].estimated_document_count() == 30


def write_watermarks(client: MongoClient[Any], *, closed: bool = True) -> None:
    how = Strategy.INSERT_INSERT, client, "shop", Namespace("shop", "signals"), CausalClock()
    writer, windows = watermark_writer(*how), [WindowId("0123456789ab", 1)]
    writer.low(windows)
    writer.high(windows, majority_time(client))
    if closed:
        writer.discard(windows)
        writer.clean_up("ba9876543210")


def write_status(client: MongoClient[Any]) -> None:
    update = [{"$replaceWith": {"$mergeObjects": ["$$ROOT", {"state": "x"}]}}]
    client["shop"]["signals_status"].update_one({"_id": "a/b"}, update, upsert=True)


def switch_post_images_on(client: MongoClient[Any]) -> None:
    on = {"changeStreamPreAndPostImages": {"enabled": True}}
    client["shop"].command({"collMod": "orders", **on})


PARTS: dict[str, tuple[Callable[[MongoClient[Any]], object], str, tuple[str, ...]]] = {
    "the change stream": (open_stream, "snapshotterReads", ("find", "changeStream")),
    "chunks": (read_documents, "snapshotterReads", ("find",)),
    "collations": (
        lambda client: is_simple_collation(client, ORDERS),
        "snapshotterReads",
        ("listCollections",),
    ),
    "watermarks": (write_watermarks, "snapshotterSignals", ("insert", "remove")),
    "the status": (write_status, "snapshotterSignals", ("insert", "update")),
    "post-images": (switch_post_images_on, "snapshotterPostImages", ("collMod",)),
}
"""What parts do at the server; the role that allows it; and the actions of it that they need."""


@pytest.mark.parametrize("part", PARTS)
def test_the_server_demands_what_is_asked_for(part: str, guarded: MongoDeployment, shop: Any) -> None:
    """Each part works with its role, and the server refuses it without any one action: permission, exit 3, never an
    empty answer. So no role of the page has an action too many."""
    does, role, actions = PARTS[part]
    privileges = of(role)
    client: MongoClient[Any]
    with MongoClient(user(guarded, privileges)) as client:
        does(client)
    shop["signals_status"].drop()
    for at, privilege in enumerate(privileges):
        if part in ("watermarks", "the status") and at != {"watermarks": 1, "the status": 2}[part]:
            continue
        for action in set(actions) & set(privilege["actions"]):
            with MongoClient(user(guarded, without(privileges, at, action))) as client:
                with pytest.raises(OperationFailure) as caught:
                    does(client)
                assert classify(caught.value).kind is Kind.PERMISSION, caught.value
                assert exit_code(caught.value) == EXIT_DEFINITE


def test_a_user_without_find_gets_no_documents_looked_up(guarded: MongoDeployment, shop: Any) -> None:
    """The stream's own reader, as it runs beside the executors: permission, not rows without documents."""
    start = majority_time(guarded.client())
    shop["orders"].update_one({"_id": "order 001"}, {"$set": {"total": -1}})
    whole = of("snapshotterReads")
    (row,) = read_since(user(guarded, whole), start, database__include__list="shop")
    assert row["document"]["total"] == -1
    for action in ("find", "changeStream"):
        with pytest.raises(AccessDeniedError):
            read_since(user(guarded, without(whole, 0, action)), start, database__include__list="shop")


def test_post_images_of_collections_that_nobody_may_look_at(guarded: MongoDeployment, shop: Any) -> None:
    """Taken away while an engine runs, ``listCollections`` and ``collMod`` are warned of."""
    for privileges, said in (
        (of("snapshotterReads"), "engine.post.images.enable cannot switch them on"),
        (without(of("snapshotterReads"), 0, "listCollections"), "not authorized"),
    ):
        client: MongoClient[Any]
        with MongoClient(user(guarded, privileges)) as client, capture_logs() as logs:
            StoredImages(client, enable=True, lost=lost_without(before=False, after=True)).look([ORDERS])
        assert [log["log_level"] for log in logs] == ["warning"]
        assert said in str(logs)


def test_verify_refuses_to_compare_a_part(guarded: MongoDeployment, shop: Any, tmp_path: Path) -> None:
    """A user who sees some of the captured collections is told what he lacks; nothing is called equal."""
    (everything,) = of("snapshotterReads")
    some = [{"resource": {"db": "shop", "collection": "orders"}, "actions": everything["actions"]}]
    path = config_file(tmp_path, user(guarded, some), CLUSTER_TIME)
    result = CliRunner().invoke(app, ["verify", "-c", str(path)])
    assert result.exit_code == EXIT_DEFINITE
    said = " ".join(result.stderr.split())
    assert "lacks the privilege 'find' on all databases" in said
    assert "the privilege 'listCollections' on all databases" in said
    assert "changeStream" not in said


def test_who_may_only_send(guarded: MongoDeployment, shop: Any, tmp_path: Path) -> None:
    """With ``insert`` alone a signal is sent, with a warning that nobody looked whether there are such collections.
    Without it the command ends with 3."""
    # Of an engine that has run: before that, signals wait in the inbox.
    settings = Settings.load(config_file(tmp_path, guarded.uri, SIGNALS))
    ProgressStore(storage_for(settings.state_location())).save(Progress(batch_id=0))
    for privileges, code in ((of("snapshotterSender"), 0), ([], EXIT_DEFINITE)):
        path = config_file(tmp_path, user(guarded, privileges), SIGNALS)
        result = CliRunner().invoke(app, ["execute-snapshot", "-c", str(path), "shop.orders", "--id", "sent"])
        assert result.exit_code == code, result.output
        assert "nobody looked whether there are such collections" in result.stderr
        assert "lacks the privilege 'find'" in result.stderr
    assert [document["_id"] for document in shop["signals"].find()] == ["sent"]
    assert "not authorized on shop" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    [
        "deployment",
        "deployment, signals",
        "deployment, insert_delete",
        "database, signals",
        "collection",
    ],
)
def test_an_engine_needs_no_more(
    way: str, guarded: MongoDeployment, shop: Any, tmp_path: Path, spark: SparkSession
) -> None:
    """With the page's roles alone: a first load, inserts, updates (looked up) and deletes, a snapshot beside the
    stream and a blocking one, asked for by the signal collection where there is one, with its outcome written there."""
    roles, options = WAYS[way]
    included = {} if "capture.scope" in options else {"database.include.list": "shop"}
    named: dict[str, object] = {"mongodb.connection.string": user(guarded, of(*roles)), **included, **options}
    lab = Lab(guarded.uri, guarded.client(), "shop", tmp_path, spark, named)
    orders = shop["orders"]
    with lab.running() as engine:
        assert engine.wait("initial", SECONDS).tasks[0].rows == 30
        orders.update_one({"_id": "order 003"}, {"$set": {"total": -3}})
        orders.delete_one({"_id": "order 004"})
        orders.insert_one({"_id": "order 100"})
        data = {"data-collections": ["shop.orders"]}
        if "signal.data.collection" in options:
            sender: MongoClient[Any]
            with MongoClient(user(guarded, of("snapshotterSender"))) as sender:
                for name, kind in (("beside", "incremental"), ("alone", "blocking")):
                    signal = {"_id": name, "type": "execute-snapshot", "data": {**data, "type": kind}}
                    sender["shop"]["signals"].insert_one(signal)
        else:
            engine.execute_snapshot("shop.orders", reconcile=True, request_id="beside")
            engine.execute_snapshot("shop.orders", blocking=True, request_id="alone")
        for name in ("beside", "alone"):
            (task,) = engine.wait(name, SECONDS).tasks
            assert (task.rows + task.superseded, task.error) == (30, None)
        engine.catch_up(SECONDS)
        assert engine.dry_run("shop.orders").error is None
    lab.assert_equal("orders")
    if "signal.data.collection" in options:
        states = {str(d["_id"]): d["state"] for d in shop["signals_status"].find()}
        assert set(states.values()) == {"completed"}, states
        assert shop["signals"].count_documents({"_id": {"$regex": "-(open|close)$"}}) == 0


@pytest.mark.slow
def test_an_engine_switches_post_images_on(
    guarded: MongoDeployment, shop: Any, tmp_path: Path, spark: SparkSession
) -> None:
    """With the roles for it; and when a privilege is taken away while it runs, it ends with that name, exit 3."""
    roles, options = WAYS["deployment, post-images"]
    name = f"user-{uuid.uuid4().hex[:8]}"
    guarded.add_user(name, of(*roles), password="secret-word")
    uri = guarded.bare_uri.replace("//", f"//{name}:secret-word@") + "&authSource=admin"
    named: dict[str, object] = {"mongodb.connection.string": uri, "database.include.list": "shop", **options}
    lab = Lab(guarded.uri, guarded.client(), "shop", tmp_path, spark, named)
    engine = lab.engine().start()
    engine.wait("initial", SECONDS)
    (info,) = shop.list_collections(filter={"name": "orders"})
    assert info["options"]["changeStreamPreAndPostImages"] == {"enabled": True}
    shop["orders"].update_one({"_id": "order 003"}, {"$set": {"total": -3}})
    engine.catch_up(SECONDS)
    lab.assert_equal("orders")
    admin = guarded.client()["admin"]
    (role,) = admin.command("usersInfo", name)["users"][0]["roles"]
    admin.command("updateRole", role["role"], privileges=without(of(*roles), 0, "changeStream"))
    shop["orders"].insert_one({"_id": "order 101"})
    with pytest.raises(DefiniteError) as caught:
        engine.until("the engine to end", lambda: False, SECONDS)
    with pytest.raises(DefiniteError):
        engine.stop()
    assert "lacks the privilege 'changeStream' on all databases" in caught.value.message
    assert exit_code(caught.value) == EXIT_DEFINITE


def test_which_privileges_cover_what() -> None:
    """As MongoDB reads resources: an empty name is any, a cluster resource is none."""
    assert covers({"anyResource": True}, "a", "b")
    assert covers({"db": "", "collection": ""}, "", "")
    assert covers({"db": "a", "collection": ""}, "a", "b")
    assert covers({"db": "", "collection": "b"}, "a", "b")
    assert not covers({"db": "a", "collection": "b"}, "a", "")
    assert not covers({"db": "a", "collection": ""}, "", "")
    assert not covers({"cluster": True}, "a", "b")
    assert not covers({"db": "", "collection": ""}, "local", "oplog.rs")
    assert covers({"db": "local", "collection": ""}, "local", "oplog.rs")

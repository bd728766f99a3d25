"""The provider of real MongoDBs: what it starts is ready, can be hurt by tests, and never stays behind."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import NotPrimaryError, OperationFailure

from snapshotter.testing import mongod_binary, mongod_node
from snapshotter.testing.mongodb import MongoDeployment, MongoUnavailableError, start_mongodb
from snapshotter.testing.processes import (
    ServerStartError,
    free_port,
    remove_folder,
    temporary_folder,
    wait_until,
)

OWNER = Path(__file__).parent / "programs" / "mongodb_owner.py"


def process_is_gone(pid: int) -> bool:
    """Whether no process has this id (a zombie that nobody has reaped counts as gone)."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def own_folder(deployment: MongoDeployment) -> Path:
    return deployment.nodes[0].folder.parent


def test_one_node_is_a_writable_replica_set_and_leaves_nothing(database: str) -> None:
    """A single node is a primary with an oplog, answers majority writes, and its folder goes with it."""
    with start_mongodb() as mongo:
        folder, pid = own_folder(mongo), mongo.nodes[0].pid
        client = mongo.client()
        client.get_database(database)["things"].insert_one({"_id": 1})
        assert client.admin.command("hello")["isWritablePrimary"]
        assert client["local"]["oplog.rs"].find_one({"op": "i"})
        assert mongo.primary_address() == mongo.nodes[0].address
    assert process_is_gone(pid)
    assert not folder.exists()


@pytest.mark.slow
def test_three_nodes_change_their_primary() -> None:
    """A stepped-down primary is replaced, so is a killed one, and a restarted node is back with its data."""
    with start_mongodb(nodes=3) as mongo:
        things = mongo.client(w="majority")["db"]["things"]
        things.insert_one({"_id": 1})
        first = mongo.primary_address()
        second = mongo.step_down()
        assert second != first
        mongo.kill(second)
        assert mongo.primary_address() != second
        things.insert_one({"_id": 2})
        back = mongo.restart(second)
        local: MongoClient[dict[str, Any]] = MongoClient(f"mongodb://{back.address}/?directConnection=true")
        with local:
            copy = local["db"]["things"]
            wait_until(lambda: copy.count_documents({}) == 2, "the restarted node to have caught up")


def test_a_single_node_steps_down_and_comes_back() -> None:
    """A client of a single node sees what it would see in an election, and can write afterwards."""
    with start_mongodb() as mongo:
        direct = mongo.client(retryWrites=False)
        direct["db"]["things"].insert_one({})
        assert mongo.step_down(1) == mongo.nodes[0].address
        try:
            direct["db"]["things"].insert_one({})
        except NotPrimaryError:  # this client had not heard of the election
            direct["db"]["things"].insert_one({})
        assert direct["db"]["things"].count_documents({}) == 2


def test_a_frozen_node_answers_again_when_thawed() -> None:
    """Freezing stops all answers without closing a connection; thawing goes on where it was."""
    with start_mongodb() as mongo:
        mongo.freeze(0)
        state = Path(f"/proc/{mongo.nodes[0].pid}/stat")
        wait_until(
            lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "the process to be stopped"
        )
        mongo.thaw(0)
        assert mongo.client().admin.command("ping")["ok"]


def test_a_standalone_server_has_no_replica_set() -> None:
    """`standalone=True` gives the server that the engine must refuse."""
    with start_mongodb(standalone=True) as mongo:
        client = mongo.client()
        assert "setName" not in client.admin.command("hello")
        with pytest.raises(OperationFailure, match="replica sets"):
            client["db"]["things"].watch()


def test_with_auth_only_known_users_get_in() -> None:
    """`auth=True` refuses strangers, and its administrator can create a user with few privileges."""
    with start_mongodb(auth=True) as mongo:
        admin = mongo.client()
        admin["db"].command("createUser", "reader", pwd="secret", roles=[{"role": "read", "db": "db"}])
        address = mongo.nodes[0].address
        stranger: MongoClient[dict[str, Any]] = MongoClient(f"mongodb://{address}/?directConnection=true")
        reader: MongoClient[dict[str, Any]] = MongoClient(
            f"mongodb://reader:secret@{address}/?directConnection=true&authSource=db"
        )
        with stranger, reader:
            with pytest.raises(OperationFailure, match="requires authentication"):
                stranger["db"]["things"].find_one()
            assert reader["db"]["things"].find_one() is None
            with pytest.raises(OperationFailure, match="not authorized"):
                reader["db"]["things"].insert_one({})


def test_options_reach_the_server() -> None:
    """The oplog's size and server parameters are what was asked for."""
    with start_mongodb(oplog_size_mb=16, set_parameters={"periodicNoopIntervalSecs": 1}) as mongo:
        client = mongo.client()
        assert client["local"].command("collStats", "oplog.rs")["maxSize"] == 16 * 1024 * 1024
        assert (
            client.admin.command("getParameter", periodicNoopIntervalSecs=1)["periodicNoopIntervalSecs"] == 1
        )


def test_everything_goes_when_the_owner_is_killed() -> None:
    """SIGKILL to the process that started it: the server ends and its folder is removed, by nobody's hand."""
    with subprocess.Popen(
        [sys.executable, str(OWNER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        told = json.loads(owner.stdout.readline())
        assert not process_is_gone(told["pid"])
        owner.kill()
        wait_until(lambda: process_is_gone(told["pid"]), "the server to end after its owner")
        wait_until(lambda: not Path(told["folder"]).exists(), "the folder to be removed")


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux's")
def test_the_server_does_not_outlive_its_guardian() -> None:
    """SIGKILL to the guardian itself: the kernel ends the server."""
    with start_mongodb() as mongo:
        pid = mongo.nodes[0].pid
        guardian = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(guardian, signal.SIGKILL)
        wait_until(lambda: process_is_gone(pid), "the server to end after its guardian")


def test_folders_of_dead_owners_are_swept() -> None:
    """The next start removes a folder whose owner is dead, and leaves one whose owner lives."""
    living = temporary_folder("test")
    dead = living.with_name(living.name + "-dead")
    dead.mkdir()
    (dead / "owner.lock").touch()
    with start_mongodb():
        assert not dead.exists()
        assert living.exists()
    remove_folder(living)


def test_a_server_that_cannot_start_says_why_and_leaves_nothing() -> None:
    """A wrong option is reported with the server's own words."""
    with pytest.raises(ServerStartError, match="noSuchOption"):
        start_mongodb(extra_args=["--noSuchOption"])


def test_a_port_taken_meanwhile_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """When someone takes the chosen port before the server does, another port is tried."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1], free_port()])
        monkeypatch.setattr(mongod_node, "free_port", lambda: next(ports))
        with start_mongodb() as mongo:
            assert mongo.nodes[0].port != taken.getsockname()[1]
            assert mongo.client().admin.command("ping")["ok"]


def test_a_given_address_is_used_and_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an address in the environment nothing is started, and nothing of it is stopped."""
    with start_mongodb() as running:
        monkeypatch.setenv(mongod_binary.URI_VARIABLE, running.uri)
        with start_mongodb() as given:
            assert given.uri == running.uri
            assert given.nodes == []
            with pytest.raises(MongoUnavailableError, match="not started here"):
                given.kill(0)
        assert running.client().admin.command("ping")["ok"]
        with start_mongodb(oplog_size_mb=16) as own:
            assert own.uri != running.uri, "what needs a server of its own gets one"


def test_a_given_standalone_server_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A standalone server in the environment is refused, with the variable's name."""
    with start_mongodb(standalone=True) as running:
        monkeypatch.setenv(mongod_binary.URI_VARIABLE, running.uri)
        with pytest.raises(MongoUnavailableError, match=r"SNAPSHOTTER_TEST_MONGODB_URI is a standalone"):
            start_mongodb()


def test_a_given_address_that_does_not_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address where nobody listens is an error at once, not a hang."""
    monkeypatch.setenv(mongod_binary.URI_VARIABLE, f"mongodb://127.0.0.1:{free_port()}/")
    with pytest.raises(MongoUnavailableError, match="does not answer"):
        start_mongodb()


@pytest.mark.skipif(not mongod_binary.docker_answers(), reason="no Docker daemon answers")
def test_a_container_serves_where_nothing_else_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any `mongod`, a container is started as a replica set of one."""
    monkeypatch.delenv(mongod_binary.URI_VARIABLE, raising=False)
    monkeypatch.setattr(mongod_binary, "find_mongod", lambda: None)
    with start_mongodb() as mongo:
        mongo.client()["db"]["things"].insert_one({})

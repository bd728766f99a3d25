"""Configurations of Debezium run as they are, but for the address and the names of the test's own database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from snapshotter.api import Snapshotter
from snapshotter.configuration.settings import WAREHOUSE_VARIABLE, Settings
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from tests.support.debezium_configurations import fitted, keep_secrets
from tests.support.engines import SECONDS, Lab, lab

__all__ = ["lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]  # every start of an engine does


def run(lab: Lab, path: Path, collection: str, environ: dict[str, str] | None = None) -> Settings:
    """An engine by this file, from a first load to changes; the collection equals its table in the end."""
    lab.collection(collection).insert_many([{"_id": n, "total": n} for n in range(20)])
    where = {WAREHOUSE_VARIABLE: str(lab.folder / "warehouse"), **(environ or {})}
    settings = Settings.load(path, where)
    with Snapshotter(settings, lab.spark) as engine:
        engine.wait("initial", SECONDS)
        lab.collection(collection).update_one({"_id": 3}, {"$set": {"total": -3}})
        lab.collection(collection).delete_one({"_id": 4})
        engine.catch_up(SECONDS)
    lab.assert_equal(collection)
    return settings


def host_and_set(uri: str) -> tuple[str, str]:
    """Of the address of a replica set."""
    parts = urlsplit(uri)
    query = dict(part.split("=") for part in parts.query.split("&"))
    return parts.netloc.rpartition("@")[2], query["replicaSet"]


def test_a_connector_of_strimzi_runs(lab: Lab, tmp_path: Path) -> None:
    """Its host comes from a directory that the worker's resource names a provider for."""
    host, rs = host_and_set(lab.uri)
    keep_secrets(tmp_path, host=host)
    shop = {"shop[.]": f"{lab.database}[.]", "replicaSet=rs0": f"replicaSet={rs}"}
    run(lab, fitted("documented-resource.yaml", tmp_path, **shop), "orders")


def test_a_file_of_debezium_server_runs(lab: Lab, tmp_path: Path) -> None:
    """Its address is a variable of the environment."""
    path = fitted("documented-server.properties", tmp_path, **{"shop[.]": f"{lab.database}[.]"})
    settings = run(lab, path, "orders", {"MONGODB_URI": lab.uri})
    assert settings.name == "server"


@pytest.mark.parametrize("name", ["lydtech.json", "timeplus.json"])
def test_a_public_projects_connector_runs(lab: Lab, tmp_path: Path, name: str) -> None:
    """As its project registers it with Kafka Connect."""
    host, rs = host_and_set(lab.uri)
    words = {"mongo:27017": host, "replicaSet=rs0": f"replicaSet={rs}"}
    collection = "items" if name == "lydtech.json" else "orders"
    shop = {f'"shop.{collection}"': f'"{lab.name(collection)}"', '"shop"': f'"{lab.database}"'}
    run(lab, fitted(name, tmp_path, **words, **shop), collection)


@pytest.fixture
def guarded() -> Iterator[MongoDeployment]:
    """A deployment with access control."""
    with start_mongodb(auth=True) as deployment:
        yield deployment


def test_the_tutorials_connector_runs(lab: Lab, guarded: MongoDeployment, tmp_path: Path) -> None:
    """By old names, as a user whose password lies in a file of secrets."""
    lab.uri, lab.client = guarded.uri, guarded.client()
    lab.client.admin.command("createUser", "reader", pwd="s3cret", roles=["readAnyDatabase"])
    host, rs = host_and_set(guarded.uri)
    keep_secrets(tmp_path, password="s3cret")
    words = {"rs0/mongo:27017": f"{rs}/{host}", '"shop"': f'"{lab.database}"'}
    settings = run(lab, fitted("tutorial.json", tmp_path, **words), "orders")
    written = [path for path in (lab.folder / "warehouse").rglob("*") if path.is_file()]
    assert written
    assert not any(b"s3cret" in path.read_bytes() for path in written)
    assert "s3cret" not in str(settings.masked())

"""Configurations of Debezium load as they are: its documentation's examples, and those of public projects."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshotter.configuration.settings import WAREHOUSE_VARIABLE, Settings
from snapshotter.errors import ConfigurationError
from tests.support.debezium_configurations import FOLDER, fitted, keep_secrets

ENVIRON = {
    WAREHOUSE_VARIABLE: "/lake",
    "MONGODB_URI": "mongodb://mongo:27017/?replicaSet=rs0",
    "MONGO_PASSWORD": "s3cret",
}
CONVERTERS = {"key.converter", "value.converter"}
SERVER = {"debezium.sink.type", "debezium.sink.pubsub.project.id", "offset.storage.file.filename"}
SERVER |= {"offset.flush.interval.ms", "debezium.format.key", "debezium.format.value"}
SERVER |= {"debezium.format.value.schemas.enable", "quarkus.log.console.json", "quarkus.log.level"}

# By file: the engine's name, the prefix, and the options that something is said of.
LOADED: dict[str, tuple[str, str, set[str]]] = {
    "documented-request.json": ("shop-connector", "fulfilment", set()),
    "documented-resource.yaml": ("shop-connector", "shop-connector", set()),
    "documented-flattening.json": (
        "flat",
        "flat",
        {
            "transforms:",
            *(
                f"transforms.unwrap.{n}"
                for n in ("delete.tombstone.handling.mode", "add.headers", "add.fields:")
            ),
        },
    ),
    "documented-outbox.json": ("outbox", "outbox", {"transforms:", "predicates:"}),
    "documented-signals.json": ("signals", "signals", set()),
    "documented-server.properties": ("server", "server", SERVER),
    "tutorial.json": (
        "shop-tutorial",
        "tutorial",
        {"mongodb.hosts", "mongodb.name", "database.history.kafka.bootstrap.servers"},
    ),
    "meadowlark.json": (
        "shop_kafka",
        "meadow",
        {*CONVERTERS, "database.history.kafka.bootstrap.servers", "transforms:", "predicates:"},
    ),
    "lydtech.json": ("items-source", "items", {"tombstones.on.delete"}),
    "timeplus.json": (
        "mongo-connector",
        "server",
        {
            "mongodb.name",
            "mongodb.change.stream.full.document",
            "database.history.kafka.bootstrap.servers",
            "database.history.kafka.topic",
        },
    ),
    "strimzi-tls.yaml": ("tls-connector", "tls", {"mongodb.hosts", "mongodb.name"}),
}


def loaded(name: str, folder: Path, environ: dict[str, str] | None = None) -> Settings:
    keep_secrets(folder, host="mongo:27017", password="s3cret")
    return Settings.load(fitted(name, folder), ENVIRON if environ is None else environ)


def test_every_configuration_is_loaded() -> None:
    """None lies there unread."""
    assert {path.name for path in FOLDER.iterdir()} - {"README.md"} == set(LOADED)


@pytest.mark.parametrize("name", LOADED)
def test_it_loads_as_it_is(name: str, tmp_path: Path) -> None:
    """Nothing is added but where tables lie, which the environment says. What has no effect is named, and nothing else
    is: each transform once, but the one that is honoured by those of its options that are not."""
    engine, prefix, named = LOADED[name]
    settings = loaded(name, tmp_path)
    assert (settings.name, settings.topic_prefix) == (engine, prefix)
    assert settings.warehouse() == "/lake"
    assert "mongo:27017" in settings.connection_uri()
    assert {warning.split()[0] for warning in settings.warnings} == named
    assert "s3cret" not in str(settings.masked())
    assert "s3cret" not in "".join(settings.warnings)


def test_each_transform_and_predicate_is_named_with_its_class(tmp_path: Path) -> None:
    """In the order in which they are listed."""
    said = [w for w in loaded("meadowlark.json", tmp_path).warnings if " is not carried out" in w]
    assert [tuple(w.split()[:3]) for w in said] == [
        ("transforms:", "dropGone", "(org.apache.kafka.connect.transforms.Filter)"),
        ("transforms:", "takeAfter", "(org.apache.kafka.connect.transforms.ExtractField$Value)"),
        ("transforms:", "router", "(io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter)"),
        ("transforms:", "takeId", "(org.apache.kafka.connect.transforms.ExtractField$Key)"),
        ("predicates:", "isGone", "(org.apache.kafka.connect.transforms.predicates.RecordIsTombstone)"),
    ]


def test_old_names_are_taken_as_what_they_are_called_now(tmp_path: Path) -> None:
    """A replica set and its members become a connection string; credentials are those of the other options."""
    tutorial = loaded("tutorial.json", tmp_path)
    assert tutorial.mongodb.connection_string == "mongodb://mongo:27017/?replicaSet=rs0"
    assert tutorial.connection_uri().startswith(
        "mongodb://reader:s3cret@mongo:27017/?replicaSet=rs0&authSource=admin"
    )
    assert tutorial.capture.database_include == ("shop",)


def test_resources_of_strimzi_say_what_providers_are_called(tmp_path: Path) -> None:
    """``config.providers`` of the worker in the same file counts, and Strimzi's own names are known."""
    worker = loaded("documented-resource.yaml", tmp_path)
    assert worker.mongodb.connection_string == "mongodb://mongo:27017/?replicaSet=rs0"
    assert worker.masked()["config.providers"] == "mounted"
    fitted("strimzi-tls.yaml", tmp_path)
    assert Settings.load(tmp_path / "strimzi-tls.yaml", ENVIRON).mongodb.password == "s3cret"


def test_a_warehouse_that_nobody_names(tmp_path: Path) -> None:
    """Is asked for, with the way to give it without changing the file."""
    with pytest.raises(ConfigurationError) as refused:
        loaded("lydtech.json", tmp_path, {})
    (problem,) = refused.value.problems
    assert problem.option == "delta.warehouse"
    assert WAREHOUSE_VARIABLE in str(problem)

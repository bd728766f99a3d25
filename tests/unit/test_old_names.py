"""Options under the names that Debezium once had for them."""

from __future__ import annotations

import pytest

from snapshotter.configuration.options_elsewhere import RENAMED
from snapshotter.configuration.settings import Settings
from snapshotter.errors import ConfigurationError

LEAST = {"mongodb.connection.string": "mongodb://localhost/", "delta.warehouse": "/lake"}


def test_each_is_taken_as_what_it_is_called_now() -> None:
    """And said, one sentence each."""
    old = {
        "mongodb.hosts": "rs0/one:27017,two:27018",
        "mongodb.name": "shop",
        "database.blacklist": "logs",
        "collection.whitelist": "shop.orders,shop.people",
        "snapshot.collection.include.list": "shop.orders",
        "delta.warehouse": "/lake",
    }
    settings = Settings.from_options(old, {})
    assert settings.mongodb.connection_string == "mongodb://one:27017,two:27018/?replicaSet=rs0"
    assert (settings.name, settings.topic_prefix) == ("shop", "shop")
    assert settings.capture.database_exclude == ("logs",)
    assert settings.capture.collection_include == ("shop.orders", "shop.people")
    assert settings.snapshot.include == ("shop.orders",)
    assert sorted(settings.warnings) == sorted(
        f"{name} is an old name, and is taken as {RENAMED[name]}" for name in old if name in RENAMED
    )


def test_the_new_name_goes_first() -> None:
    """As in a configuration that was written for several versions."""
    settings = Settings.from_options(
        {**LEAST, "mongodb.hosts": "h:1", "mongodb.name": "old", "topic.prefix": "new"}, {}
    )
    assert settings.topic_prefix == "new"
    assert "localhost" in settings.connection_uri()
    assert [warning.partition(":")[0] for warning in settings.warnings] == [
        "mongodb.hosts has no effect",
        "mongodb.name has no effect",
    ]


def test_problems_are_told_by_the_name_that_was_given() -> None:
    """And by what it is called now. Several replica sets are one cluster, which no such list reaches."""
    old = {"mongodb.hosts": "rs0/a:1;rs1/b:1", "mongodb.name": "shop", "collection.whitelist": "a.("}
    with pytest.raises(ConfigurationError) as refused:
        Settings.from_options({**old, "delta.warehouse": "/lake"}, {})
    said = {problem.option: problem.message for problem in refused.value.problems}
    assert "names more than one replica set" in said["mongodb.hosts"]
    assert said["collection.include.list"].startswith("(given as collection.whitelist) ")
    assert len(said) == 2


def test_parameters_of_single_shards_are_refused() -> None:
    """Debezium removed them with its connections to single shards: they would have no effect, and what they asked for
    belongs into the connection string. The mode of connecting has one value that asks for nothing."""
    asked = {"mongodb.connection.string.shard.params": "readPreference=primary"}
    mode = {"mongodb.connection.mode": "replica_set"}
    with pytest.raises(
        ConfigurationError, match=r"shard\.params.*did you mean mongodb\.connection\.string\?"
    ):
        Settings.from_options({**LEAST, "name": "shop", **asked, **mode}, {})
    for value, warnings in (("replica_set", 0), ("sharded", 1)):
        options = {**LEAST, "name": "shop", "mongodb.connection.mode": value}
        assert len(Settings.from_options(options, {}).warnings) == warnings

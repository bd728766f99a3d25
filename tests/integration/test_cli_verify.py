"""Which collections ``verify`` compares."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient

from snapshotter.cli.verify import chosen_collections
from snapshotter.configuration.settings import Settings
from snapshotter.errors import ConfigurationError


def test_verify_takes_captured_collections_only(
    mongo_client: MongoClient[dict[str, Any]], mongo_uri: str, database: str
) -> None:
    """All captured ones or those that are named, never the signal collection; an unknown name is an error."""
    for name in ("orders", "customers", "signals"):
        mongo_client[database][name].insert_one({})
    settings = Settings.from_options(
        {
            "name": "shop",
            "mongodb.connection.string": mongo_uri,
            "database.include.list": database,
            "signal.data.collection": f"{database}.signals",
            "delta.warehouse": "/lake",
        },
        {},
    )
    assert [n.collection for n in chosen_collections(settings, [])] == ["customers", "orders"]
    assert [n.collection for n in chosen_collections(settings, [rf"{database}\.o.*"])] == ["orders"]
    for unknown in (f"{database}.signals", f"{database}.missing", "x.*"):
        with pytest.raises(ConfigurationError, match=r"is no captured collection.*\. Captured are: "):
            chosen_collections(settings, [unknown])


def test_nothing_captured_is_not_equal(mongo_uri: str, database: str) -> None:
    """With no collection to compare there is an error, not a success."""
    settings = Settings.from_options(
        {
            "name": "shop",
            "mongodb.connection.string": mongo_uri,
            "database.include.list": database,
            "delta.warehouse": "/lake",
        },
        {},
    )
    with pytest.raises(ConfigurationError, match="nothing to compare"):
        chosen_collections(settings, [])

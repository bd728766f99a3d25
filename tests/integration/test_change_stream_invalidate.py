"""Drops and renames end a cursor on one database or collection, but never a batch: what follows is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from streaming.positions import ClusterTime
from tests.support.changes import brief, now, read, reader, trailer

Client = MongoClient[dict[str, Any]]
Db = Database[dict[str, Any]]


def drop(db: Db) -> None:
    db["items"].drop()


def rename(db: Db) -> None:
    db["items"].rename("items_old")


def rename_onto(db: Db) -> None:
    db["draft"].insert_one({"_id": "draft"})
    db["draft"].rename("items", dropTarget=True)


def drop_database(db: Db) -> None:
    db.client.drop_database(db.name)


SCOPES = ("deployment", "database", "collection")
ACTIONS = (drop, rename, rename_onto, drop_database)


def options_for(scope: str, database: str) -> dict[str, str]:
    if scope == "deployment":
        return {"collection__include__list": rf"{database}\.items"}
    if scope == "database":
        lists = {"collection__include__list": rf"{database}\.items"}
        return {"capture__scope": scope, "capture__target": database, **lists}
    return {"capture__scope": scope, "capture__target": f"{database}.items"}


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
@pytest.mark.parametrize("scope", SCOPES)
def test_the_batch_goes_on_behind_it(
    mongo_uri: str, mongo_client: Client, database: str, scope: str, action: Callable[[Db], None]
) -> None:
    """What came before and after is read, in one batch, and in any batches that the range is cut into.

    Cut at every event, one boundary falls exactly on the invalidate: the next batch begins right behind it.
    """
    db = mongo_client[database]
    start = now(mongo_uri)
    for round_ in range(2):
        db["items"].insert_one({"_id": f"before {round_}"})
        db["items"].update_one({"_id": f"before {round_}"}, {"$set": {"x": 1}})
        action(db)
        db["items"].drop()
        db["items_old"].drop()
    db["items"].insert_one({"_id": "after"})
    end = now(mongo_uri)

    source = reader(mongo_uri, trailer="true", **options_for(scope, database))
    whole = read(source, start, end)
    changes = [entry for entry in brief(whole) if entry[0] not in ("drop", "rename", None)]
    assert changes == [
        ("insert", "before 0"),
        ("update", "before 0"),
        ("insert", "before 1"),
        ("update", "before 1"),
        ("insert", "after"),
    ]
    words = {row["operation_type"] for row in whole}
    assert words & {"drop", "rename"}
    assert "invalidate" not in words
    assert trailer(whole)["events"] == len(whole) - 1

    begin, pieces = start, []
    for time in sorted({row["cluster_time"] for row in whole if row["kind"] == "event"}):
        cut = ClusterTime.from_int(time)
        pieces += read(source, begin, cut)[:-1]
        begin = cut
    pieces += read(source, begin, end)[:-1]
    assert [(row["cluster_time"], *entry) for row, entry in zip(pieces, brief(pieces), strict=True)] == [
        (row["cluster_time"], *entry) for row, entry in zip(whole[:-1], brief(whole[:-1]), strict=True)
    ]


@pytest.mark.parametrize("scope", ["database", "collection"])
def test_a_batch_that_ends_on_the_invalidate(
    mongo_uri: str, mongo_client: Client, database: str, scope: str
) -> None:
    """Nothing behind it yet: the batch ends, and the next, from there, sees what comes later."""
    db = mongo_client[database]
    start = now(mongo_uri)
    db["items"].insert_one({"_id": 1})
    drop_database(db)
    source = reader(mongo_uri, **options_for(scope, database))
    first = read(source, start, now(mongo_uri))
    assert brief(first) == [("insert", 1), ("drop", None)]
    last = ClusterTime.from_int(first[-1]["cluster_time"])
    assert read(source, last, now(mongo_uri)) == []
    db["items"].insert_one({"_id": 2})
    assert brief(read(source, last, now(mongo_uri))) == [("insert", 2)]


def test_a_rename_says_where_to(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """Also when only the new name is captured: what lay under it before is gone."""
    db = mongo_client[database]
    start = now(mongo_uri)
    rename_onto(db)
    source = reader(mongo_uri, collection__include__list=rf"{database}\.items")
    (row,) = read(source, start, now(mongo_uri))
    assert (row["op"], row["operation_type"]) == (None, "rename")
    assert (row["collection"], row["renamed_to"]) == ("draft", f"{database}.items")


@pytest.mark.parametrize("scope", ["database", "collection"])
def test_a_scope_that_does_not_exist_yet(
    mongo_uri: str, mongo_client: Client, database: str, scope: str
) -> None:
    """A stream on a database or collection that is created later sees it from its first document."""
    start = now(mongo_uri)
    source = reader(mongo_uri, **options_for(scope, database))
    mongo_client["admin"].command("appendOplogNote", 1, data={"test": "moves the clock"})
    assert read(source, start, now(mongo_uri)) == []
    mongo_client[database]["items"].insert_one({"_id": 1})
    assert brief(read(source, start, now(mongo_uri))) == [("insert", 1)]

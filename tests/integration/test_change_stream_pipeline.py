"""Stages of the user's own in the change stream: what they reach, and what is out of their reach."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pymongo import MongoClient

from streaming.mongo.errors import SourceError
from streaming.positions import ClusterTime
from streaming.source.user_stages import KINDS
from tests.support.changes import now, read_since

Client = MongoClient[dict[str, Any]]
ORDERS = ("internal_first", "user_first", "user_only")


@pytest.fixture
def start(mongo_uri: str, database: str) -> ClusterTime:
    """A position before anything that the test does."""
    return now(mongo_uri)


def rows_of(
    uri: str, start: ClusterTime, database: str, *stages: Any, **options: str
) -> list[dict[str, Any]]:
    given = {
        "database__include__list": database,
        "signal__data__collection": f"{database}.signals",
        **options,
    }
    return read_since(uri, start, cursor__pipeline=json.dumps(stages), **given)


def ids_of(rows: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(row["collection"], row["document_key"]["_id"]) for row in rows if row["kind"] == "event"]


@pytest.mark.parametrize("order", ORDERS)
def test_a_match_leaves_out_events_but_no_signals(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime, order: str
) -> None:
    """It may look at what the server looks up; what is not captured stays out in every order."""
    it = mongo_client[database]
    it["orders"].insert_many([{"_id": n, "even": n % 2 == 0} for n in range(4)])
    it["orders"].update_one({"_id": 1}, {"$set": {"more": True}})
    it["orders"].update_one({"_id": 2}, {"$set": {"more": True}})
    it["signals"].insert_one({"_id": "s", "type": "log"})
    mongo_client[f"{database}_other"]["orders"].insert_one({"_id": 8, "even": True})
    try:
        rows = rows_of(
            mongo_uri, start, database, {"$match": {"fullDocument.even": True}}, cursor__pipeline__order=order
        )
    finally:
        mongo_client.drop_database(f"{database}_other")
    assert ids_of(rows) == [("orders", 0), ("orders", 2), ("orders", 2), ("signals", "s")]
    assert rows[2]["document"] == {"_id": 2, "even": True, "more": True}


SHAPES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "$addFields": ({"fullDocument.a": 9}, {"_id": 1, "a": 9, "b": {"c": 2}}),
    "$match": ({}, {"_id": 1, "a": 1, "b": {"c": 2}}),
    "$project": ({"fullDocument._id": 1, "fullDocument.b": 1}, {"_id": 1, "b": {"c": 2}}),
    "$redact": (
        {"$cond": [{"$eq": ["$c", 2]}, "$$PRUNE", "$$DESCEND"]},
        {"_id": 1, "a": 1},
    ),
    "$replaceRoot": ({"newRoot": {"fullDocument": {"_id": 1, "n": "new"}}}, {"_id": 1, "n": "new"}),
    "$replaceWith": ({"fullDocument": {"_id": 1, "n": "new"}}, {"_id": 1, "n": "new"}),
    "$set": ({"fullDocument": {"_id": 1}}, {"_id": 1, "a": 1, "b": {"c": 2}}),
    "$unset": (["fullDocument.a", "ns", "clusterTime", "documentKey"], {"_id": 1, "b": {"c": 2}}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_each_stage_shapes_documents_and_nothing_else(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime, kind: str
) -> None:
    """An event stays the event that it is, and a signal is untouched."""
    body, shaped = SHAPES[kind]
    signal = {"_id": 1, "a": 1, "b": {"c": 2}, "type": "log"}
    mongo_client[database]["orders"].insert_one({"_id": 1, "a": 1, "b": {"c": 2}})
    mongo_client[database]["signals"].insert_one(signal)
    for order in ORDERS:
        event, told = rows_of(mongo_uri, start, database, {kind: body}, cursor__pipeline__order=order)
        assert (event["op"], event["collection"], event["document_key"]) == ("c", "orders", {"_id": 1})
        assert event["document"] == shaped
        assert told["document"] == signal
        assert start.to_int() < event["cluster_time"] < told["cluster_time"]


@pytest.mark.parametrize("columns", ["full", "state"])
@pytest.mark.parametrize(
    "stage",
    [{"$replaceRoot": {"newRoot": "$fullDocument"}}, {"$unset": ["fullDocument", "updateDescription"]}],
)
def test_an_event_that_is_left_without_its_document_is_read_again(
    mongo_uri: str,
    mongo_client: Client,
    database: str,
    start: ClusterTime,
    stage: dict[str, Any],
    columns: str,
) -> None:
    """As an update that came without one; and an update still says what has changed, so it is not taken for one that
    was too large. A delete is one."""
    orders = mongo_client[database]["orders"]
    orders.insert_one({"_id": 1, "n": 1})
    orders.update_one({"_id": 1}, {"$set": {"n": 2}})
    orders.replace_one({"_id": 1}, {"n": 3})
    orders.delete_one({"_id": 1})
    rows = rows_of(mongo_uri, start, database, stage, columns=columns)
    assert [(row["op"], row["operation_type"], row["document"]) for row in rows] == [
        ("u", "update", None),
        ("u", "update", None),
        ("u", "update", None),
        ("d", "delete", None),
    ]
    if columns == "full":
        assert [row["update_description"] for row in rows[:3]] == [
            {},
            {"updatedFields": {"n": 2}, "removedFields": [], "truncatedArrays": []},
            {},
        ]


def test_an_update_keeps_what_it_says_of_itself(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """Whatever a stage leaves of the rest."""
    mongo_client[database]["orders"].insert_one({"_id": 1})
    mongo_client[database]["orders"].update_one({"_id": 1}, {"$set": {"n": 2}})
    _, update = rows_of(mongo_uri, start, database, {"$project": {"fullDocument": 1}})
    assert (update["operation_type"], update["document"]) == ("update", {"_id": 1, "n": 2})
    assert update["update_description"]["updatedFields"] == {"n": 2}


def test_a_stage_that_prunes_leaves_the_event_and_sees_the_users_documents(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """Also the token, which has none of the fields that are asked for; and no field of theirs is taken for ours."""
    mongo_client[database]["orders"].insert_one(
        {"_id": 1, "shown": True, "a": {"ours": True}, "b": {"shown": True}}
    )
    top = {"$eq": [{"$type": "$operationType"}, "string"]}
    stage = {"$redact": {"$cond": [{"$or": [top, "$shown"]}, "$$DESCEND", "$$PRUNE"]}}
    (row,) = rows_of(mongo_uri, start, database, stage)
    assert row["document"] == {"_id": 1, "shown": True, "b": {"shown": True}}
    assert row["document_key"] == {"_id": 1}


def test_stages_in_a_row(mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime) -> None:
    """Each sees what the one before has left, as in any pipeline."""
    mongo_client[database]["orders"].insert_many([{"_id": n} for n in range(3)])
    mongo_client[database]["signals"].insert_one({"_id": "s"})
    stages = (
        {"$replaceWith": {"fullDocument": {"_id": "$fullDocument._id", "twice": {"$add": ["$fullDocument._id"] * 2}}}},
        {"$project": {"fullDocument": 1}},
        {"$match": {"fullDocument.twice": {"$gt": 1}}},
        {"$unset": "fullDocument.twice"},
    )  # fmt: skip
    rows = rows_of(mongo_uri, start, database, *stages)
    assert ids_of(rows) == [("orders", 1), ("orders", 2), ("signals", "s")]
    assert [row["document"] for row in rows] == [{"_id": 1}, {"_id": 2}, {"_id": "s"}]


def test_operations_are_left_out(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """By the source too, but for signals."""
    orders = mongo_client[database]["orders"]
    orders.insert_one({"_id": 1})
    orders.replace_one({"_id": 1}, {"n": 1})
    orders.update_one({"_id": 1}, {"$set": {"n": 2}})
    orders.delete_one({"_id": 1})
    mongo_client[database]["signals"].insert_one({"_id": "s"})
    mongo_client[database]["signals"].delete_one({"_id": "s"})
    rows = rows_of(mongo_uri, start, database, skipped__operations="u,d")
    assert [(row["collection"], row["op"]) for row in rows] == [
        ("orders", "c"),
        ("signals", "c"),
        ("signals", "d"),
    ]


def test_the_end_of_a_watched_collection_is_seen(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """Though a stage leaves out whatever is no insert: the stream goes on behind it."""
    orders = mongo_client[database]["orders"]
    orders.insert_one({"_id": 1})
    orders.drop()
    orders.insert_one({"_id": 2})
    scope = {"capture__scope": "collection", "capture__target": f"{database}.orders"}
    rows = read_since(
        mongo_uri,
        start,
        cursor__pipeline=json.dumps([{"$match": {"operationType": "insert"}}]),
        **scope,
    )
    assert ids_of(rows) == [("orders", 1), ("orders", 2)]


def test_an_expression_that_fails_names_the_option(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """The server's own words, and whose stages it was."""
    mongo_client[database]["orders"].insert_one({"_id": 1, "n": "text"})
    with pytest.raises(SourceError, match=r"cursor\.pipeline"):
        rows_of(mongo_uri, start, database, {"$set": {"fullDocument.n": {"$divide": ["$fullDocument.n", 2]}}})

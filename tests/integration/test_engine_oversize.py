"""Events that are larger than the server can send, on a real engine.

A state table asks for little of an event, so what makes one too large is an id that is large itself: the event has it
in the document, in the documentKey and, as digits, in the resume token.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from snapshotter.errors import describe
from streaming.mongo.errors import ConfigurationError, EventTooLargeError
from streaming.source.change_cursor import ChangeRange
from streaming.source.change_options import ChangeOptions
from tests.support.changes import now, read_since
from tests.support.engines import SECONDS, Lab, lab
from tests.support.tables import rows

__all__ = ["lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]

ID = "k" * 200_000
SIZE = (16 << 20) - 700_000
"""The oplog has the id twice, and 16 MB is its limit; the event has it four times."""


def large(v: int) -> dict[str, Any]:
    """A document whose insertion is an event above 16 MB."""
    return {"_id": ID, "v": v, "text": "x" * SIZE}


@pytest.mark.parametrize("told", [False, True], ids=["tables alone", "events are told"])
def test_a_large_event_is_skipped_and_its_document_lands(told: bool, lab: Lab) -> None:
    """With `cursor.oversize.handling.mode=skip` it comes without its document, which is read by its key: the table has
    it, what stands before and behind it in the stream has landed too, and later changes of it land as ever. Where
    events are told, it is none of them but a dead letter."""
    named = {"cursor__oversize__handling__mode": "skip", "delta__changelog__enabled": told}
    lab.with_options("cluster_time", **named)
    things = lab.collection("things")
    things.insert_one({"_id": 0, "v": 0})
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        things.insert_many([{"_id": 1, "v": 1}, {"_id": 2, "v": 1}])
        things.insert_one(large(1))
        things.insert_one({"_id": 3, "v": 1})
        things.replace_one({"_id": ID}, large(2))
        things.insert_one({"_id": 4, "v": 1})
        engine.catch_up(SECONDS)
        found = {len(str(row["_key"])) > 1000: row["v"] for row in lab.rows("things")}
        assert found[True] == 2
        assert len(lab.rows("things")) == 6
        things.update_one({"_id": ID}, {"$set": {"v": 3, "text": "small"}})
        engine.catch_up(SECONDS)
        result = engine.verify(lab.name("things"))
        assert result.equal, str(result)
    assert (lab.state / "dead_letters").exists() == told
    if told:
        letters = rows(lab.state / "dead_letters")
        assert [(row["operation"], row["bytes"]) for row in letters] == [("oversized", None)] * 2
        changelog = rows(lab.folder / "warehouse" / "changelog" / lab.database / "things")
        told_of = sorted((row["op"], len(row["key"]) > 1000) for row in changelog if row["op"] != "r")
        assert told_of == [*[("c", False)] * 4, ("u", True)]


def test_by_default_the_engine_stops_at_a_large_event(lab: Lab) -> None:
    """The error names collection, operation and position, and what to do; with the option the next start goes on."""
    lab.with_options("cluster_time")
    things = lab.collection("things")
    things.insert_one({"_id": 0, "v": 0})
    found: list[BaseException] = []
    try:
        with lab.running() as engine:
            engine.wait("initial", SECONDS)
            things.insert_one({"_id": 1, "v": 1})
            things.insert_one(large(1))
            engine.catch_up(SECONDS)
    except Exception as error:  # noqa: BLE001 - what Spark makes of it is looked at below
        found.append(error)
    told = describe(found[0])
    assert (told.condition, told.exit_code) == ("event-too-large", 3)
    assert f"the insert in {lab.name('things')} at " in str(found[0])
    assert "cursor.oversize.handling.mode be skip" in str(found[0])
    lab.with_options("cluster_time", cursor__oversize__handling__mode="skip")
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        result = engine.verify(lab.name("things"))
        assert result.equal, str(result)


def test_documents_above_the_threshold_are_read_by_their_keys(lab: Lab) -> None:
    """With `cursor.oversize.skip.threshold` they stay out of their events at the server; one at or below it comes."""
    start = now(lab.uri)
    lab.collection("things").insert_many([{"_id": 1, "t": "x" * 500}, {"_id": 2}])
    lab.collection("things").replace_one({"_id": 1}, {"t": "y" * 600})
    lab.collection("things").delete_one({"_id": 2})
    options = {
        "database__include__list": lab.database,
        "columns": "state",
        "capture__mode": "change_streams",
        "cursor__oversize__handling__mode": "skip",
        "cursor__oversize__skip__threshold": "400",
    }
    found = [
        (row["op"], row["operation_type"], row["document"]) for row in read_since(lab.uri, start, **options)
    ]
    assert found == [
        ("u", "oversized", None),
        ("c", "insert", {"_id": 2}),
        ("u", "oversized", None),
        ("d", "delete", None),
    ]
    whole = {**options, "capture__mode": "change_streams_update_full"}
    assert [
        row["document"] and len(row["document"].get("t", "")) for row in read_since(lab.uri, start, **whole)
    ] == [
        600,
        0,
        600,
        None,
    ]
    lab.collection("wide").insert_one(large(1))
    with pytest.raises(EventTooLargeError, match="split from MongoDB"):
        read_since(lab.uri, start, database__include__list=lab.database)


def test_a_server_that_splits_no_events_is_refused(lab: Lab) -> None:
    """At the start, with its version and the reason; nothing is made."""
    lab.with_options("cluster_time", cursor__oversize__handling__mode="split")
    with pytest.raises(ConfigurationError, match=r"from 6\.0\.9 on, and this is 6\.0\.\d+"):
        lab.engine().start()
    assert not (lab.folder / "warehouse" / "state").exists()


@pytest.mark.parametrize("mode", ["fail", "skip"])
def test_a_large_event_past_the_end_is_the_next_batchs(mode: str, lab: Lab) -> None:
    """The server comes upon it while it is asked for what lies before: that is all there, and no error."""
    things = lab.collection("things")
    start = now(lab.uri)
    things.insert_many([{"_id": 1}, {"_id": 2}])
    end = now(lab.uri)
    things.insert_one(large(1))
    given = {"database.include.list": lab.database, "columns": "state", "cursor.oversize.handling.mode": mode}
    stream = ChangeOptions.parse({"mongodb.connection.string": lab.uri, **given}).stream
    found = [event[0] for events in ChangeRange(lab.uri, stream, start, end) for event in events]
    assert found == [b"insert"] * 2


def test_what_a_stage_took_away_is_not_too_large(lab: Lab) -> None:
    """With `cursor.oversize.handling.mode=skip`, an event whose document a stage of `cursor.pipeline` has taken away is
    an update without one, which is read by its key; one above the threshold or above 16 MB is "oversized"."""
    stage = {"$set": {"fullDocument": {"$cond": ["$fullDocument.hidden", "$$REMOVE", "$fullDocument"]}}}
    options = {
        "database__include__list": lab.database,
        "cursor__oversize__handling__mode": "skip",
        "cursor__pipeline": json.dumps([stage]),
    }
    start = now(lab.uri)
    things = lab.collection("things")
    things.insert_many([{"_id": 1, "hidden": True}, {"_id": 2, "t": "x" * 500}, {"_id": 3}])
    things.replace_one({"_id": 1}, {"hidden": True, "t": "x" * 500})
    things.insert_one(large(1))
    things.insert_one({"_id": 4, "hidden": True})

    def found(**more: str) -> list[tuple[Any, ...]]:
        events = read_since(lab.uri, start, **options, **more)
        return [(row["op"], row["operation_type"], row["document"] is None) for row in events]

    taken, too_large, whole = ("u", "update", True), ("u", "oversized", True), ("c", "insert", False)
    for columns in ("state", "full"):
        assert found(columns=columns) == [taken, whole, whole, taken, too_large, taken]
        bounded = found(columns=columns, cursor__oversize__skip__threshold="400")
        assert bounded == [taken, too_large, whole, taken, too_large, taken]


def test_events_without_their_documents_by_a_stage_are_told_and_are_no_dead_letters(lab: Lab) -> None:
    """Only what the server left out for its size is a dead letter; what a stage of the user's took away is told as an
    update that says nothing of the document, and the table has both documents."""
    stage = {"$set": {"fullDocument": {"$cond": ["$fullDocument.hidden", "$$REMOVE", "$fullDocument"]}}}
    lab.with_options(
        "cluster_time",
        cursor__oversize__handling__mode="skip",
        cursor__oversize__skip__threshold=400,
        cursor__pipeline=json.dumps([stage]),
        delta__state__filtered=True,
        delta__changelog__enabled=True,
    )
    things = lab.collection("things")
    things.insert_one({"_id": 0})
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        things.insert_many([{"_id": 1, "hidden": True}, {"_id": 2, "t": "x" * 500}, {"_id": 3}])
        engine.catch_up(SECONDS)
        result = engine.verify(lab.name("things"))
        assert result.equal, str(result)
    letters = rows(lab.state / "dead_letters")
    assert [(row["operation"], row["_id"]) for row in letters] == [("oversized", '{"$numberInt": "2"}')]
    changelog = rows(lab.folder / "warehouse" / "changelog" / lab.database / "things")
    told = sorted((row["key"], row["op"], row["after"]) for row in changelog if row["op"] != "r")
    assert told == [("1", "u", None), ("3", "c", '{"_id": 3}')]

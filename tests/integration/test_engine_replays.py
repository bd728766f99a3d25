"""Dead letters replayed beside a running engine: what is stored of them is told to targets of events, once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import bson
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from snapshotter.landing.buried import TOLD, WANTED, BuriedLetters
from snapshotter.landing.targets.dead_letters import SCHEMA
from snapshotter.landing.targets.replays import Replays
from snapshotter.landing.targets.target import EventTarget, Identity
from streaming.events.envelope import Envelope
from streaming.fields.rules import FieldRules
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.commands import run, share
from tests.support.engines import SECONDS, Lab, lab
from tests.support.tables import rows

__all__ = ["lab"]

LATER = ("events", "hashes")

pytestmark = [pytest.mark.slow, pytest.mark.guard]


def renaming(lab: Lab, new: str, **options: object) -> Lab:
    """An engine that renames ``name``, and has a changelog; that the rule is another one is meant."""
    rule = f"{lab.database}.people.name:{new}"
    digits = FieldRules.parse({"field.renames": rule}).digest
    return lab.with_options(
        "cluster_time",
        field__renames=rule,
        engine__fields__confirmed=digits,
        event__processing__failure__handling__mode="warn",
        delta__changelog__enabled=True,
        retriable__restart__connector__wait__ms=10,
        **options,
    )


def meeting(number: int, v: int = 0) -> dict[str, Any]:
    """Its renamed field meets another, as long as that is `called`."""
    return {"_id": number, "name": "a", "called": "b", "v": v}


def told(lab: Lab, *, replayed: bool) -> list[dict[str, Any]]:
    path = lab.folder / "warehouse" / "changelog" / lab.database / "people"
    found = [row for row in rows(path) if (row["source"]["sequence"] is not None) is replayed]
    return sorted(found, key=lambda row: (row["_cluster_time"], row["op"]))


def letters(lab: Lab) -> list[dict[str, Any]]:
    return sorted(rows(lab.state / "dead_letters"), key=lambda row: row["_cluster_time"])


def of_letters(lab: Lab, ids: list[str]) -> set[str | None]:
    """What the letters of these ids say of targets of events."""
    return {row["events"] for row in letters(lab) if row["id"] in ids}


def bury(lab: Lab) -> None:
    """An insert and a replacement that cannot be processed."""
    renaming(lab, "called")
    people = lab.collection("people")
    people.insert_one({"_id": 1, "name": "n"})
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        people.insert_one(meeting(2))
        people.replace_one({"_id": 1}, meeting(1, 7))
        people.insert_one({"_id": 3, "name": "n"})
        engine.catch_up(SECONDS)


def test_stored_bytes_are_told_once_and_say_that_they_are_replayed(
    lab: Lab, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the rules let them, with their time and their operation, and a mark that names the letter; not again when
    the command is given again, nor where the engine fails between a changelog's commit and what the letter says of it.
    State tables get the documents as they are by now. As long as the rules are as they were they are refused."""
    share(spark, monkeypatch)
    bury(lab)
    with lab.running() as engine:
        assert run(lab, "dead-letters replay", "--wait").exit_code == 0
        engine.until(
            "refused", lambda: all(r["events"] for r in letters(lab) if r["stage"] == "stream"), SECONDS
        )
    streamed = [row for row in letters(lab) if row["stage"] == "stream"]
    assert len(streamed) == 2
    assert all(
        row["events"].startswith("refused: ") and "becomes 'called'" in row["events"] for row in streamed
    )
    assert told(lab, replayed=True) == []

    renaming(lab, "named")
    settle, failed = BuriedLetters.settle, list[int]()

    def fails(self: BuriedLetters, outcomes: Any) -> None:
        if not failed:
            failed.append(len(outcomes))
            raise OSError("planted: behind the commit of the changelog")
        settle(self, outcomes)

    monkeypatch.setattr(BuriedLetters, "settle", fails)
    ids = [row["id"] for row in streamed]
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        lab.collection("people").update_one({"_id": 2}, {"$set": {"v": 9}})
        done = run(lab, "dead-letters replay", *ids, "--wait", "--json")
        assert json.loads(done.stdout)["told"] == 2
        engine.until("told", lambda: of_letters(lab, ids) == {"told"}, SECONDS)
        again = run(lab, "dead-letters replay", *ids, "--wait", "--json")
        assert json.loads(again.stdout)["told"] == 0
        engine.catch_up(SECONDS)
        result = engine.verify(lab.name("people"))
        assert result.equal, str(result)
    assert failed
    insert, replacement = told(lab, replayed=True)
    assert [(row["op"], row["_cluster_time"], row["_order"]) for row in (insert, replacement)] == [
        (op, letter["_cluster_time"], None) for op, letter in zip("cu", streamed, strict=True)
    ]
    assert json.loads(insert["after"]) == {"_id": 2, "called": "b", "v": 0, "named": "a"}
    assert json.loads(replacement["after"]) == {"_id": 1, "called": "b", "v": 7, "named": "a"}
    assert [json.loads(row["source"]["sequence"]) for row in (insert, replacement)] == [
        ["replayed", letter["id"]] for letter in streamed
    ]
    assert {row["v"] for row in lab.rows("people") if row["_id"] == 2} == {9}


class Taking:
    """A target of events that takes all."""

    def __init__(self) -> None:
        self.marks: list[str] = []

    def replay(
        self, told: DataFrame, marks: Mapping[Namespace, Mapping[str, str]], identity: Identity
    ) -> frozenset[str]:
        found = {mark for ops in marks.values() for mark in ops}
        assert {row[0] for row in told.select("source.sequence").collect()} == found
        self.marks += sorted(found)
        return frozenset(found)


def test_letters_wait_for_their_time_and_for_their_collection(spark: SparkSession, tmp_path: Path) -> None:
    """A changelog takes no event up to the newest time that it holds. So where the position was set back a letter of
    later waits until the stream is there; else what lies between would never be told. One of a collection that is
    suspended keeps no other from its turn."""
    texts = [name for name in SCHEMA.names if SCHEMA.field(name).type == pa.string()]
    row = (
        dict.fromkeys(SCHEMA.names)
        | dict.fromkeys(texts)
        | {"ts_ms": 1, "batch": 1, "size": 4, "stage": "stream"}
    )
    row |= {
        "operation": "insert",
        "_key": "Nb1",
        "bytes": bson.encode({"_id": 1}),
        "events": WANTED,
        "error": "e",
    }
    held = {"id": "a", "collection": "shop.held", "_cluster_time": at(1)}
    late = {"id": "b", "collection": "shop.people", "_cluster_time": at(50)}
    soon = {"id": "c", "collection": "shop.people", "_cluster_time": at(5)}
    path, taking = str(tmp_path / "dead_letters"), Taking()
    table = pa.Table.from_pylist([{**row, **one} for one in (held, late, soon)], SCHEMA)
    spark.createDataFrame(table).write.format("delta").save(path)
    letters = BuriedLetters(spark, path)
    replays = Replays(
        lambda: letters,
        [cast(EventTarget, taking)],
        Envelope("shop", "1"),
        lambda _: True,
        lambda _: None,
        "",
        lambda: len(letters.wanted(10)),
        lambda: None,
    )

    def land(batch: int, time: int, *left_out: str) -> set[str]:
        position = ClusterTime.from_int(at(time)).to_json()
        replays.land(Identity(batch, {"position": position}), [Namespace.parse(name) for name in left_out])
        return {one.id for one in letters.find() if one.events == TOLD}

    assert land(1, 10, "shop.held") == {"c"}
    assert land(2, 20, "shop.held") == {"c"}
    assert land(3, 60, "shop.held") == {"b", "c"}
    assert [one.id for one in letters.wanted(1, {"shop.held"})] == []
    assert land(4, 70) == {"a", "b", "c"}


def at(time: int) -> int:
    return time << 32


def test_a_table_of_an_earlier_version_takes_marks(spark: SparkSession, tmp_path: Path) -> None:
    """It lacks what targets of events know of a letter: that is nothing, until a letter is marked."""
    texts = [name for name in SCHEMA.names if SCHEMA.field(name).type == pa.string() and name not in LATER]
    row = dict.fromkeys(SCHEMA.names) | dict.fromkeys(texts, "t") | {"ts_ms": 1, "batch": 1, "size": 4}
    made = [{**row, "id": letter, "bytes": b"some", "replayed_at": None} for letter in "ab"]
    earlier = pa.schema([field for field in SCHEMA if field.name not in LATER])
    path = str(tmp_path / "dead_letters")
    table = pa.Table.from_pylist([{n: one[n] for n in earlier.names} for one in made], earlier)
    spark.createDataFrame(table).write.format("delta").save(path)
    letters = BuriedLetters(spark, path)
    assert [(one.id, one.events, one.stored) for one in letters.find()] == [
        ("a", None, True),
        ("b", None, True),
    ]
    assert letters.wanted(10) == []
    letters.mark(["a", "b"], "r", 5, wanted=["b"])
    assert [one.id for one in letters.wanted(10)] == ["b"]
    letters.settle({"a": TOLD, "b": TOLD})
    assert {one.id: (one.events, one.replayed_by) for one in letters.find()} == {
        "a": (None, "r"),
        "b": (TOLD, "r"),
    }

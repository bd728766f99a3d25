"""Documents whose bytes are damaged on their way, on a real engine behind a proxy that damages them: none of it ends a
worker, none of it suspends a collection, and all others land."""

from __future__ import annotations

from typing import Any

import pytest

from snapshotter.reading.document_errors import DocumentError
from tests.support.damage import damaging
from tests.support.engines import SECONDS, Lab, lab
from tests.support.tables import rows

__all__ = ["lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]

MODE = "event__processing__failure__handling__mode"


def sound(number: int, v: int = 0) -> dict[str, Any]:
    return {"_id": number, "v": v}


def damaged(number: int) -> dict[str, Any]:
    return {"_id": number, "v": -1, "damaged": "text"}


@pytest.mark.parametrize("told", [False, True], ids=["tables alone", "events are told"])
def test_damaged_documents_are_buried(told: bool, lab: Lab) -> None:
    """Read by a load, streamed, and looked up; whatever is around them lands, and is told. A read with reconcile leaves
    the row of a document that was there, and a later sound event of its key lands."""
    lab.with_options("cluster_time", **{MODE: "skip", "delta__changelog__enabled": told})
    things = lab.collection("things")
    things.insert_many([damaged(n) if n in (2, 7) else sound(n) for n in range(10)])
    with damaging(lab.uri) as lab.uri, lab.running() as engine:
        assert engine.wait("initial", SECONDS).tasks[0].rows == 8
        things.insert_one(damaged(10))
        things.insert_one(sound(11))
        things.update_one({"_id": 1}, {"$set": damaged(1)})
        things.replace_one({"_id": 3}, damaged(3))
        things.delete_one({"_id": 4})
        engine.catch_up(SECONDS)
        found = {row["_id"]: row["v"] for row in lab.rows("things")}
        assert found == dict.fromkeys((0, 1, 3, 5, 6, 8, 9, 11), 0)
        name = engine.execute_snapshot(lab.name("things"), reconcile=True)
        assert engine.wait(name, SECONDS).tasks[0].deleted == 0
        assert len(lab.rows("things")) == 8
        things.replace_one({"_id": 3}, sound(3, 5))
        engine.catch_up(SECONDS)
        assert {row["_id"]: row["v"] for row in lab.rows("things")} == found | {3: 5}
        assert lab.status().suspended == ()
    if told:
        changelog = rows(lab.folder / "warehouse" / "changelog" / lab.database / "things")
        assert {row["key"] for row in changelog if row["op"] == "r"} == set(
            map(str, (0, 1, 3, 4, 5, 6, 8, 9, 11))
        )
        assert sorted(row["key"] for row in changelog if row["op"] != "r") == ["11", "3", "4"]
    letters = rows(lab.state / "dead_letters")
    streamed = {(row["_id"], row["stage"]) for row in letters if row["stage"] != "read"}
    stages = {1: "lookup", 3: "stream", 10: "stream"}
    assert streamed == {(f'{{"$numberInt": "{n}"}}', stage) for n, stage in stages.items()}
    assert sorted(row["_id"] for row in letters if row["request"] == "initial") == [
        f'{{"$numberInt": "{n}"}}' for n in (2, 7)
    ]
    assert all("0x20" in row["error"] for row in letters)
    assert all(row["bytes"].count(b"\x20damaged\0") == 1 for row in letters)


def test_by_default_the_engine_stops_at_damaged_bytes(lab: Lab) -> None:
    """Before anything of its table lands in that batch; the collection is not suspended. Once the network is sound
    again it goes on where it was, and nothing is lost."""
    lab.with_options("cluster_time")
    things = lab.collection("things")
    things.insert_many([sound(n) for n in range(3)])
    direct, found = lab.uri, list[DocumentError]()
    try:
        with damaging(direct) as lab.uri, lab.running() as engine:
            engine.wait("initial", SECONDS)
            things.insert_many([sound(3), damaged(4)])
            engine.catch_up(SECONDS)
    except DocumentError as error:
        found.append(error)
    assert 'things: an event (_id {"$numberInt": "4"}' in str(found[0])
    assert lab.status().suspended == ()
    assert len(lab.rows("things")) == 3
    lab.uri = direct
    with lab.running() as engine:
        engine.catch_up(SECONDS)
    lab.assert_equal("things")

"""Pre- and post-images: a collection that keeps none is found, and helped, on a real server."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from structlog.testing import capture_logs

from snapshotter.reading.stored_images import OPTION, StoredImages, command_for, lost_without
from streaming.namespaces import Namespace
from tests.support.engines import SECONDS, Lab, Reads, lab, reads
from tests.support.tables import rows

__all__ = ["lab", "reads"]

Client = MongoClient[dict[str, Any]]
LOST = lost_without(before=True, after=True)


def keeps(client: Client, name: Namespace) -> bool:
    (info,) = client[name.database].list_collections(filter={"name": name.collection})
    return bool(info["options"].get(OPTION, {}).get("enabled", False))


def told(events: list[Any]) -> list[tuple[str, str]]:
    """Collection and command of each warning."""
    return [(e["collection"], e["run"]) for e in events if e["log_level"] == "warning"]


def test_a_collection_without_post_images_is_reported_once_with_the_command(
    mongo_client: Client, database: str
) -> None:
    """Also one that comes later, one that is made anew, and one that has them switched off; and the command works."""
    orders, people, later = (Namespace(database, name) for name in ('or"ders', "people", "later"))
    mongo_client[database].create_collection("people", changeStreamPreAndPostImages={"enabled": True})
    mongo_client[database].create_collection(orders.collection)
    now = [0.0]
    images = StoredImages(mongo_client, enable=False, lost=LOST, clock=lambda: now[0])
    with capture_logs() as events:
        images.look([orders, people])
        images.look([orders, people])
        mongo_client[database].create_collection("later")
        images.look([later])
    assert told(events) == [(str(name), command_for(name)) for name in (orders, later)]
    assert 'collMod: "or\\"ders"' in command_for(orders)
    mongo_client[database].command({"collMod": orders.collection, OPTION: {"enabled": True}})
    now[0] += 60
    with capture_logs() as events:
        images.look([])
    assert told(events) == []
    mongo_client[database].drop_collection("people")
    mongo_client[database].create_collection("people")
    now[0] += 60
    with capture_logs() as events:
        images.look([])
    assert told(events) == [(str(people), command_for(people))]


def test_they_are_switched_on_where_that_is_asked_for(mongo_client: Client, database: str) -> None:
    """Of a view they can't be: that is said, with the server's reason."""
    orders, view = Namespace(database, "orders"), Namespace(database, "view")
    mongo_client[database].create_collection("orders")
    mongo_client[database].create_collection("view", viewOn="orders", pipeline=[])
    with capture_logs() as events:
        StoredImages(mongo_client, enable=True, lost=LOST).look([orders, view])
    assert keeps(mongo_client, orders)
    assert [name for name, _ in told(events)] == [str(view)]


def test_what_is_lost_without_them() -> None:
    """By what counts on them; nothing, where nothing does."""
    assert lost_without(before=False, after=False) == ""
    assert lost_without(before=False, after=True) == "no post-images: updates are read again by their ids"
    assert LOST.startswith("no pre-images: what is told of changes has no before; no post-images")


def test_an_engine_that_tells_what_was_before_switches_them_on(lab: Lab) -> None:
    """For its changelogs; without these, nothing would hold a pre-image, and no collection is asked to keep any."""
    lab.with_options(
        "cluster_time",
        snapshot__mode="no_data",
        capture__mode="change_streams_update_full_with_pre_image",
        delta__changelog__enabled=True,
        engine__post__images__enable=True,
    )
    orders = lab.client[lab.database].create_collection("orders")
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        engine.until("pre-images", lambda: keeps(lab.client, lab.namespace("orders")), SECONDS)
        orders.insert_one({"_id": 1, "v": 0})
        orders.delete_one({"_id": 1})
        engine.catch_up(SECONDS)
    told = rows(lab.folder / "warehouse" / "changelog" / lab.database / "orders")
    assert [row["before"] for row in told if row["op"] == "d"] == ['{"_id": 1,"v": 0}']


@pytest.mark.parametrize("before", [True, False], ids=["there", "later"])
def test_an_engine_that_may_switch_them_on_does(lab: Lab, reads: Reads, before: bool) -> None:
    """For a collection that is there at the start, and for one that is made while it streams: updates from then on
    come with their documents."""
    lab.with_options(
        "cluster_time",
        snapshot__mode="no_data",
        capture__mode__full__update__type="post_image",
        engine__post__images__enable=True,
    )
    orders = lab.collection("orders")
    lab.collection("people").insert_one({"_id": 0})
    if before:
        lab.client[lab.database].create_collection("orders")
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        orders.insert_many([{"_id": n, "v": 0} for n in range(3)])
        engine.catch_up(SECONDS)
        engine.until("post-images", lambda: keeps(lab.client, lab.namespace("orders")), SECONDS)
        orders.update_many({}, {"$inc": {"v": 1}})
        engine.catch_up(SECONDS)
        assert reads.jobs == []
    lab.assert_equal("orders")

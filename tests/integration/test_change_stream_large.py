"""Documents of 9 MB: an event is larger than a reply may be if it carries what nobody needs."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from pyspark.sql.streaming.datasource import ReadMaxRows

from streaming.mongo.errors import EventTooLargeError
from streaming.positions import ORIGIN
from streaming.source.change_stream import Offset
from tests.support.changes import brief, now, read, read_since, reader, trailer
from tests.support.splitting import splitting

Client = MongoClient[dict[str, Any]]
SIZE = 9 << 20
MODES = (
    "change_streams",
    "change_streams_update_full",
    "change_streams_with_pre_image",
    "change_streams_update_full_with_pre_image",
)


def change_twice(client: Client, database: str) -> None:
    """A document that is replaced, and one that is updated, by 9 MB each; what they were is kept by the server."""
    images = {"enabled": True}
    large = client[database].create_collection("large", changeStreamPreAndPostImages=images)
    large.insert_many([{"_id": 1, "text": "a" * SIZE}, {"_id": 2}])
    large.replace_one({"_id": 1}, {"text": "b" * SIZE})
    large.update_one({"_id": 2}, {"$set": {"text": "c" * SIZE}})


@pytest.mark.parametrize("update_type", ["lookup", "post_image"])
@pytest.mark.parametrize("mode", MODES)
def test_what_a_state_table_needs_arrives(
    mongo_uri: str, mongo_client: Client, database: str, mode: str, update_type: str
) -> None:
    """Under every capture mode: the 9 MB that a replaced document was, and what an update set beside the whole
    document, are not sent at all. The tokens behind these events lead on."""
    start = now(mongo_uri)
    change_twice(mongo_client, database)
    options = {
        "capture__mode": mode,
        "capture__mode__full__update__type": update_type,
        "database__include__list": database,
        "columns": "state",
        "trailer": "true",
    }
    *rows, _ = found = read_since(mongo_uri, start, **options)
    assert [row["operation_type"] for row in rows] == ["insert", "insert", "replace", "update"]
    texts = [row["document"] and row["document"].get("text", "")[:1] for row in rows]
    assert texts == ["a", "", "b", "c" if "full" in mode else None]
    assert all(row["before"] is None and row["update_description"] is None for row in rows)
    mongo_client[database]["large"].insert_one({"_id": 3})
    behind = reader(mongo_uri, **options, start__resume__token=trailer(found)["token"])
    first = behind.latestOffset(Offset(ORIGIN).to_json(), ReadMaxRows(1))
    assert brief(read(behind, Offset.from_json(first).time, now(mongo_uri)))[:-1] == [("insert", 3)]


def test_asking_for_all_columns_gets_them_or_an_error(
    mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """The source's schema promises them. An event of 18 MB cannot come, and the error says what to leave out."""
    start = now(mongo_uri)
    images = {"enabled": True}
    items = mongo_client[database].create_collection("items", changeStreamPreAndPostImages=images)
    items.insert_one({"_id": 1, "n": 1})
    items.update_one({"_id": 1}, {"$set": {"n": 2}})
    full = {
        "capture__mode": "change_streams_update_full_with_pre_image",
        "capture__mode__full__update__type": "post_image",
        "database__include__list": database,
    }
    _, update = read_since(mongo_uri, start, **full)
    assert (update["document"]["n"], update["before"]["n"]) == (2, 1)
    assert update["update_description"]["updatedFields"] == {"n": 2}
    change_twice(mongo_client, database)
    with pytest.raises(EventTooLargeError, match="columns=state"):
        read_since(mongo_uri, start, **full)


@pytest.mark.parametrize("columns", ["state", "full"])
def test_fragments_are_put_together(
    mongo_uri: str, mongo_client: Client, database: str, columns: str
) -> None:
    """Of a server that splits every event, and a batch within one (a proxy scripts that, none here does): the same rows
    and the same token as of one that splits none."""
    start = now(mongo_uri)
    images = {"enabled": True}
    items = mongo_client[database].create_collection("items", changeStreamPreAndPostImages=images)
    items.insert_many([{"_id": n, "n": n} for n in range(9)])
    items.update_many({}, {"$inc": {"n": 1}})
    items.replace_one({"_id": 3}, {"n": 7})
    items.delete_one({"_id": 4})
    options = {
        "capture__mode": "change_streams_update_full_with_pre_image",
        "capture__mode__full__update__type": "post_image",
        "database__include__list": database,
        "columns": columns,
        "trailer": "true",
    }
    *whole, end = read_since(mongo_uri, start, **options)
    with splitting(mongo_uri) as (uri, proxy):
        *found, last = read_since(uri, start, **options, cursor__oversize__handling__mode="split")
    assert found == whole
    assert proxy.fragments > 2 * len(whole)
    assert trailer([last])["events"] == trailer([end])["events"] == 20

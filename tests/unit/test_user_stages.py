"""`streaming.source.user_stages`: what is taken for stages of a change stream. How they act is shown on a real one, by
`tests.integration.test_change_stream_pipeline`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streaming.source.user_stages import Order, UserStages

CAPTURED = {"$match": {"ns.db": "shop"}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[{", "JSON array of stages"),
        ("{}", "not dict"),
        ('["$match"]', "stage 1: must be an object with one field"),
        ('[{"$match": {}}, {"$group": {"_id": 1}}]', "stage 2: MongoDB takes no $group"),
        ('[{"$changeStreamSplitLargeEvent": {}}]', "cursor.oversize.handling.mode=split"),
        ('[{"$match": {}, "$set": {}}]', "one field"),
        ('[{"$match": []}]', "$match must be an object"),
        ('[{"$unset": 1}]', "$unset must be"),
        ('[{"$unset": ["a", 1]}]', "$unset must be"),
        ('[{"$replaceRoot": {"new": 1}}]', "newRoot"),
        ('[{"$unset": "_id"}]', "resume token"),
        ('[{"$set": {"_id._data": 1}}]', "resume token"),
        ('[{"$project": {"_id": 0, "ns": 1}}]', "resume token"),
        ('[{"$unset": "_snapshotter.event"}]', "engine's own"),
    ],
)
def test_what_is_wrong_is_said_of_its_stage(text: str, why: str) -> None:
    """Before anything is asked of a server, which would say less."""
    with pytest.raises(ValueError, match="stage") as caught:
        UserStages.parse(text)
    assert why in str(caught.value)


def test_without_stages_the_pipeline_is_ours() -> None:
    """Nothing is carried along for nobody."""
    for text in ("", " ", "[]"):
        assert UserStages.parse(text, Order.USER_ONLY).around(CAPTURED, None) == [CAPTURED]


@pytest.mark.parametrize(
    ("order", "place"), [(Order.INTERNAL_FIRST, 0), (Order.USER_FIRST, -1), (Order.USER_ONLY, -1)]
)
def test_what_is_captured_holds_in_every_order(order: Order, place: int) -> None:
    """What no list captures has no table to go to."""
    stages = UserStages.parse('[{"$match": {"operationType": "insert"}}]', order).around(CAPTURED, None)
    assert stages[place] == CAPTURED
    assert stages.count(CAPTURED) == 1


def test_operations_are_left_out_before_the_stages() -> None:
    """By Debezium's letters; an update may be a replacement."""
    both = UserStages.parse('[{"$set": {"a": 1}}]', skipped=("u", "d"))
    _, _, first, second, *_ = both.around(CAPTURED, None)
    assert {"operationType": {"$nin": ("update", "replace", "delete")}} in first["$match"]["$or"]
    assert second == {"$set": {"a": 1}}
    assert UserStages.parse("", skipped=("d",))
    assert not UserStages.parse("", skipped=("d",)).stages, "none that looks at documents"


@pytest.mark.parametrize(
    ("projection", "inclusion"),
    [
        ({"fullDocument": 1}, True),
        ({"fullDocument": {"a": {"b": True}}}, True),
        ({"_id": 1}, True),
        ({"a": {"$add": [1, 2]}}, True),
        ({"a": "$b"}, True),
        ({"fullDocument.secret": 0}, False),
        ({"fullDocument": {"secret": False}}, False),
        ({"_id": 1, "a": 0}, False),
    ],
)
def test_an_inclusion_takes_our_field_along(projection: dict[str, Any], inclusion: bool) -> None:
    """An exclusion leaves it where it is, and would not be one if it named it."""
    (_, stage, *_) = UserStages.parse(json.dumps([{"$project": projection}]), Order.USER_FIRST).around(
        CAPTURED, None
    )
    assert ("_snapshotter" in stage["$project"]) == inclusion

"""Signals made by programs: from values of Python, checked as any other."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bson import ObjectId

from signals.actions import Condition, ExecuteSnapshot, IdRange
from signals.errors import SignalError
from signals.parsing.snapshot_actions import execute_action

NAMES = ("shop.orders",)


def test_values_keep_their_types() -> None:
    """Ids are what the driver has for them."""
    oid, at = ObjectId("65a1b2c3d4e5f60718293a4b"), datetime(2024, 1, 1, tzinfo=UTC)
    keys = (
        '{"$numberInt": "5"}',
        '"5"',
        f'{{"$oid": "{oid}"}}',
        '{"$date": {"$numberLong": "1704067200000"}}',
    )
    assert execute_action(
        "a", NAMES, keys=[5, "5", oid, at, 5], priority=2, reconcile=True
    ) == ExecuteSnapshot("a", NAMES, keys=keys, priority=2, reconcile=True)
    assert execute_action("a", NAMES, id_range=(None, "z")).range == IdRange(None, '"z"')
    filtered = execute_action("a", NAMES, filters={"shop.orders": "{n: 1}"}, dry_run=True)
    assert filtered == ExecuteSnapshot(
        "a", NAMES, additional_conditions=(Condition("shop.orders", '{"n": 1}'),), dry_run=True
    )


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"keys": []}, "at least one"),
        ({"keys": [object()]}, "is no value of a BSON type"),
        ({"keys": [[1]]}, "is no id that MongoDB has"),
        ({"id_range": (None, None)}, "range has min, max, or both"),
        ({"keys": [1], "id_range": (1, None)}, "exclude each other"),
        ({"reconcile": True, "filters": {"shop.orders": "{n: 1}"}}, "reconcile and additional-conditions"),
        ({"filters": {"shop.orders": "{n: "}}, "not a query document"),
        ({"priority": 10**9}, "priority must be a whole number"),
        (
            {"filters": "{n: 1}"},
            "filters has a query document for each collection, by its name, got '{n: 1}'",
        ),
        ({"filters": {"status": "open"}}, r"filters has one for 'status', which is none of .*shop\.orders"),
        ({"id_range": "az"}, "id_range must be the lowest and the highest id"),
        ({"id_range": 5}, "id_range must be the lowest and the highest id"),
        ({"id_range": (1, 2, 3)}, "id_range must be the lowest and the highest id"),
        ({"blocking": "no"}, "blocking must be true or false, got 'no'"),
    ],
)
def test_what_no_signal_may_say(asked: dict[str, object], why: str) -> None:
    """Is refused here too; above all, no ids are not all ids."""
    with pytest.raises(SignalError, match=rf"signal 'a'.*{why}"):
        execute_action("a", NAMES, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("keys", "texts"),
    [
        ("65a1", ('"65a1"',)),
        (b"\1", ('{"$binary": {"base64": "AQ==", "subType": "00"}}',)),
        (17, ('{"$numberInt": "17"}',)),
        ({"a": 1}, ('{"a": {"$numberInt": "1"}}',)),
        ((key for key in "ab"), ('"a"', '"b"')),
    ],
)
def test_what_is_no_list_is_one_id(keys: object, texts: tuple[str, ...]) -> None:
    """A text above all: nobody means its letters."""
    assert execute_action("a", NAMES, keys=keys).keys == texts


def test_filters_are_documents_or_text() -> None:
    """The same filter either way."""
    of_values = execute_action("a", NAMES, filters={"shop.orders": {"n": {"$gte": 1}}})
    assert of_values.additional_conditions[0].filter == '{"n": {"$gte": {"$numberInt": "1"}}}'


def test_ids_of_an_array_or_a_column() -> None:
    """Their values are Python's; a whole table is no list of ids."""
    texts = ('{"$numberInt": "1"}', '{"$numberInt": "2"}')
    for keys in (np.array([1, 2]), pd.Series([1, 2]), pa.array([1, 2])):
        assert execute_action("a", NAMES, keys=keys).keys == texts
    with pytest.raises(SignalError, match="Give one of its columns"):
        execute_action("a", NAMES, keys=pd.DataFrame({"_id": [1]}))


def test_a_filter_may_be_of_what_a_pattern_matches() -> None:
    """Which collections these are is known to the engine alone."""
    filters = {"shop.orders": "{n: 1}"}
    assert execute_action("a", (r"shop\..*",), filters=filters).additional_conditions
    assert execute_action("a", ("Shop.Orders",), filters=filters).additional_conditions

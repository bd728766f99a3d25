"""What a signal means: the collections that it names among those that are captured, with their filters."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient

from signals.actions import Condition, ExecuteSnapshot
from snapshotter.catalogue import RequestRefused, resolve
from snapshotter.core.requests import Origin, SnapshotRequest, Wanted
from streaming.namespaces import Namespace

CAPTURED = [Namespace("shop", name) for name in ("orders", "orders.old", "people")]


@pytest.fixture
def nobody() -> MongoClient[dict[str, Any]]:
    """A client of a server that is not there: without a filter nothing is asked of it."""
    return MongoClient("mongodb://127.0.0.1:1/", connect=False, serverSelectionTimeoutMS=1)


def test_names_and_patterns(nobody: MongoClient[dict[str, Any]]) -> None:
    """Each collection once, whether it is named or matched."""

    def meant(*patterns: str) -> list[str]:
        request = resolve(ExecuteSnapshot("r", patterns), nobody, CAPTURED)
        assert (request.id, request.origin) == ("r", Origin.SIGNAL)
        return [wanted.namespace.collection for wanted in request.wanted]

    assert meant("shop.people") == ["people"]
    assert sorted(meant(r"shop\.orders.*")) == ["orders", "orders.old"]
    assert sorted(meant("shop.people", r"shop\.p.*", r"shop\.orders")) == ["orders", "people"]
    assert resolve(ExecuteSnapshot("r", ("shop.people",)), nobody, CAPTURED) == SnapshotRequest(
        "r", (Wanted(CAPTURED[2]),)
    )


@pytest.mark.parametrize("pattern", ["shop.nothing", "other.orders", "sho.*x"])
def test_what_is_not_captured_is_refused(nobody: MongoClient[dict[str, Any]], pattern: str) -> None:
    """The message names it, what there is, and the option."""
    with pytest.raises(RequestRefused) as refused:
        resolve(ExecuteSnapshot("r7", (pattern,)), nobody, CAPTURED)
    assert "signal 'r7'" in str(refused.value)
    assert "shop.orders, shop.orders.old, shop.people" in str(refused.value)
    assert "collection.include.list" in str(refused.value)


def test_a_filter_that_is_no_query_is_refused(nobody: MongoClient[dict[str, Any]]) -> None:
    """Before any server is asked: by signal, filter and collection."""
    conditions = (Condition("shop.people", "{oops"),)
    with pytest.raises(RequestRefused, match=r"signal 'r': the filter \{oops for shop\.people is refused"):
        resolve(ExecuteSnapshot("r", ("shop.people",), additional_conditions=conditions), nobody, CAPTURED)


def test_a_filter_for_another_collection_does_not_count(nobody: MongoClient[dict[str, Any]]) -> None:
    """Each collection has its own."""
    conditions = (Condition("shop.orders", "{oops"),)
    action = ExecuteSnapshot("r", ("shop.people",), additional_conditions=conditions)
    assert resolve(action, nobody, CAPTURED).wanted == (Wanted(CAPTURED[2]),)

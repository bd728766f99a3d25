"""What a signal means: the collections that it names among those that are captured, with their filters."""

from __future__ import annotations

import json
from typing import Any

import bson
import pytest
from bson import Decimal128, Int64, ObjectId
from pymongo import MongoClient
from pymongo.errors import ServerSelectionTimeoutError

from signals.actions import Condition, ExecuteSnapshot, IdRange
from signals.errors import CodeInFilter, SignalError
from signals.parsing.extended_json import canonical
from signals.parsing.signal import parse_signal
from snapshotter.core.values.chunks import Bound, KeyRange
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from snapshotter.reading.catalogue import RequestRefused, digest_of, refuse_wrong_names, resolve
from snapshotter.reading.range_find import bound_of
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
    asked = ExecuteSnapshot("r", ("shop.people",))
    wanted = (Wanted(CAPTURED[2]),)
    assert resolve(asked, nobody, CAPTURED) == SnapshotRequest("r", wanted, digest=digest_of(asked))


def test_a_digest_stands_for_what_was_sent() -> None:
    """Not for what it means today: a pattern may match more collections tomorrow."""
    one, two = ExecuteSnapshot("r", ("shop.*",)), ExecuteSnapshot("r", ("shop.p.*",))
    assert digest_of(one) == digest_of(ExecuteSnapshot("r", ("shop.*",))) != digest_of(two)


@pytest.mark.parametrize("pattern", ["shop.nothing", "other.orders", "sho.*x"])
def test_what_is_not_captured_is_refused(nobody: MongoClient[dict[str, Any]], pattern: str) -> None:
    """The message names it, what there is, and the option."""
    with pytest.raises(RequestRefused) as refused:
        resolve(ExecuteSnapshot("r7", (pattern,)), nobody, CAPTURED)
    assert "signal 'r7'" in str(refused.value)
    assert "shop.orders, shop.orders.old, shop.people" in str(refused.value)
    assert "collection.include.list" in str(refused.value)


def test_a_filter_that_is_no_query_is_refused(nobody: MongoClient[dict[str, Any]]) -> None:
    """Before any server is asked: by signal and filter."""
    conditions = (Condition("shop.people", "{oops"),)
    with pytest.raises(SignalError, match=r"signal 'r': the filter is not JSON .*\{oops"):
        resolve(ExecuteSnapshot("r", ("shop.people",), additional_conditions=conditions), nobody, CAPTURED)


def test_a_filter_for_another_collection_does_not_count(nobody: MongoClient[dict[str, Any]]) -> None:
    """Each collection has its own."""
    conditions = (Condition("shop.orders", "{oops"),)
    action = ExecuteSnapshot("r", ("shop.people",), additional_conditions=conditions)
    assert resolve(action, nobody, CAPTURED).wanted == (Wanted(CAPTURED[2]),)


def bound(value: object) -> Bound:
    return bound_of(bson.encode({"_id": value}))


def asked(collection: str = "shop.people", **data: Any) -> ExecuteSnapshot:
    """As it comes from a channel."""
    action = parse_signal("r", "execute-snapshot", {"data-collections": [collection], **data})
    assert isinstance(action, ExecuteSnapshot)
    return action


def test_single_ids(nobody: MongoClient[dict[str, Any]]) -> None:
    """Of their own types, in their order, each document once: MongoDB holds 5, 5.0 and a decimal 5 equal, and a text of
    the same digits not."""
    oid = ObjectId()
    ids = [5, "5", 5.0, Decimal128("5.00"), Int64(5), {"a": 1}, oid, None]
    keys = [json.loads(canonical(value)) for value in ids]
    (want,) = resolve(asked(keys=keys), nobody, CAPTURED).wanted
    assert want == Wanted(CAPTURED[2], keys=tuple(map(bound, (5, "5", {"a": 1}, oid, None))))


def test_a_range(nobody: MongoClient[dict[str, Any]]) -> None:
    """Both ends are in it; where one is left out there is none. A name with dots is written in quotes."""

    def meant(**ends: object) -> KeyRange | None:
        (want,) = resolve(asked('shop."orders.old"', range=ends), nobody, CAPTURED).wanted
        assert want.namespace == CAPTURED[1]
        return want.range

    assert meant(min=3, max=7) == KeyRange(bound(3), bound(7), closed=True)
    assert meant(min=3, max=3) == KeyRange(bound(3), bound(3), closed=True)
    assert meant(min=3) == KeyRange(bound(3), None, closed=True)
    assert meant(max=7) == KeyRange(None, bound(7))
    oid = {"$oid": "65a1b2c3d4e5f60718293a4b"}
    assert meant(min=10**6, max=oid) == KeyRange(bound(10**6), bound(ObjectId(oid["$oid"])), closed=True)


@pytest.mark.parametrize("ends", [{"min": 7, "max": 3}, {"min": {"$oid": "6" * 24}, "max": 3}])
def test_a_range_with_nothing_in_it_is_refused(
    nobody: MongoClient[dict[str, Any]], ends: dict[str, object]
) -> None:
    """In MongoDB's order of all types; the message shows both ends."""
    with pytest.raises(SignalError, match=r"signal 'r': range has min .* after max .*3"):
        resolve(asked(range=ends), nobody, CAPTURED)


@pytest.mark.parametrize("patterns", [("shop.*",), ("shop.people", "shop.orders")])
def test_ids_are_of_one_collection(nobody: MongoClient[dict[str, Any]], patterns: tuple[str, ...]) -> None:
    """Also where a program made the signal: no pattern is ever expanded for them."""
    with pytest.raises(RequestRefused, match="the plain name of one"):
        resolve(ExecuteSnapshot("r", patterns, keys=("5",)), nobody, CAPTURED)
    with pytest.raises(RequestRefused, match=r"shop\.nothing is no captured collection"):
        resolve(asked("shop.nothing", keys=[5]), nobody, CAPTURED)
    with pytest.raises(SignalError, match="is no id of a document"):
        resolve(ExecuteSnapshot("r", ("shop.people",), keys=("{oops",)), nobody, CAPTURED)
    both = ExecuteSnapshot("r", ("shop.people",), keys=("5",), range=IdRange("3"))
    with pytest.raises(RequestRefused, match="exclude each other"):
        resolve(both, nobody, CAPTURED)


def test_priority_and_reconcile_are_carried(nobody: MongoClient[dict[str, Any]]) -> None:
    """A filter that leaves nothing out is none, so it does not stand in the way of a reconcile."""
    everything = [{"data-collection": "shop.people", "filter": " "}]
    action = asked(priority=-3, reconcile=True, **{"additional-conditions": everything})
    request = resolve(action, nobody, CAPTURED)
    assert (request.priority, request.wanted) == (-3, (Wanted(CAPTURED[2], reconcile=True),))


@pytest.mark.parametrize(
    "query",
    [{"$where": "sleep(1e9)"}, {"$or": [{"$expr": {"$function": {"body": "f", "args": [], "lang": "js"}}}]}],
)
def test_a_filter_with_code_is_refused_before_the_server_sees_it(
    nobody: MongoClient[dict[str, Any]], query: dict[str, Any]
) -> None:
    """At any depth; where it is allowed the server is asked, as about any other filter."""
    action = asked(**{"additional-conditions": [{"data-collection": "shop.people", "filter": query}]})
    with pytest.raises(CodeInFilter, match=r"signal 'r': the filter has \$(where|function).*JavaScript"):
        resolve(action, nobody, CAPTURED)
    with pytest.raises(ServerSelectionTimeoutError):
        resolve(action, nobody, CAPTURED, allow_code=True)


@pytest.mark.parametrize(
    ("patterns", "refused"),
    [
        (("shop.orders", "shop.ordres"), r"shop\.ordres is no captured collection \(near it: shop\.orders"),
        (("sho.*x",), r"sho\.\*x is no captured collection"),
        (("shop.orders", "sho.*x"), None),
        (("shop.orders", "shop.orders.old"), None),
    ],
)
def test_a_list_is_looked_at_before_it_is_sent(patterns: tuple[str, ...], refused: str | None) -> None:
    """One misspelt name refuses the whole of it, with names that are near; an expression may be about what is still to
    come, unless nothing else is selected."""
    if refused is None:
        refuse_wrong_names(patterns, CAPTURED)
    else:
        with pytest.raises(RequestRefused, match=refused):
            refuse_wrong_names(patterns, CAPTURED)

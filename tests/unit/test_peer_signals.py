"""Signals that Debezium's own tests send, and what becomes of them here (docs/peer-tests.md)."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from structlog.testing import capture_logs

from signals.actions import ExecuteSnapshot, PauseSnapshot, ResumeSnapshot, StopSnapshot
from signals.errors import SignalError
from signals.parsing.signal import parse_signal
from snapshotter.core.values.progress import RequestProgress
from snapshotter.reading.catalogue import RequestRefused, digest_of, resolve
from snapshotter.reporting.status_collection import status_of
from snapshotter.state.journal import Journal
from snapshotter.state.storage import MemoryStorage
from streaming.namespaces import Namespace

LISTS: list[object] = [[["shop.orders"]], ["shop.orders", ["shop.people"]], ["shop.orders", 5], [None], 5, {}]
CAPTURED = [Namespace("shop", "orders"), Namespace("shop", "people")]
NOBODY: MongoClient[dict[str, Any]] = MongoClient("mongodb://127.0.0.1:1/", connect=False)


@pytest.mark.parametrize("kind", ["execute-snapshot", "stop-snapshot"])
@pytest.mark.parametrize("named", LISTS, ids=repr)
def test_a_list_that_is_none_does_nothing(kind: str, named: object) -> None:
    """Lists in lists, numbers, nothing of a list at all: refused with what was expected, and neither everything nor the
    rest of it is read or stopped instead."""
    with pytest.raises(SignalError, match=r"data-collections must be a list of strings, got"):
        parse_signal("s", kind, {"data-collections": named})


@pytest.mark.parametrize("data", [None, "", {}, {"data-collections": []}])
def test_a_missing_list_is_nothing_to_read_and_everything_to_stop(data: object) -> None:
    """As in Debezium; but what reads nothing is refused there without a word."""
    assert parse_signal("s", "stop-snapshot", data) == StopSnapshot("s")
    with pytest.raises(SignalError):
        parse_signal("s", "execute-snapshot", data)


@pytest.mark.parametrize("wrong", ["shop.nothing", "invalid1", "shop.", ".orders", ".", 'shop."a+b"'])
def test_one_wrong_name_does_not_refuse_the_others(wrong: str) -> None:
    """As in Debezium the rest is read; but whoever misspelt it is told, by the log and wherever the request is shown.
    Alone it is refused, with all the names that there are."""
    with capture_logs() as logs:
        request = resolve(ExecuteSnapshot("s", ("shop.orders", wrong)), NOBODY, CAPTURED)
    assert [wanted.namespace for wanted in request.wanted] == CAPTURED[:1]
    assert request.unknown == (wrong,)
    assert [line.get("patterns") for line in logs] == [[wrong]]
    progress = RequestProgress.accepted(request)
    assert (
        RequestProgress.from_json(progress.to_json()).unknown == status_of(progress, "e").unknown == (wrong,)
    )
    storage = MemoryStorage()
    Journal(storage).add(request)
    assert Journal(storage).requests == (request,)
    with pytest.raises(RequestRefused) as refused:
        resolve(ExecuteSnapshot("s", (wrong,)), NOBODY, CAPTURED)
    assert f": {wrong} is no captured collection" in str(refused.value)
    assert "shop.orders, shop.people" in str(refused.value)


@pytest.mark.parametrize("kind", ["pause-snapshot", "resume-snapshot"])
@pytest.mark.parametrize(
    "data",
    [{"data-collections": ["shop.orders"], "type": "incremental"}, {"data-collections": 5, "type": None}],
)
def test_a_pause_is_never_of_some_collections_only(kind: str, data: dict[str, object]) -> None:
    """As in Debezium, which ignores what a pause or a resume says besides; ``requests``, which it has not, narrow it,
    and a field that nobody knows is refused."""
    action = parse_signal("s", kind, data)
    assert isinstance(action, PauseSnapshot | ResumeSnapshot)
    assert (action.requests, action.ignored) == ((), ("data-collections", "type"))
    assert action == parse_signal("s", kind)
    assert digest_of(action) == digest_of(parse_signal("s", kind))
    narrowed = parse_signal("s", kind, {**data, "requests": ["q1"]})
    assert isinstance(narrowed, PauseSnapshot | ResumeSnapshot)
    assert narrowed.requests == ("q1",)
    with pytest.raises(SignalError, match="unknown field"):
        parse_signal("s", kind, {"data-collection": ["shop.orders"]})


def test_an_expression_that_matches_nothing_beside_others() -> None:
    """It may be about collections that are still to come: the rest is read, the log names it. Alone it is refused."""
    with capture_logs() as logs:
        request = resolve(ExecuteSnapshot("s", ("shop.o.*", "shop.x.*")), NOBODY, CAPTURED)
    assert [wanted.namespace for wanted in request.wanted] == CAPTURED[:1]
    assert [line.get("patterns") for line in logs] == [["shop.x.*"]]
    with pytest.raises(RequestRefused, match=r"shop\.x\.\*"):
        resolve(ExecuteSnapshot("s", ("shop.x.*",)), NOBODY, CAPTURED)

"""Signals as they are written, and the actions that they ask for."""

from __future__ import annotations

import json

import pytest

from signals.actions import (
    Action,
    Condition,
    ExecuteSnapshot,
    Log,
    PauseSnapshot,
    PauseStream,
    Restart,
    ResumeSnapshot,
    ResumeStream,
    SnapshotType,
    StopSnapshot,
    fields_of,
    to_json,
)
from signals.errors import MalformedSignal, NotASignal, NothingRequested, SignalError, UnknownSignal
from signals.parsing.signal import parse_signal, parse_signal_document

ORDERS = {"data-collections": ["shop.orders"]}


def test_a_snapshot_is_incremental_unless_it_says_otherwise() -> None:
    """``type`` defaults to incremental, and is read without regard to case."""
    assert parse_signal("1", "execute-snapshot", ORDERS) == ExecuteSnapshot("1", ("shop.orders",))
    action = parse_signal("1", "execute-snapshot", {**ORDERS, "type": " BLOCKING "})
    assert isinstance(action, ExecuteSnapshot)
    assert action.type is SnapshotType.BLOCKING


def test_data_may_be_json_text() -> None:
    """A document and its JSON text mean the same."""
    assert parse_signal("1", "execute-snapshot", json.dumps(ORDERS)) == parse_signal(
        "1", "execute-snapshot", ORDERS
    )


def test_collections_are_trimmed_and_named_once() -> None:
    """Spaces around a pattern, empty patterns and repetitions carry no meaning; quotes and dots stay."""
    data = {"data-collections": [" shop.orders ", "shop.orders", "", 'shop."a.b"']}
    action = parse_signal("1", "execute-snapshot", data)
    assert isinstance(action, ExecuteSnapshot)
    assert action.data_collections == ("shop.orders", 'shop."a.b"')


@pytest.mark.parametrize(
    "document",
    [
        {"_id": "7", "type": "execute-snapshot", "data": ORDERS},
        {"id": "7", "type": "execute-snapshot", "data": ORDERS},
        {"_id": "7", "type": "execute-snapshot", "payload": ORDERS},
        {"_id": "7", "a": "execute-snapshot", "b": ORDERS},
        {"x": "7", "y": "execute-snapshot", "z": ORDERS},
        {"_id": "7", "type": "execute-snapshot", "body": ORDERS},
        {"type": "execute-snapshot", "data": ORDERS, "_id": "7"},
        {"_id": "7", "type": "execute-snapshot", "data": ORDERS, "comment": "by hand", "author": "me"},
        {"_id": "generated", "id": "7", "type": "execute-snapshot", "data": ORDERS},
    ],
)
def test_fields_are_taken_by_name_or_by_position(document: dict[str, object]) -> None:
    """Named fields win in any order and among others; the rest goes by its place among three."""
    assert parse_signal_document(document) == ExecuteSnapshot("7", ("shop.orders",))


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"_id": "7"},
        {"_id": "7", "kind": "pause-snapshot"},
        {"_id": "7", "a": "execute-snapshot", "b": ORDERS, "c": 1},
        {"_id": "7", "type": "log", "data": {}, "payload": {}},
        {"data": ORDERS, "type": "execute-snapshot", "x": "7"},
    ],
)
def test_a_document_without_the_three_fields_is_refused(document: dict[str, object]) -> None:
    """Two unnamed fields, four unnamed fields, data twice: nothing is guessed."""
    with pytest.raises(MalformedSignal):
        parse_signal_document(document)


def test_a_signal_without_data_needs_two_fields() -> None:
    """Pause and resume need no data; a blank one and a type say nothing."""
    assert parse_signal_document({"_id": "7", "type": "pause-snapshot"}) == PauseSnapshot("7")
    assert parse_signal("7", "resume-snapshot", " ") == ResumeSnapshot("7")
    assert parse_signal("7", "resume-snapshot", {"type": "incremental"}) == ResumeSnapshot("7")


def test_stop_means_everything_unless_collections_are_named() -> None:
    """A missing or empty list stops all snapshots."""
    assert parse_signal("7", "stop-snapshot", None) == StopSnapshot("7")
    assert parse_signal("7", "stop-snapshot", {"data-collections": []}) == StopSnapshot("7")
    assert parse_signal("7", "stop-snapshot", ORDERS) == StopSnapshot("7", ("shop.orders",))


@pytest.mark.parametrize("kind", ["pause-stream", "resume-stream", "restart"])
def test_what_is_about_the_engine_as_a_whole_has_no_data(kind: str) -> None:
    """A field in it is somebody's mistake."""
    assert parse_signal("7", kind, {}) == parse_signal("7", kind)
    with pytest.raises(MalformedSignal, match=r"unknown field\(s\) 'requests'; known are \(none\)"):
        parse_signal("7", kind, {"requests": ["x"]})


def test_log_has_a_message() -> None:
    """The message is text; without it there is nothing to log."""
    assert parse_signal("7", "log", {"message": "at {}"}) == Log("7", "at {}")
    with pytest.raises(MalformedSignal, match="message must be a string, got None"):
        parse_signal("7", "log", {})


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"a": {"$lt": 250}}, '{"a": {"$lt": 250}}'),
        ('{"a": {"$lt": 250}}', '{"a": {"$lt": 250}}'),
        ("{a: {$lt: 250}}", '{"a": {"$lt": 250}}'),
        ("{'b.c': 'x', }", '{"b.c": "x"}'),
        (" ", "{}"),
        ("{a: 1", None),
        ("[1]", None),
        (5, None),
        ({"$oid": "0123456789abcdef01234567"}, None),
        ({"a": {"$oid": "xyz"}}, None),
        ({"a": {"$numberDecimal": "1e99999999"}}, None),
        ('{"a": "\\u0000", "b\\u0000": 1}', None),
    ],
)
def test_a_filter_is_a_query_document_or_its_text(query: object, text: str | None) -> None:
    """Both forms are kept as JSON text, a blank one as all documents; anything else, values that BSON cannot
    hold included, is refused at once, with the filter in the message.
    """
    data = {**ORDERS, "additional-conditions": [{"data-collection": "shop.orders", "filter": query}]}
    if text is None:
        with pytest.raises(MalformedSignal, match="filter"):
            parse_signal("1", "execute-snapshot", data)
        return
    action = parse_signal("1", "execute-snapshot", data)
    assert isinstance(action, ExecuteSnapshot)
    assert action.additional_conditions == (Condition("shop.orders", text),)


@pytest.mark.parametrize(
    ("data", "expectation"),
    [
        ({"data-collections": "shop.orders"}, "must be a list of strings, got 'shop.orders'"),
        ({"data-collections": ["a.b", 5]}, r"must be a list of strings, got \['a.b', 5\]"),
        ({"data-collections": ['shop."a.b']}, "double quote is not closed"),
        ({**ORDERS, "type": "full"}, "one of incremental, blocking, got 'full'"),
        ({**ORDERS, "type": 5}, "one of incremental, blocking, got 5"),
        (
            {**ORDERS, "additional-condition": "{}"},
            "'additional-condition'.*write \"additional-conditions\": ",
        ),
        (
            {**ORDERS, "additional_conditions": []},
            "unknown field.*'additional_conditions'; known are data-coll",
        ),
        ({**ORDERS, "additional-conditions": {}}, "must be a list, got {}"),
        ({**ORDERS, "additional-conditions": [{"filter": "{}"}]}, "exactly data-collection and filter"),
        (
            {**ORDERS, "additional-conditions": [{"data-collection": "", "filter": {}}]},
            "must name a collection",
        ),
        ({**ORDERS, "surrogate-key": "k"}, "surrogate-key does not exist"),
        (
            {**ORDERS, "additional-conditions": [{"data-collection": "shop.(?!x).*", "filter": {}}]},
            "lookahead does not exist",
        ),
        ({"data-collections": [f"a.b{n}" for n in range(1_001)]}, "has 1001 entries; at most 1000"),
        ({"data-collections": [f"a.b{n}.*" for n in range(101)]}, "at most 100 regular expressions"),
        ("{", "data is not JSON"),
        ("[]", r"must be a document, got \[\]"),
        (5, "must be a document, got 5"),
    ],
)
def test_malformed_data_is_refused_with_the_value_shown(data: object, expectation: str) -> None:
    """Whatever is wrong, the message has the signal's id, what was expected, and what came."""
    with pytest.raises(MalformedSignal, match=expectation) as refusal:
        parse_signal("sig-1", "execute-snapshot", data)
    assert "'sig-1'" in str(refusal.value)


@pytest.mark.parametrize("data", [None, {}, "", {"data-collections": []}, {"data-collections": [" "]}])
def test_a_snapshot_of_nothing_is_said(data: object) -> None:
    """No collections named: nothing happens, and there is an error to report."""
    with pytest.raises(NothingRequested, match="names no collection"):
        parse_signal("1", "execute-snapshot", data)


def test_unknown_types_and_watermarks_are_told_apart() -> None:
    """A watermark document lies among the signals and is none; any other unknown type is an error."""
    with pytest.raises(UnknownSignal, match="unknown type 'exeute-snapshot'; known are execute-snapshot"):
        parse_signal("1", "exeute-snapshot", ORDERS)
    with pytest.raises(NotASignal):
        parse_signal_document({"_id": "u-open", "type": "snapshot-window-open", "payload": ""})


@pytest.mark.parametrize("bad", [None, "", "  ", True, 1.5, b"x", {"a": 1}, ["x"]])
def test_an_id_must_read_as_text(bad: object) -> None:
    """Requests are idempotent by id, so an id that is none is refused."""
    with pytest.raises(MalformedSignal, match="id must"):
        parse_signal(bad, "pause-snapshot")


@pytest.mark.parametrize("bad", [None, "", 5])
def test_a_type_must_be_text(bad: object) -> None:
    """The type is shown as it came."""
    with pytest.raises(MalformedSignal, match="type must be a non-empty string"):
        parse_signal("1", bad)


def test_long_values_are_cut_in_messages() -> None:
    """A message stays readable when a signal carries a megabyte."""
    with pytest.raises(SignalError) as refusal:
        parse_signal("1", "execute-snapshot", "x" * 1_000_000)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    "action",
    [
        ExecuteSnapshot(
            "a/b c", ("shop.orders", "x.*"), SnapshotType.BLOCKING, (Condition("x.y", '{"a": 1}'),)
        ),
        ExecuteSnapshot("1", ("ø.ü",)),
        StopSnapshot("2"),
        StopSnapshot("2", ("shop.orders",)),
        PauseSnapshot("3"),
        PauseStream("7"),
        ResumeStream("8"),
        Restart("9"),
        ResumeSnapshot("4"),
        Log("5", "hello {}"),
    ],
)
def test_what_is_sent_is_what_is_read(action: Action) -> None:
    """Writing an action and parsing it gives the action, as a document and as JSON."""
    assert parse_signal(*fields_of(action)) == action
    assert parse_signal_document(json.loads(to_json(action))) == action

"""What the data of a signal may ask for: ids, ranges, reconciling, priority, a dry run, requests by id."""

from __future__ import annotations

import json
from typing import Any

import bson
import pytest

from signals.actions import (
    Action,
    Condition,
    ExecuteSnapshot,
    IdRange,
    PauseSnapshot,
    ResumeSnapshot,
    StopSnapshot,
    fields_of,
    to_json,
)
from signals.errors import MalformedSignal, SignalError
from signals.parsing.signal import parse_signal, parse_signal_document, parse_signal_text

OID = {"$oid": "0123456789abcdef01234567"}
ORDERS = {"data-collections": ["shop.orders"]}
FILTERED = {"additional-conditions": [{"data-collection": "shop.orders", "filter": {"a": 1}}]}


def execute(data: object, **more: object) -> ExecuteSnapshot:
    fields = {**ORDERS, **more, **data} if isinstance(data, dict) else data
    action = parse_signal("1", "execute-snapshot", fields)
    assert isinstance(action, ExecuteSnapshot)
    return action


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, '{"$numberInt": "5"}'),
        ({"$numberInt": "5"}, '{"$numberInt": "5"}'),
        (1 << 40, '{"$numberLong": "1099511627776"}'),
        (5.0, '{"$numberDouble": "5.0"}'),
        ("5", '"5"'),
        (OID, '{"$oid": "0123456789abcdef01234567"}'),
        (OID["$oid"], '"0123456789abcdef01234567"'),
        ({"$date": "1970-01-01T00:00:01Z"}, '{"$date": {"$numberLong": "1000"}}'),
        ({"$date": {"$numberLong": str(1 << 60)}}, '{"$date": {"$numberLong": "1152921504606846976"}}'),
        (
            {"$uuid": "01234567-89ab-cdef-0123-456789abcdef"},
            '{"$binary": {"base64": "ASNFZ4mrze8BI0VniavN7w==", "subType": "04"}}',
        ),
        ({"b": 1, "a": "ø"}, '{"b": {"$numberInt": "1"}, "a": "ø"}'),
        ({"$minKey": 1}, '{"$minKey": 1}'),
        ({"$numberDouble": "NaN"}, '{"$numberDouble": "NaN"}'),
        (None, "null"),
        (True, "true"),
    ],
)
def test_keys_are_ids_of_every_type(value: object, text: str) -> None:
    """Each id is kept as the canonical text of its value: its type is never lost, however it was written."""
    assert execute({"keys": [value]}).keys == (text,)


def test_an_id_given_twice_is_one() -> None:
    """Two spellings of one value are one key; values of different types are two."""
    assert execute({"keys": [1, "1", {"$numberInt": "1"}, 1]}).keys == ('{"$numberInt": "1"}', '"1"')


@pytest.mark.parametrize(
    ("value", "expectation"),
    [
        ([], "at least one"),
        (None, "list of ids"),
        ("a", "list of ids"),
        (5, "list of ids"),
        ([[1]], "no id that MongoDB has"),
        ([{"$regularExpression": {"pattern": "a", "options": ""}}], "no id that MongoDB has"),
        ([{"$undefined": True}], "no id that MongoDB has"),
        ([{"a": {"$undefined": True}}], "no id that MongoDB has"),
        ([{"$ref": "a", "$id": 1}], "no id that MongoDB has"),
        ([{"$gt": 5}], r"'\$gt', which no id has"),
        ([{"$oid": "xyz"}], "no Extended JSON value"),
        ([{"$numberLong": "9" * 30}], "no Extended JSON value"),
        ([{"$binary": {"subType": "00"}}], "no Extended JSON value"),
        ([1 << 70], "does not fit 64 bits"),
        ([float("inf")], "the number inf"),
        (list(range(10_001)), "10001 ids, at most 10000"),
    ],
)
def test_keys_that_are_none_are_refused(value: object, expectation: str) -> None:
    """An empty list included: it must not turn into "the whole collection"."""
    with pytest.raises(MalformedSignal, match=expectation):
        execute({"keys": value})


def test_a_range_has_one_end_or_two() -> None:
    """Both ends are ids of any type; an end that is left out is no end."""
    assert execute({"range": {"min": 5}}).range == IdRange('{"$numberInt": "5"}', None)
    assert execute({"range": {"max": OID}}).range == IdRange(None, json.dumps(OID))
    assert execute({"range": {"max": "b", "min": "a"}}).range == IdRange('"a"', '"b"')


@pytest.mark.parametrize("value", [{}, None, [1, 2], {"min": 1, "until": 2}, {"min": None}, {"min": [1]}])
def test_a_range_without_ends_is_refused(value: object) -> None:
    """No end at all, a misspelt one, null: each would read more than was asked for."""
    with pytest.raises(MalformedSignal, match="range"):
        execute({"range": value})


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0, 0),
        (-3, -3),
        ({"$numberInt": "7"}, 7),
        ({"$numberLong": "7"}, 7),
        (7.0, 7),
        ({"$numberDouble": "7.0"}, 7),
    ],
)
def test_priority_is_a_whole_number(value: object, number: int) -> None:
    """However the shell in use has written it into the signal collection."""
    assert execute({"priority": value}).priority == number


@pytest.mark.parametrize("value", [True, "high", 1.5, None, 1_000_001, {"$numberDouble": "NaN"}, {}, [1]])
def test_priority_is_nothing_else(value: object) -> None:
    """Anything else is refused, and shown."""
    with pytest.raises(MalformedSignal, match="priority must be a whole number"):
        execute({"priority": value})


@pytest.mark.parametrize("name", ["reconcile", "dry-run"])
@pytest.mark.parametrize("value", [None, "true", 1, []])
def test_switches_are_true_or_false(name: str, value: object) -> None:
    """Nothing else reads as a switch: whether rows are deleted is not guessed."""
    assert execute({name: True}) != execute({name: False}) == execute({})
    with pytest.raises(MalformedSignal, match=f"{name} must be true or false"):
        execute({name: value})


@pytest.mark.parametrize(
    ("more", "expectation"),
    [
        ({"keys": [1]}, "keys goes with type incremental"),
        ({"range": {"min": 1}}, "range goes with"),
        ({"reconcile": True, "priority": 5}, "reconcile, priority go"),
        ({"dry-run": True}, "dry-run goes"),
    ],
)
def test_a_blocking_snapshot_has_no_extras(more: dict[str, object], expectation: str) -> None:
    """The message says which of the fields does not go with it; the same fields go with incremental."""
    execute(more)
    with pytest.raises(MalformedSignal, match=expectation):
        execute(more, type="blocking")
    execute({"reconcile": False, "priority": 0, "dry-run": False}, type="blocking")


def test_what_excludes_each_other() -> None:
    """A filter proves no absence, so nothing is reconciled under one; ids are a list or a range."""
    with pytest.raises(MalformedSignal, match="reconcile and additional-conditions exclude each other"):
        execute({"reconcile": True, **FILTERED})
    with pytest.raises(MalformedSignal, match="keys and range exclude each other"):
        execute({"keys": [1], "range": {"min": 1}})
    blank = {"additional-conditions": [{"data-collection": "shop.orders", "filter": " "}]}
    assert execute({"reconcile": True, **blank}).additional_conditions == (Condition("shop.orders", "{}"),)
    assert execute({"keys": [1], **FILTERED}).keys


@pytest.mark.parametrize("names", [["shop.orders", "shop.items"], ["shop.o.*"], ["orders"], ["shop.(a|b)"]])
def test_ids_are_of_one_collection(names: list[str]) -> None:
    """``keys`` and ``range`` need one plain name, quoted where it must be; not a pattern."""
    for more in ({"keys": [1]}, {"range": {"max": 1}}):
        with pytest.raises(MalformedSignal, match="ids of one collection"):
            execute({"data-collections": names, **more})
        execute({"data-collections": ['shop."orders (old)"'], **more})


@pytest.mark.parametrize(
    ("kind", "made"),
    [("pause-snapshot", PauseSnapshot), ("resume-snapshot", ResumeSnapshot), ("stop-snapshot", StopSnapshot)],
)
def test_requests_are_named_by_id(kind: str, made: Any) -> None:
    """A pause, a resume and a stop are for the requests that are named, each once; without any, for all."""
    assert parse_signal("9", kind, {"requests": [" a ", "b", "a"]}) == made("9", requests=("a", "b"))
    assert parse_signal("9", kind) == made("9")
    for wrong in ([], None, "a", [5], [""], ["x" * 1_025], ["a\nb"]):
        with pytest.raises(MalformedSignal, match="requests"):
            parse_signal("9", kind, {"requests": wrong})
    with pytest.raises(MalformedSignal, match=r"unknown field.*'request'"):
        parse_signal("9", kind, {"request": ["a"]})
    with pytest.raises(MalformedSignal, match="not JSON"):
        parse_signal("9", kind, '{"requests": ["a"]')


def test_the_old_single_condition_is_explained() -> None:
    """Debezium's one filter for all collections: the message has the form that took its place."""
    with pytest.raises(MalformedSignal, match=r'additional-conditions": .*"data-collection"'):
        execute({"additional-condition": "a = 1"})


def test_blank_lists_of_conditions_are_none() -> None:
    """An empty list, and null, mean that all documents are read."""
    assert execute({"additional-conditions": []}) == execute({"additional-conditions": None}) == execute({})


def test_a_name_that_is_no_expression_can_have_a_condition() -> None:
    """A condition's text that is no expression is let through where it stands among the collections too."""
    both = {
        "data-collections": ["shop.c++"],
        "additional-conditions": [{"data-collection": "shop.c++", "filter": {}}],
    }
    assert execute(both).additional_conditions == (Condition("shop.c++", "{}"),)
    with pytest.raises(MalformedSignal, match=r"an additional condition: the pattern 'shop.c\+\+'"):
        execute({**both, "data-collections": ["shop.*"]})


@pytest.mark.parametrize("bad", ["x" * 1_025, "a\x00b", "a\ud800", 1 << 70])
def test_an_id_is_short_and_printable(bad: object) -> None:
    """It becomes the name of a file, a key of state, and part of every message."""
    with pytest.raises(MalformedSignal, match="id must"):
        parse_signal(bad, "pause-snapshot")


def test_an_object_id_is_an_id() -> None:
    """The shell makes one where none is given."""
    assert parse_signal(bson.ObjectId(OID["$oid"]), "pause-snapshot") == PauseSnapshot(OID["$oid"])


def test_a_signal_as_one_text() -> None:
    """A line or a message: strict JSON, as text or as bytes; a missing id is the channel's to give."""
    text = '{"type": "pause-snapshot", "data": {}}'
    assert parse_signal_text(text, default_id="topic-0-7") == PauseSnapshot("topic-0-7")
    assert parse_signal_text(b'\xef\xbb\xbf{"id": "1", "type": "pause-snapshot"}', "x") == PauseSnapshot("1")
    assert parse_signal_text('{"a": "1", "b": "pause-snapshot", "c": {}}') == PauseSnapshot("1")
    for wrong in (text, "[]", "{", b"\xff", '{"id": "1", "id": "2", "type": "pause-snapshot"}', "1"):
        with pytest.raises(MalformedSignal):
            parse_signal_text(wrong)


@pytest.mark.parametrize(
    "action",
    [
        ExecuteSnapshot("1", ("a.b",), keys=('{"$numberInt": "5"}', '"x"', "null")),
        ExecuteSnapshot(
            "1", ('a."b c"',), range=IdRange(None, '"x"'), reconcile=True, priority=-2, dry_run=True
        ),
        ExecuteSnapshot("1", ("a.b",), range=IdRange('{"$minKey": 1}', '{"$maxKey": 1}')),
        StopSnapshot("2", ("a.b",), requests=("r1", "r 2")),
        PauseSnapshot("3", ("r",)),
        ResumeSnapshot("4", ("r",)),
    ],
)
def test_what_is_sent_is_what_is_read(action: Action) -> None:
    """Writing an action and parsing it gives the action: as a document, as text, and by way of BSON."""
    assert parse_signal(*fields_of(action)) == action
    assert parse_signal_text(to_json(action)) == action
    from signals.channels.source_channel import decode

    signal_id, kind, data = fields_of(action)
    assert decode(bson.encode({"_id": signal_id, "type": kind, "data": data})).parse() == action
    assert parse_signal_document({"x": signal_id, "y": kind, "z": json.dumps(data)}) == action


@pytest.mark.parametrize(
    "data",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 100_000,
        '{"data-collections": [' + "9" * 5_000 + "]}",
        '{"priority": NaN}',
        '{"priority": 1e999}',
        '{"keys": [1], "keys": [2]}',
        '{"data-collections": ["\\ud800"]}',
        " " * 4_000_001 + "{}",
        {"data-collections": ["x" * 4_000_001]},
        {"data-collections": ["\ud800"]},
        {"data-collections": [b"a.b"]},
        {5: "a"},
        {"priority": 10**5_000},
        b"{}",
        object(),
    ],
)
def test_hostile_data_is_refused_with_a_short_reason(data: object) -> None:
    """Depth, size, numbers, text, types: a SignalError that a person can read, and nothing else."""
    with pytest.raises(SignalError) as refusal:
        parse_signal("1", "execute-snapshot", data)
    assert "signal '1'" in str(refusal.value)
    assert len(str(refusal.value)) < 500


def test_values_that_hold_themselves_are_refused() -> None:
    """A program can build what no text can: the depth ends it, or the size."""
    chain: list[object] = []
    chain.append(chain)
    wide: list[object] = []
    wide.extend([wide] * 1_000)
    for loop in (chain, wide):
        with pytest.raises(MalformedSignal, match=r"too deeply|too large"):
            parse_signal("1", "execute-snapshot", {"data-collections": loop})

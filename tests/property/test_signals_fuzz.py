"""Whatever is sent, an action or a SignalError comes out: bytes, texts, values, and signals that are almost
right.

Each test runs a hundred cases in the ordinary profile and two thousand in the thorough one.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import bson
from bson.errors import BSONError
from hypothesis import given
from hypothesis import strategies as st

from signals.actions import (
    Action,
    Condition,
    ExecuteSnapshot,
    IdRange,
    PauseSnapshot,
    ResumeSnapshot,
    SnapshotType,
    StopSnapshot,
    fields_of,
    to_json,
)
from signals.errors import SignalError, shown
from signals.matching.patterns import BadPattern, compile_pattern
from signals.matching.selection import expand, matches_name, unmatched
from signals.parsing.document_ids import id_text
from signals.parsing.filters import filter_text, query_document, refuse_code
from signals.parsing.signal import parse_signal, parse_signal_document, parse_signal_text, signal_fields
from signals.parsing.values import load_json
from tests.support.bson_documents import Value, array, document, documents, values
from tests.support.bson_documents import text as bson_text

MESSAGE_MAX = 2_500  # An id of 1,024 characters is shown whole, escaped at worst in part.

# fmt: off
_EXTENDED = (
    "$oid", "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal", "$date", "$uuid", "$binary", "$timestamp",
    "$regex", "$options", "$regularExpression", "$code", "$scope", "$ref", "$id", "$minKey", "$undefined", "$symbol",
    "$dbPointer", "base64", "subType", "t", "i", "pattern", "options",
)
_FIELDS = (
    "data-collections", "type", "additional-conditions", "additional-condition", "data-collection", "filter", "keys",
    "range", "min", "max", "reconcile", "priority", "dry-run", "requests", "message", "surrogate-key", "id", "_id",
    "data", "payload", "$where", "$or",
)
_ODD = (
    "", " ", "shop.orders", "shop.*", 'a."b', "(?=", "incremental", "blocking", "execute-snapshot", "{a: 1}",
    "{$where: 1}", "NaN", "1e9999", "5", "9" * 5_000, "0" * 24, "\x00", "\ud800", "aGk=", "2024-01-01",
)
# fmt: on
_words = st.sampled_from((*_EXTENDED, *_FIELDS, *_ODD))
_texts = _words | st.text(st.characters(), max_size=12)
_scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary(max_size=4) | _texts
    | st.sampled_from([10**4_000, -(1 << 63), 1 << 63, object(), bson.ObjectId("0" * 24), {1, 2}])
)  # fmt: skip
_any = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=4),
    max_leaves=10,
)
_KINDS = ("execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", "log")
_kinds = st.sampled_from(_KINDS) | _any
_SHAPED = {
    "keys": st.lists(_any, min_size=1, max_size=2),
    "range": st.fixed_dictionaries({}, optional={"min": _any, "max": _any}),
    "additional-conditions": st.lists(
        st.fixed_dictionaries({"data-collection": _texts, "filter": _any}), min_size=1, max_size=2
    ),
    "data-collections": st.lists(_texts, max_size=3),
    "requests": st.lists(_texts, max_size=3),
}
_FIELD = st.sampled_from(sorted(_SHAPED)) | st.sampled_from(_FIELDS)
_one_field = _FIELD.flatmap(lambda name: st.tuples(st.just(name), _SHAPED.get(name, _any) | _any))
_almost = st.lists(_one_field, max_size=2).map(
    lambda more: {"data-collections": ["shop.orders"]} | dict(more)
)


def outcome(call: Any, *arguments: Any) -> Any:
    """What a call gives, or None where it refuses, with a message of bounded length."""
    try:
        return call(*arguments)
    except SignalError as error:
        message = str(error)
    assert 0 < len(message) <= MESSAGE_MAX
    return None


@given(_any, _kinds, _any | _almost)
def test_a_signal_of_any_values(id: Any, kind: Any, data: Any) -> None:
    """Three values of any kind: an action or a reason. What is an action can be written and read again."""
    action = outcome(parse_signal, id, kind, data)
    if action is not None:
        assert parse_signal(*fields_of(action)) == action


@given(st.sampled_from(_KINDS), _almost)
def test_a_signal_that_is_almost_right(kind: str, data: Any) -> None:
    """Known fields with unlikely values; what is kept of them decodes, and can be searched for code."""
    action = outcome(parse_signal, "1", kind, data)
    if isinstance(action, ExecuteSnapshot):
        assert parse_signal(*fields_of(action)) == parse_signal_text(to_json(action)) == action
        for condition in action.additional_conditions:
            bson.encode(query_document(condition.filter))
            outcome(refuse_code, condition.filter)


@given(_any | st.dictionaries(_words, _any, max_size=5))
def test_a_document_of_any_fields(document: Any) -> None:
    """By name or by position, or refused."""
    outcome(signal_fields, document)
    outcome(parse_signal_document, document)


@given(st.binary(max_size=60) | st.text(st.characters(), max_size=60) | _any.map(shown))
def test_a_message_of_any_bytes(text: str | bytes) -> None:
    """What a channel hands over, before anything is known about it."""
    outcome(parse_signal_text, text, "id")
    outcome(parse_signal, "1", "execute-snapshot", text)


@given(
    st.text(st.sampled_from('[]{}:,"\\0a1'), max_size=40),
    st.integers(1, 200_000),
    st.sampled_from("[{(\"'"),
)
def test_texts_of_brackets_and_quotes(text: str, times: int, opening: str) -> None:
    """Nesting of any depth, closed or not, also where quotes are out of step: no stack is used up."""
    for hostile in (
        text,
        opening * times,
        '{"a":' * min(times, 50_000),
        text + opening * min(times, 5_000) + text,
    ):
        outcome(load_json, hostile, "it")
        outcome(filter_text, hostile)
        outcome(parse_signal, "1", "pause-snapshot", hostile)


@given(_any)
def test_an_id_or_filter_of_any_value(value: Any) -> None:
    """Whatever looks like Extended JSON: kept as a text that decodes and is its own canonical form, or refused."""
    text = outcome(id_text, value)
    if text is not None:
        assert id_text(json.loads(text)) == text
    kept = outcome(filter_text, value)
    if kept is not None:
        bson.encode(query_document(kept))


_pattern_texts = (
    st.text(st.sampled_from('ab.*+?()[]{}|\\^$"12,-&:<=!PQEUpkvx \n\u00e9'), max_size=25) | _texts
)


@given(st.lists(_pattern_texts, max_size=4), st.lists(_texts | st.just("a.b"), max_size=4))
def test_patterns_of_any_text(patterns: list[str], names: list[str]) -> None:
    """Names are selected, or a pattern is refused by name; what is selected exists or was spelled out."""
    selected = outcome(expand, patterns, names)
    missing = outcome(unmatched, patterns, names)
    assert (selected is None) == (missing is None)
    for name in selected or ():
        assert name in names or name in [pattern.replace('"', "") for pattern in patterns]
    for pattern in patterns:
        outcome(compile_pattern, pattern)
        for name in names:
            assert matches_name(pattern, name) in (True, False)


@given(st.text(st.sampled_from("ab.é$+(["), min_size=1, max_size=12))
def test_quotes_make_a_name_of_any_text(name: str) -> None:
    """In double quotes, every text means itself and nothing else."""
    assert expand([f'"{name}"'], [name, name + "x", "x" + name]) == (name,)
    try:
        same = compile_pattern(f'"{name}"')
    except BadPattern as error:
        raise AssertionError("a quoted name is an expression") from error
    assert same.fullmatch(name)
    assert not same.fullmatch(name + "x")


_printable = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=10)
_ids = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans(),
    _printable, st.sampled_from([{"$oid": "0" * 24}, {"$date": {"$numberLong": "5"}}, {"a": 1}, {"$minKey": 1}]),
).map(id_text)  # fmt: skip
_names = st.tuples(*[st.text("abcXYZ_-é0", min_size=1, max_size=6)] * 2).map(".".join)
_conditions = st.builds(
    Condition,
    _names,
    st.dictionaries(st.text("ab.c", min_size=1), st.integers(0, 9), max_size=2).map(json.dumps),
)
_narrowed = st.fixed_dictionaries(
    {}, optional={"keys": st.lists(_ids, min_size=1, max_size=4, unique=True).map(tuple)}
) | (
    st.tuples(_ids | st.none(), _ids | st.none())
    .filter(lambda ends: ends != (None, None))
    .map(lambda ends: {"range": IdRange(*ends)})
)
_requests = st.lists(_printable, max_size=3, unique=True).map(tuple)
_actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(
        lambda key, name, narrowed, reconcile, priority, dry: ExecuteSnapshot(
            key, (name,), reconcile=reconcile, priority=priority, dry_run=dry, **narrowed
        ),
        *(_printable, _names, _narrowed, st.booleans(), st.integers(-1_000_000, 1_000_000), st.booleans()),
    ),
    st.builds(
        ExecuteSnapshot,
        _printable,
        st.lists(_names | st.just("shop\\..*"), min_size=1, max_size=3, unique=True).map(tuple),
        st.sampled_from(SnapshotType),
        st.lists(_conditions, max_size=2).map(tuple),
    ),
    st.builds(
        StopSnapshot, _printable, st.lists(_names, max_size=2, unique=True).map(tuple), requests=_requests
    ),
    st.builds(PauseSnapshot, _printable, _requests),
    st.builds(ResumeSnapshot, _printable, _requests),
)


@given(_actions)
def test_what_is_sent_is_what_is_read(action: Action) -> None:
    """Every action comes back as it was, from its fields, from its text, and from a signal collection."""
    from signals.channels.source_channel import decode

    signal_id, kind, data = fields_of(action)
    assert parse_signal(signal_id, kind, data) == action
    assert parse_signal_text(to_json(action)) == action
    assert decode(bson.encode({"_id": signal_id, "type": kind, "data": data})).parse() == action


_shopping = (0x04, array([(0x02, bson_text(b"shop.orders"))]))
_bson_names = st.sampled_from([name.encode() for name in (*_FIELDS, *_EXTENDED)])
_bson_words = st.sampled_from([(0x02, bson_text(word.encode())) for word in _ODD if word.isascii()])
_bson_any: st.SearchStrategy[Value] = st.deferred(
    lambda: values() | _bson_words | _bson_document(st.tuples(_bson_names, _bson_any))
)


def _bson_document(field: st.SearchStrategy[tuple[bytes, Value]]) -> st.SearchStrategy[Value]:
    return st.lists(field, max_size=2).map(lambda fields: (0x03, document(fields)))


def _bson_array(item: st.SearchStrategy[Value]) -> st.SearchStrategy[Value]:
    return st.lists(item, min_size=1, max_size=2).map(lambda items: (0x04, array(items)))


_conditions_in_bson = _bson_any.map(
    lambda value: document([(b"data-collection", (0x02, bson_text(b"shop.orders"))), (b"filter", value)])
)
_BSON_SHAPED = {
    b"keys": _bson_array(_bson_any),
    b"range": _bson_document(st.tuples(st.sampled_from((b"min", b"max")), _bson_any)),
    b"additional-conditions": _bson_array(_conditions_in_bson.map(lambda raw: (0x03, raw))),
    b"requests": _bson_array(_bson_words),
    b"priority": _bson_any,
    b"reconcile": _bson_any,
}
_bson_field = st.sampled_from(sorted(_BSON_SHAPED)).flatmap(
    lambda name: st.tuples(st.just(name), _BSON_SHAPED[name] | _bson_any)
) | st.tuples(_bson_names, _bson_any)
_bson_data = st.lists(_bson_field, max_size=2).map(
    lambda more: (0x03, document([(b"data-collections", _shopping), *more]))
)
_bson_signals = st.builds(
    lambda names, *fields: document(list(zip(names, fields, strict=True))),
    st.sampled_from(((b"_id", b"type", b"data"), (b"_id", b"kind", b"what"))),
    st.sampled_from([(0x02, bson_text(b"s1")), (0x10, bytes(4)), (0x07, bytes(12)), (0x03, document([]))]),
    st.sampled_from([(0x02, bson_text(kind.encode())) for kind in (*_KINDS[:1] * 5, *_KINDS)]),
    _bson_data,
)
_damages = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=3)


def read_or_refused(raw: bytes, damage: list[tuple[int, int]]) -> None:
    """As the engine does it, with the document as it is and damaged: an action, or one of the two errors that it is
    refused with, and an id to refuse it under."""
    from signals.channels.source_channel import decode, id_of

    damaged = bytearray(raw)
    for at, byte in damage:
        damaged[at % len(damaged)] = byte
    for read in (raw, bytes(damaged)):
        with suppress(BSONError):
            action = outcome(lambda document: decode(document).parse(), read)
            assert action is None or parse_signal(*fields_of(action)) == action
        assert isinstance(id_of(read), str)


@given(documents(), _damages)
def test_any_document_of_the_signal_collection_is_read_or_refused(
    raw: bytes, damage: list[tuple[int, int]]
) -> None:
    """Whatever BSON, also with damaged bytes; hardly anything of it is a signal."""
    read_or_refused(raw, damage)


@given(_bson_signals, _damages)
def test_a_document_that_is_almost_a_signal_is_read_or_refused(
    raw: bytes, damage: list[tuple[int, int]]
) -> None:
    """The fields of a signal with values of any BSON type, by name or by position; some of it is one."""
    read_or_refused(raw, damage)

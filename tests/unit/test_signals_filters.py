"""Filters: what would run code on the server is found wherever it is, and limits hold."""

from __future__ import annotations

import json
from typing import Any

import bson
import pytest

from signals.errors import CodeInFilter, MalformedSignal
from signals.parsing.filters import filter_text, query_document, refuse_code

CODE = {"body": "function() { return true }", "args": [], "lang": "js"}


def nested(query: Any, levels: int) -> Any:
    for _ in range(levels):
        query = {"$and": [query]}
    return query


@pytest.mark.parametrize(
    "query",
    [
        {"$where": "true"},
        {"a": 1, "$or": [{"b": 1}, {"$where": "sleep(1000)"}]},
        {"$expr": {"$function": CODE}},
        {"$expr": {"$gt": [{"$add": [1, {"$cond": [True, {"$function": CODE}, 0]}]}, 0]}},
        {"a": {"$elemMatch": {"$nor": [{"$where": "1"}]}}},
        {"$expr": {"$let": {"vars": {"x": {"$accumulator": CODE}}, "in": "$$x"}}},
        {"$where": {"$code": "true"}},
        {"$where": bson.Code("true")},
        {"a": ({"$where": "1"},)},
        nested({"$where": "1"}, 40),
    ],
)
def test_code_is_refused_wherever_it_is(query: dict[str, Any]) -> None:
    """At any depth, in arrays and expressions, in the text and in the decoded document; unless allowed."""
    with pytest.raises(CodeInFilter, match=r"\$(where|function|accumulator), which runs JavaScript"):
        refuse_code(query)
    refuse_code(query, allowed=True)
    if "Code(" not in repr(query):
        with pytest.raises(CodeInFilter, match="signal 'x' has"):
            refuse_code(json.dumps(query), where="signal 'x'")


def test_an_escaped_name_is_the_same_name() -> None:
    """The names are looked for in what the text means, not in how it is written."""
    with pytest.raises(CodeInFilter):
        refuse_code(filter_text(r'{"\u0024whe\u0072e": "1"}'))


@pytest.mark.parametrize(
    "query",
    [
        {"a": "$where"},
        {"where": 1},
        {"a.$where2": 1},
        {"$expr": {"$eq": ["$function", 1]}},
        {"$comment": "$where"},
        {},
    ],
)
def test_what_is_no_code_passes(query: dict[str, Any]) -> None:
    """Values, paths, and other names are data."""
    refuse_code(query)
    refuse_code(filter_text(query))


def test_any_depth_is_walked() -> None:
    """The walk needs no stack, whatever a program hands in."""
    query: Any = {"$where": "1"}
    for _ in range(100_000):
        query = [query]
    with pytest.raises(CodeInFilter):
        refuse_code({"a": query})


def test_a_filter_has_a_depth_and_a_size() -> None:
    """As a document and as text alike: a hundred levels, a million characters."""
    deepest: Any = 1
    for _ in range(99):
        deepest = {"a": deepest}
    assert filter_text({"a": deepest}) == filter_text(json.dumps({"a": deepest}))
    for query in ({"a": {"a": deepest}}, json.dumps({"a": {"a": deepest}}), "{a:" * 100_000):
        with pytest.raises(MalformedSignal, match=r"too deeply|at most 10. levels"):
            filter_text(query)
    for query in ({"a": "x" * 1_000_001}, "{a: '" + "x" * 1_000_000 + "'}", {"a": [0] * 1_000_001}):
        with pytest.raises(MalformedSignal, match="too large"):
            filter_text(query)


@pytest.mark.parametrize(
    "name", ["ISODate", "ObjectId", "NumberLong", "NumberDecimal", "UUID", "nothing", "/"]
)
def test_messages_stay_short(name: str) -> None:
    """Whoever sends a megabyte does not get it back: not from us, and not in the words of a library."""
    text = "{a: /" + "(" * 900_000 if name == "/" else f"{{a: {name}('{'x' * 900_000}')}}"
    with pytest.raises(MalformedSignal) as refusal:
        filter_text(text)
    assert len(str(refusal.value)) < 600


def test_a_kept_filter_decodes() -> None:
    """The text stands for a query of BSON types, dates that Python has not included."""
    text = filter_text("{at: {$gt: Date(253402300800001)}, n: NumberDecimal('1.5'), x: /a/i}")
    query = query_document(text)
    assert bson.encode(query)
    assert query["n"] == bson.Decimal128("1.5")
    assert int(query["at"]["$gt"]) == 253402300800001

"""Filters: a query document, or its text, as Extended JSON text that is known to be good; and never code.

A filter is tried on the server before a request is accepted, but the server would run what is in it. So what
would *run* is looked for first: ``refuse_code`` is to be called with every filter that came from outside,
before the server sees it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from signals.errors import CodeInFilter, MalformedSignal, shown
from signals.parsing.extended_json import NotExtendedJson, decode
from signals.parsing.shell_json import ShellJsonError, parse_document
from signals.parsing.values import DEPTH_MAX, FILTER_SIZE_MAX, check_value, load_json

CODE_OPERATORS = frozenset({"$where", "$function", "$accumulator"})
"""The operators that take JavaScript. (``mapReduce``, the other way to run it, is no part of a query.)"""

EVERYTHING = "{}"
"""The filter that leaves nothing out. A blank one means this."""


def filter_text(query: object, where: str = "the filter") -> str:
    """A filter, as a document or as its text (JSON, or as the MongoDB shell writes it), as Extended JSON
    text.

    A blank text leaves nothing out. The driver has decoded it and encoded it as BSON. Raises MalformedSignal
    that begins with ``where``.
    """
    what = f"{where}: the filter {shown(query)}"
    document = query
    if isinstance(query, str):
        if len(query) > FILTER_SIZE_MAX:
            raise MalformedSignal(f"{what} is too large: at most {FILTER_SIZE_MAX} characters")
        if not query.strip():
            return EVERYTHING
        try:
            document = parse_document(query)
        except ShellJsonError as error:
            raise MalformedSignal(f"{what} is not a query document: {error}") from error
    if not isinstance(document, Mapping):
        raise MalformedSignal(f"{where}: the filter must be a query document, got {shown(query)}")
    check_value(document, what, DEPTH_MAX, FILTER_SIZE_MAX)
    try:
        decoded = decode(document)
    except NotExtendedJson as error:
        raise MalformedSignal(f"{what} is not a query document: {error}") from error
    if not isinstance(decoded, Mapping):
        raise MalformedSignal(f"{what} is one value of type {type(decoded).__name__}, not a query document")
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def query_document(text: str) -> Mapping[str, Any]:
    """The query that a text from ``filter_text`` stands for, as the driver takes it. Does not fail on one."""
    query: Mapping[str, Any] = decode(json.loads(text))
    return query


def refuse_code(query: object, *, allowed: bool = False, where: str = "the filter") -> None:
    """Raise CodeInFilter if the filter ``query``, a document or Extended JSON text, has an operator that runs
    JavaScript on the server, at any depth.

    Any key of such a name counts, also where the server would take it for data (inside ``$literal``): that
    is rare, and the safe side. Does nothing if code is ``allowed``. Raises MalformedSignal for a text that is no JSON.
    Messages begin with ``where``.
    """
    if allowed:
        return
    value = load_json(query, where, DEPTH_MAX, FILTER_SIZE_MAX) if isinstance(query, str) else query
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            if found := sorted(CODE_OPERATORS & item.keys()):
                raise CodeInFilter(
                    f"{where} has {found[0]}, which runs JavaScript on the server and is not allowed: "
                    f"{shown(query)}; say it without code ($expr has most of it), or have the option set that "
                    "allows it"
                )
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple)):
            waiting.extend(item)

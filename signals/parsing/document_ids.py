"""Ids of documents in a signal: the ``keys`` to read again, and the ends of a ``range``.

An id is any value that MongoDB takes for an ``_id``, written as JSON or Extended JSON, and kept as canonical Extended
JSON text, so that the text ``"5"`` and the numbers 5 and 5.0 stay apart in type. (MongoDB takes the two numbers for one
id; code that reads by these ids must know that.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bson import DBRef, Regex

from signals.actions import IdRange
from signals.errors import MalformedSignal, listed, shown
from signals.parsing.extended_json import NotExtendedJson, canonical, decode, has_undefined
from signals.parsing.values import check_value

KEYS_MAX = 10_000


def id_text(value: object, where: str = "the id") -> str:
    """An id, as plain values, as canonical Extended JSON text. Raises MalformedSignal that begins with
    ``where``.
    """
    check_value(value, where)
    try:
        decoded = decode(value)
        if isinstance(decoded, (list, Regex, re.Pattern, DBRef)) or has_undefined(value):
            raise MalformedSignal(
                f"{where} is no id that MongoDB has (no array, regular expression, reference or undefined): "
                f"{shown(value)}"
            )
        if isinstance(decoded, Mapping) and (odd := [key for key in decoded if key.startswith("$")]):
            raise MalformedSignal(f"{where} has the field(s) {listed(odd)}, which no id has: {shown(value)}")
        return canonical(decoded)
    except NotExtendedJson as error:
        raise MalformedSignal(f"{where} is no Extended JSON value: {shown(value)} ({error})") from error


def keys_of(value: object, where: str) -> tuple[str, ...]:
    """The ids of a ``keys`` list, each once. Raises MalformedSignal that begins with ``where``."""
    if not isinstance(value, (list, tuple)) or not value:
        raise MalformedSignal(f"{where}: keys must be a list of ids, at least one, got {shown(value)}")
    if len(value) > KEYS_MAX:
        raise MalformedSignal(
            f"{where}: keys has {len(value)} ids, at most {KEYS_MAX}; send several signals, or a range"
        )
    return tuple(dict.fromkeys(id_text(item, f"{where}: an id in keys") for item in value))


def range_of(value: object, where: str) -> IdRange:
    """The ``range`` of ids. Raises MalformedSignal that begins with ``where``."""
    if not isinstance(value, Mapping) or not value or not value.keys() <= {"min", "max"}:
        raise MalformedSignal(
            f"{where}: range has min, max, or both, and nothing else (both ends are in it), got {shown(value)}"
        )
    for end, id_value in value.items():
        if id_value is None:
            raise MalformedSignal(
                f"{where}: range has {end} null; leave {end} out where there is no such end"
            )
    minimum, maximum = (
        id_text(value[end], f"{where}: {end} of range") if end in value else None for end in ("min", "max")
    )
    return IdRange(minimum, maximum)

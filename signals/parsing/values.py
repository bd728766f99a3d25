"""The limits of what a signal may carry, checked on plain values and on JSON text.

A signal comes from outside, so nothing about it is taken for granted: not its depth (parsers and writers of
JSON recurse, and end the process or the stack), not its size, not that its numbers are numbers that MongoDB
has, nor that its text is Unicode. A value that has passed here can be walked, shown, written as JSON and sent to
the server without another thought. Nothing here recurses.

JSON is read more strictly than the standard says: a key given twice is refused (which of the two was
meant?), and so are ``NaN``, ``Infinity``, and numbers that would become infinite.

Pure: standard library only.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from signals.errors import MalformedSignal, shown

DEPTH_MAX = 100
"""Levels of documents and arrays in a filter: MongoDB's own limit of nesting."""

SIGNAL_DEPTH_MAX = DEPTH_MAX + 10
"""The same in a whole signal, where a filter lies some levels deep."""

SIZE_MAX = 4_000_000
"""Characters of a signal's data as text; as values, the characters of all text and one for each value."""

FILTER_SIZE_MAX = 1_000_000
"""The same of one filter."""

_INT_MAX = 1 << 63
_DIGITS_MAX = 20
# A string counts as one token, closed or not, so that brackets in it are not counted. Possessive: no backtracking.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)


def check_value(value: object, where: str, depth: int = SIGNAL_DEPTH_MAX, size: int = SIZE_MAX) -> None:
    """Raise MalformedSignal, its message beginning with ``where``, unless ``value`` is JSON within the limits.

    ``depth``: levels of documents and arrays. ``size``: characters, counted as for `SIZE_MAX`.
    """
    left = size
    waiting = [(value, 1)]
    while waiting:
        item, level = waiting.pop()
        left -= 1
        children: Iterable[object] = ()
        if isinstance(item, str):
            left -= _checked_length(item, where)
            level = 0  # Only documents and arrays are levels.
        elif isinstance(item, (Mapping, list, tuple)):
            left -= len(item)
            if isinstance(item, Mapping):
                for key in item:
                    left -= _checked_length(key, where)
                children = item.values()
            else:
                children = item
        else:
            _check_scalar(item, where)
            continue
        if left < 0:
            raise MalformedSignal(f"{where} is too large: at most {size} characters; send several signals")
        if level > depth:
            raise MalformedSignal(f"{where} is nested too deeply: at most {depth} levels")
        waiting.extend((child, level + 1) for child in children)


def load_json(text: str | bytes, where: str, depth: int = SIGNAL_DEPTH_MAX, size: int = SIZE_MAX) -> Any:
    """The value of a JSON text within the limits. Raises MalformedSignal that begins with ``where``.

    For channels: a message or a line as it came, before anything is known about it. ``depth`` and ``size`` as for
    `check_value`; ``size`` also limits ``text`` itself, in bytes where it is bytes (UTF-8, a BOM is tolerated).
    """
    if len(text) > size:
        raise MalformedSignal(f"{where} is too large: {len(text)} characters, at most {size}")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise MalformedSignal(f"{where} is not UTF-8 ({error.reason}): {shown(text)}") from error
    _check_depth(text, where, depth)
    try:
        value = json.loads(
            text,
            object_pairs_hook=_document,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
    except (json.JSONDecodeError, _NotHere) as error:
        raise MalformedSignal(f"{where} is not JSON ({error}): {shown(text)}") from error
    check_value(value, where, depth, size)
    return value


def _checked_length(text: object, where: str) -> int:
    if not isinstance(text, str):
        raise MalformedSignal(f"{where} has a key that is no string: {shown(text)}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise MalformedSignal(
            f"{where} has text that is not Unicode ({error.reason}): {shown(text)}"
        ) from error
    return len(text)


def _check_scalar(value: object, where: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int):
        if not -_INT_MAX <= value < _INT_MAX:
            raise MalformedSignal(f"{where} has a number that does not fit 64 bits: {shown(value)}")
    elif isinstance(value, float):
        if value - value != 0:  # NaN, or infinite.
            raise MalformedSignal(
                f'{where} has the number {value}, which JSON has not; write {{"$numberDouble": "NaN"}}'
            )
    else:
        raise MalformedSignal(f"{where} has a value that JSON has not: {shown(value)}")


def _check_depth(text: str, where: str, depth: int) -> None:
    level = 0
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        if first in "[{":
            level += 1
            if level > depth:
                raise MalformedSignal(f"{where} is nested too deeply: at most {depth} levels")
        elif first in "]}":
            level -= 1


class _NotHere(ValueError):
    """JSON as Python reads it, but not as it is read here."""


def _document(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = max(counts, key=counts.__getitem__)
        raise _NotHere(f"the key {shown(twice)} is given twice in one document")
    return document


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS_MAX:
        raise _NotHere(f"the number {shown(digits)} does not fit 64 bits")
    return int(digits)


def _float(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise _NotHere(f"the number {shown(digits)} is too large for a double")
    return number


def _constant(word: str) -> NoReturn:
    raise _NotHere(f"{word} is no number in JSON")

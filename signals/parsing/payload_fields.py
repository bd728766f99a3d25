"""The fields of a signal's data, one function each: the value as it was sent to the value that it means.

Each takes ``where``, which names the signal, to begin its messages with, and raises SignalError only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signals.actions import Condition, SnapshotType, Write
from signals.errors import MalformedSignal, listed, shown
from signals.matching.patterns import BadPattern, compile_pattern
from signals.matching.selection import is_expression
from signals.parsing.extended_json import NotExtendedJson, decode
from signals.parsing.filters import filter_text
from signals.parsing.values import check_value, load_json

ID_MAX = 1_024
"""Characters of a signal's id."""

COLLECTIONS_MAX = 1_000
EXPRESSIONS_MAX = 100
"""Of the patterns of one signal, those that are no plain names: each is held against every name."""

REQUESTS_MAX = 10_000
PRIORITY_MAX = 1_000_000

_ONE_FOR_ALL = "additional-condition"


def id_problem(text: str) -> str | None:
    """What is wrong with the id of a signal, to be put after "must", or None."""
    if not text:
        return "not be empty"
    if len(text) > ID_MAX:
        return f"have at most {ID_MAX} characters"
    if not text.isprintable():
        return "have printable characters only"
    return None


def data_document(where: str, data: object) -> Mapping[str, Any]:
    """The data of a signal: a document, the JSON text of one, or nothing. Raises MalformedSignal."""
    if isinstance(data, str):
        data = load_json(data, f"{where}: data") if data.strip() else None
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise MalformedSignal(f"{where}: data must be a document, got {shown(data)}")
    check_value(data, f"{where}: data")
    return data


def data_fields(where: str, data: object, *known: str) -> Mapping[str, Any]:
    """The same, with no fields but those that are known."""
    data = data_document(where, data)
    if _ONE_FOR_ALL in data and _ONE_FOR_ALL not in known:
        raise MalformedSignal(
            f"{where}: data has the unknown field '{_ONE_FOR_ALL}', one filter for all collections, which is no "
            'more; write "additional-conditions": [{"data-collection": "database.collection", "filter": "{…}"}]'
        )
    if unknown := [key for key in data if key not in known]:
        raise MalformedSignal(
            f"{where}: data has the unknown field(s) {listed(unknown)}; known are {', '.join(known) or '(none)'}"
        )
    return data


def patterns_of(where: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise MalformedSignal(f"{where}: data-collections must be a list of strings, got {shown(value)}")
    patterns = tuple(dict.fromkeys(text for item in value if (text := item.strip())))
    if len(patterns) > COLLECTIONS_MAX or sum(map(is_expression, patterns)) > EXPRESSIONS_MAX:
        raise MalformedSignal(
            f"{where}: data-collections has {len(patterns)} entries; at most {COLLECTIONS_MAX}, and of these at "
            f"most {EXPRESSIONS_MAX} regular expressions; send several signals, or expressions that match more"
        )
    for pattern in patterns:
        if pattern.count('"') % 2:
            raise MalformedSignal(f"{where}: a double quote is not closed in {shown(pattern)}")
    return patterns


def requests_of(where: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
    if "requests" not in fields:
        return ()
    value = fields["requests"]
    if not isinstance(value, (list, tuple)) or not value or len(value) > REQUESTS_MAX:
        raise MalformedSignal(
            f"{where}: requests must be a list of 1 to {REQUESTS_MAX} request ids (leave it out to mean all), "
            f"got {shown(value)}"
        )
    for item in value:
        problem = id_problem(item.strip()) if isinstance(item, str) else "be a string"
        if problem:
            raise MalformedSignal(f"{where}: an id in requests must {problem}, got {shown(item)}")
    return tuple(dict.fromkeys(item.strip() for item in value))


def flag_of(where: str, fields: Mapping[str, Any], name: str) -> bool:
    """The field ``name`` of ``fields``; False where it is missing. Only true and false are taken, not "true" or 1."""
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise MalformedSignal(f"{where}: {name} must be true or false, got {shown(value)}")
    return value


def priority_of(where: str, value: object) -> int:
    try:
        number = decode(value)  # A signal collection gives numbers as Extended JSON.
    except NotExtendedJson:
        number = value
    if isinstance(number, float) and number.is_integer():
        number = int(number)  # The old shell writes every number as a double.
    if isinstance(number, bool) or not isinstance(number, int) or abs(number) > PRIORITY_MAX:
        raise MalformedSignal(
            f"{where}: priority must be a whole number from -{PRIORITY_MAX} to {PRIORITY_MAX}, got {shown(value)}"
        )
    return int(number)


def snapshot_type_of(where: str, fields: Mapping[str, Any]) -> SnapshotType:
    value = fields.get("type")
    if value is None:
        return SnapshotType.INCREMENTAL
    try:
        return SnapshotType(value.strip().lower())
    except (ValueError, AttributeError) as error:
        known = ", ".join(SnapshotType)
        raise MalformedSignal(f"{where}: type must be one of {known}, got {shown(value)}") from error


def write_of(where: str, fields: Mapping[str, Any]) -> Write:
    """What the field ``write`` asks for; without it, only what differs is written."""
    value = fields.get("write", Write.CHANGED)
    try:
        return Write(value)
    except ValueError as error:
        known = " or ".join(Write)
        raise MalformedSignal(f"{where}: write must be {known}, got {shown(value)}") from error


def conditions_of(where: str, value: object, patterns: tuple[str, ...]) -> tuple[Condition, ...]:
    """The conditions in ``value``, a list of documents or None. ``patterns`` are the signal's data-collections: where a
    condition's collection is none of them, as they are written, it must be a valid regular expression."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise MalformedSignal(f"{where}: additional-conditions must be a list, got {shown(value)}")
    if len(value) > COLLECTIONS_MAX:
        raise MalformedSignal(
            f"{where}: additional-conditions has {len(value)} entries, at most {COLLECTIONS_MAX}"
        )
    return tuple(_condition(f"{where}: an additional condition", item, patterns) for item in value)


def _condition(where: str, value: object, patterns: tuple[str, ...]) -> Condition:
    if not isinstance(value, Mapping) or set(value) != {"data-collection", "filter"}:
        raise MalformedSignal(f"{where} has exactly data-collection and filter, got {shown(value)}")
    name, query = value["data-collection"], value["filter"]
    if not isinstance(name, str) or not name.strip() or name.count('"') % 2:
        raise MalformedSignal(f"{where}: data-collection must name a collection, got {shown(name)}")
    name = name.strip()
    # A condition that silently matched nothing would read a whole collection. A text that stands among the
    # collections too is refused there, unless it is a name that exists.
    if name not in patterns:
        try:
            compile_pattern(name, ignore_case=True)
        except BadPattern as error:
            raise BadPattern(f"{where}: {error}") from error
    return Condition(name, filter_text(query, where))

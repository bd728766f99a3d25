"""From a signal as it was written to the action it asks for: strict, with every refusal explained.

A signal document has three fields, by name (``_id`` or ``id``, ``type``, ``data`` or ``payload``) or, where
names are missing, by position: a document of exactly three fields is (id, type, data) whatever they are
called. Fields besides these are tolerated. ``data`` is a document or the JSON text of one; *inside* it an
unknown key is refused, because a misspelt ``additional-conditions`` that is ignored reads a whole
collection nobody asked for.

The syntax is Debezium's, read more strictly: what Debezium logs and drops is an error here, for the caller
to report.

Pure: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from signals.actions import (
    TYPE_NAMES,
    WATERMARK_TYPES,
    Action,
    Condition,
    ExecuteSnapshot,
    Log,
    PauseSnapshot,
    ResumeSnapshot,
    SnapshotType,
    StopSnapshot,
)
from signals.errors import MalformedSignal, NotASignal, NothingRequested, UnknownSignal, shown
from signals.shell_json import ShellJsonError, parse_document

_ID_NAMES = ("id", "_id")
_DATA_NAMES = ("data", "payload")
_NO_DATA: Mapping[str, object] = {}


def parse_signal(id: object, type: object, data: object = None) -> Action:
    """The action of one signal.

    ``id`` is a string or a plain value that reads as one (a number, an ObjectId); ``data`` is a mapping,
    its JSON text, or None. Raises MalformedSignal, NothingRequested, UnknownSignal, or NotASignal for a
    watermark document.
    """
    signal_id = _signal_id(id)
    if not isinstance(type, str) or not type.strip():
        raise MalformedSignal(f"signal {signal_id!r}: its type must be a non-empty string, got {shown(type)}")
    kind = type.strip()
    if kind in WATERMARK_TYPES:
        raise NotASignal(f"document {signal_id!r} of type {kind!r} bounds a snapshot window; it is no signal")
    if kind not in _PARSERS:
        known = ", ".join(sorted(TYPE_NAMES.values()))
        raise UnknownSignal(f"signal {signal_id!r}: unknown type {shown(type)}; known are {known}")
    return _PARSERS[kind](signal_id, data)


def parse_signal_document(document: Mapping[str, object]) -> Action:
    """The action of a signal document, its fields taken by name or by position. Raises as ``parse_signal``
    does.
    """
    return parse_signal(*signal_fields(document))


def signal_fields(document: Mapping[str, object]) -> tuple[object, object, object]:
    """``(id, type, data)`` of a signal document; ``data`` is None where there is none. Raises
    MalformedSignal.
    """
    by_position: Sequence[str] = tuple(document) if len(document) == 3 else ()
    both = [name for name in _DATA_NAMES if name in document]
    if len(both) > 1:
        raise MalformedSignal(f"a signal has data or payload, this one has both: {shown(dict(document))}")

    def named(names: Sequence[str], place: int) -> str | None:
        found = next((name for name in names if name in document), None)
        return found if found is not None or not by_position else by_position[place]

    id_name, type_name, data_name = named(_ID_NAMES, 0), named(("type",), 1), named(_DATA_NAMES, 2)
    if id_name is None or type_name is None or len({id_name, type_name, data_name}) < 3:
        raise MalformedSignal(
            "a signal has an id, a type, and data, by these names or as exactly three fields in this order; "
            f"got the fields {', '.join(map(repr, document)) or '(none)'}"
        )
    return document[id_name], document[type_name], None if data_name is None else document[data_name]


def _signal_id(value: object) -> str:
    if value is None or isinstance(value, (bool, float, bytes, Mapping, list, tuple)):
        raise MalformedSignal(f"a signal's id must be a string, got {shown(value)}")
    text = str(value).strip()
    if not text:
        raise MalformedSignal(f"a signal's id must not be empty, got {shown(value)}")
    return text


def _execute(signal_id: str, data: object) -> Action:
    fields = _data(signal_id, data, "data-collections", "type", "additional-conditions", "surrogate-key")
    if fields.get("surrogate-key"):
        shown_key = shown(fields["surrogate-key"])
        raise MalformedSignal(
            f"signal {signal_id!r}: surrogate-key does not exist for MongoDB, got {shown_key}"
        )
    patterns = _patterns(signal_id, fields.get("data-collections"))
    if not patterns:
        raise NothingRequested(
            f"signal {signal_id!r}: data-collections names no collection "
            f"(got {shown(fields.get('data-collections'))}), so nothing is read"
        )
    conditions = _conditions(signal_id, fields.get("additional-conditions"))
    return ExecuteSnapshot(signal_id, patterns, _snapshot_type(signal_id, fields), conditions)


def _stop(signal_id: str, data: object) -> Action:
    fields = _data(signal_id, data, "data-collections", "type")
    return StopSnapshot(
        signal_id, _patterns(signal_id, fields.get("data-collections")), _snapshot_type(signal_id, fields)
    )


def _log(signal_id: str, data: object) -> Action:
    message = _data(signal_id, data, "message").get("message")
    if not isinstance(message, str):
        raise MalformedSignal(f"signal {signal_id!r}: message must be a string, got {shown(message)}")
    return Log(signal_id, message)


_PARSERS: Mapping[str, Callable[[str, object], Action]] = {
    "execute-snapshot": _execute,
    "stop-snapshot": _stop,
    "pause-snapshot": lambda signal_id, _: PauseSnapshot(
        signal_id
    ),  # data is ignored, as it has no meaning here
    "resume-snapshot": lambda signal_id, _: ResumeSnapshot(signal_id),
    "log": _log,
}


def _data(signal_id: str, data: object, *known: str) -> Mapping[str, Any]:
    if isinstance(data, str):
        if not data.strip():
            return _NO_DATA
        try:
            data = json.loads(data)
        except json.JSONDecodeError as error:
            raise MalformedSignal(
                f"signal {signal_id!r}: data is not JSON ({error}): {shown(data)}"
            ) from error
    if data is None:
        return _NO_DATA
    if not isinstance(data, Mapping):
        raise MalformedSignal(f"signal {signal_id!r}: data must be a document, got {shown(data)}")
    if unknown := [key for key in data if key not in known]:
        raise MalformedSignal(
            f"signal {signal_id!r}: data has the unknown field(s) {', '.join(map(repr, unknown))}; "
            f"known are {', '.join(known)}"
        )
    return data


def _patterns(signal_id: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise MalformedSignal(
            f"signal {signal_id!r}: data-collections must be a list of strings, got {shown(value)}"
        )
    patterns = tuple(dict.fromkeys(text for item in value if (text := item.strip())))
    for pattern in patterns:
        if pattern.count('"') % 2:
            raise MalformedSignal(f"signal {signal_id!r}: a double quote is not closed in {shown(pattern)}")
    return patterns


def _snapshot_type(signal_id: str, fields: Mapping[str, Any]) -> SnapshotType:
    value = fields.get("type")
    if value is None:
        return SnapshotType.INCREMENTAL
    try:
        return SnapshotType(value.strip().lower())
    except (ValueError, AttributeError) as error:
        known = ", ".join(SnapshotType)
        raise MalformedSignal(
            f"signal {signal_id!r}: type must be one of {known}, got {shown(value)}"
        ) from error


def _conditions(signal_id: str, value: object) -> tuple[Condition, ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise MalformedSignal(
            f"signal {signal_id!r}: additional-conditions must be a list, got {shown(value)}"
        )
    return tuple(_condition(signal_id, item) for item in value)


def _condition(signal_id: str, value: object) -> Condition:
    where = f"signal {signal_id!r}: an additional condition"
    if not isinstance(value, Mapping) or set(value) != {"data-collection", "filter"}:
        raise MalformedSignal(f"{where} has exactly data-collection and filter, got {shown(value)}")
    name, query = value["data-collection"], value["filter"]
    if not isinstance(name, str) or not name.strip() or name.count('"') % 2:
        raise MalformedSignal(f"{where}: data-collection must name a collection, got {shown(name)}")
    return Condition(name.strip(), filter_text(query, where))


def filter_text(query: object, where: str = "the filter") -> str:
    """A filter, as a document or as its text (JSON, or as the MongoDB shell writes it), as Extended JSON
    text.

    Raises MalformedSignal that begins with ``where``.
    """
    try:
        document = parse_document(query) if isinstance(query, str) else query
        if not isinstance(document, Mapping):
            raise MalformedSignal(f"{where}: the filter must be a query document, got {shown(query)}")
        return json.dumps(document, ensure_ascii=False, allow_nan=False)
    except (ShellJsonError, TypeError, ValueError) as error:
        if isinstance(error, MalformedSignal):
            raise
        raise MalformedSignal(
            f"{where}: the filter {shown(query)} is not a query document: {error}"
        ) from error

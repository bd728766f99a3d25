"""From a signal as it was written to the action it asks for: strict, with every refusal explained.

A signal document has three fields, by name (``_id`` or ``id``, ``type``, ``data`` or ``payload``) or, where
names are missing, by position: a document of exactly three fields is (id, type, data) whatever they are
called. Fields besides these are tolerated. ``data`` is a document or the JSON text of one; what may be in it
is ``signals.parsing.payloads``.

Whatever comes in, an action or a SignalError comes out. The syntax is Debezium's, read more strictly: what
Debezium logs and drops is an error here, for the caller to report.

No clock, no server, nothing that is remembered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from bson import ObjectId

from signals.action_plugins import custom_types
from signals.actions import TYPE_NAMES, WATERMARK_TYPES, Action, CustomAction
from signals.errors import MalformedSignal, NotASignal, UnknownSignal, listed, shown
from signals.parsing.filters import filter_text
from signals.parsing.payload_fields import data_document, id_problem
from signals.parsing.payloads import PARSERS
from signals.parsing.values import load_json

__all__ = ["filter_text", "parse_signal", "parse_signal_document", "parse_signal_text", "signal_fields"]

_ID_NAMES = ("id", "_id")
_DATA_NAMES = ("data", "payload")


def parse_signal(id: object, type: object, data: object = None) -> Action:
    """The action of one signal.

    ``id`` is a string or a plain value that reads as one (a whole number, an ObjectId); ``type`` is a name of
    `TYPE_NAMES`, or one that a package brings; ``data`` is a mapping, its JSON text, or None. Raises MalformedSignal,
    NothingRequested, UnknownSignal, or NotASignal for a watermark document.
    """
    signal_id = _signal_id(id)
    if not isinstance(type, str) or not type.strip():
        raise MalformedSignal(f"signal {signal_id!r}: its type must be a non-empty string, got {shown(type)}")
    kind = type.strip()
    if kind in WATERMARK_TYPES:
        raise NotASignal(f"document {signal_id!r} of type {kind!r} bounds a snapshot window; it is no signal")
    if kind in custom_types():
        fields = data_document(f"signal {signal_id!r}", data)
        return CustomAction(signal_id, kind, json.dumps(dict(fields), ensure_ascii=False))
    if kind not in PARSERS:
        known = ", ".join(sorted({*TYPE_NAMES.values(), *custom_types()}))
        raise UnknownSignal(f"signal {signal_id!r}: unknown type {shown(type)}; known are {known}")
    return PARSERS[kind](signal_id, data)


def parse_signal_document(document: Mapping[str, object]) -> Action:
    """The action of a signal document, its fields taken by name or by position. Raises as ``parse_signal``
    does.
    """
    return parse_signal(*signal_fields(document))


def parse_signal_text(text: str | bytes, default_id: str | None = None) -> Action:
    """The action of a signal that is one JSON object: a line of a file, the value of a message.

    ``default_id`` is its id where it has none of its own. Raises as ``parse_signal`` does.
    """
    document = load_json(text, "the signal")
    if not isinstance(document, dict):
        raise MalformedSignal(f"a signal is one JSON object, got {shown(document)}")
    if default_id is not None and not document.keys() & set(_ID_NAMES) and "type" in document:
        document = {"id": default_id} | document
    return parse_signal_document(document)


def signal_fields(document: Mapping[str, object]) -> tuple[object, object, object]:
    """``(id, type, data)`` of a signal document; ``data`` is None where there is none. Raises
    MalformedSignal.
    """
    if not isinstance(document, Mapping):
        raise MalformedSignal(f"a signal is a document, got {shown(document)}")
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
            f"got the fields {listed(document) or '(none)'}"
        )
    return document[id_name], document[type_name], None if data_name is None else document[data_name]


def _signal_id(value: object) -> str:
    if isinstance(value, ObjectId) or (isinstance(value, int) and not isinstance(value, bool)):
        value = str(value) if isinstance(value, ObjectId) or value.bit_length() <= 64 else value
    if not isinstance(value, str):
        raise MalformedSignal(f"a signal's id must be a string, got {shown(value)}")
    text = value.strip()
    if problem := id_problem(text):
        raise MalformedSignal(f"a signal's id must {problem}, got {shown(value)}")
    return text

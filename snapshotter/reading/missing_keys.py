"""Ids that a request names and no document has: in words, with what ids look like in that collection.

The usual reason is a type: ``"17"`` for 17, or an ObjectId's digits as a string. Such a request ends well and has read
nothing, so whoever sent it is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import structlog
from bson import ObjectId
from bson.json_util import RELAXED_JSON_OPTIONS, dumps
from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from signals.parsing.extended_json import decode
from signals.parsing.values import load_json
from snapshotter.log import warn_of
from streaming.events.extended_json import Form, id_text
from streaming.namespaces import Namespace

_log = structlog.get_logger("snapshotter.signals")
_LOOKED_AT = 100
_SHOWN = 3
_TEXT_MAX = 80
_INTEGERS = range(-(2**63), 2**63)
_DIGITS_MAX = 19


def missing_keys(client: MongoClient[Any], namespace: Namespace, keys: Sequence[str]) -> str | None:
    """A sentence about those of ``keys`` (Extended JSON) that no document of ``namespace`` has; None where each of them
    has one. It looks at the first hundred. Raises the driver's errors."""
    # Ids are not decoded: a server takes some that the driver does not read.
    collection = client[namespace.database].get_collection(namespace.collection, DEFAULT_RAW_BSON_OPTIONS)

    def there(value: Any) -> bool:
        return collection.find_one({"_id": value}, {"_id": 1}) is not None

    values = [decode(load_json(key, "an id")) for key in keys[:_LOOKED_AT]]
    if collection.count_documents({"_id": {"$in": values}}) >= len(values):
        return None
    missing = [value for value in values if not there(value)]
    if not missing:
        return None
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    text = f"no document of {namespace} has the id {', '.join(map(_shown, missing[:_SHOWN]))}{more}"
    ends = [collection.find_one({}, {"_id": 1}, sort=[("_id", order)]) for order in (1, -1)]
    texts = (id_text(document.raw, Form.RELAXED) for document in ends if document is not None)
    examples = list(dict.fromkeys(_shortened(text) for text in texts if text is not None))
    if not examples:
        return f"{text}: it is empty"
    meant = next((other for value in missing for other in _others(value) if there(other)), None)
    hint = "" if meant is None else f"; did you mean {_shown(meant)}?"
    return f"{text}; ids there look like {' and '.join(examples)}{hint}"


def warn_of_missing(
    client: MongoClient[Any], namespace: Namespace, keys: Sequence[str], **fields: str
) -> None:
    """Log what `missing_keys` says of ``keys``, with these ``fields``; that nobody could look, where that is so."""
    try:
        if text := missing_keys(client, namespace, keys):
            _log.warning(text, **fields)
    except PyMongoError as error:
        warn_of(_log, "nobody looked whether there are such ids", error, **fields)


def _others(value: Any) -> Iterator[Any]:
    """The same id as another type."""
    if isinstance(value, str):
        if ObjectId.is_valid(value):
            yield ObjectId(value)
        digits = value.removeprefix("-")
        if digits.isdecimal() and len(digits) <= _DIGITS_MAX and int(value) in _INTEGERS:
            yield int(value)
    elif isinstance(value, (int, ObjectId)) and not isinstance(value, bool):
        yield str(value)


def _shown(value: Any) -> str:
    """As a command line takes it."""
    return _shortened(dumps(value, json_options=RELAXED_JSON_OPTIONS, ensure_ascii=False))


def _shortened(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"

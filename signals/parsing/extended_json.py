"""Values of every BSON type as text, and back: canonical Extended JSON.

A signal carries ids and filters as text, so that they can be kept, compared and sent on without a loss of
type. A text that is made here is known to be good: it has been decoded by the driver, and encoded as BSON,
so that whoever reads it later need not expect a failure.

The driver's reader takes anything in its stride but is not strict about what it raises; every failure comes
out of here as one exception.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import bson
from bson.codec_options import DatetimeConversion
from bson.errors import BSONError
from bson.json_util import JSONMode, JSONOptions, dumps, loads

from signals.errors import shortened

_OPTIONS: JSONOptions = JSONOptions(
    json_mode=JSONMode.CANONICAL,
    # Years that Python's datetime has not stay what they are.
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
)
# Everything that the driver was seen to raise on 300,000 generated values that look like Extended JSON.
_FAILURES = (ValueError, TypeError, BSONError, ArithmeticError, LookupError, AttributeError)


class NotExtendedJson(ValueError):
    """It looks like a value of a BSON type, and is none; the message is the driver's."""


def decode(value: object) -> Any:
    """The BSON value that plain values (as JSON gives them, in limits already) stand for. Raises
    NotExtendedJson.
    """
    try:
        decoded = loads(json.dumps(value, ensure_ascii=False), json_options=_OPTIONS)
        bson.encode({"": decoded})
    except _FAILURES as error:
        raise NotExtendedJson(shortened(error)) from error
    return decoded


def canonical(decoded: object) -> str:
    """A BSON value as canonical Extended JSON text: one text for a value, its type kept. Raises
    NotExtendedJson.
    """
    try:
        text: str = dumps(decoded, json_options=_OPTIONS, ensure_ascii=False)
    except _FAILURES as error:
        raise NotExtendedJson(shortened(error)) from error
    return text


def has_undefined(value: object) -> bool:
    """Whether ``{"$undefined": true}`` is anywhere in ``value``; the driver reads it as null."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            if "$undefined" in item:
                return True
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple)):
            waiting.extend(item)
    return False

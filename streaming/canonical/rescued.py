"""``_rescued_data`` as canonical bytes: Extended JSON, read by rules of its own.

This is the table's side of ``canonical``. It must not be lenient: what it can't read is an error that names
the value, for a reader that skips something would call a damaged table equal.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from decimal import Decimal
from struct import Struct as Packed
from struct import error as StructError
from typing import Any

from streaming.canonical.documents import (
    binary_form,
    canonical_document,
    canonical_double,
    canonical_integer,
    canonical_scaled,
    canonical_value,
    object_id_form,
    string_form,
)

_WHOLE_VALUE_AT = 6
_DATE = Packed("<q").pack
_TIMESTAMP = Packed("<II").pack
_UNREADABLE = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    ArithmeticError,
    StructError,
)
"""What the readers below raise for text that is not ours."""


class UnreadableRescuedData(ValueError):
    """The column ``_rescued_data`` holds something that this product does not write."""


def read_rescued(text: str) -> dict[tuple[str, ...], bytes]:
    """The entries of one ``_rescued_data``: the parts of the JSON Pointer -> canonical bytes of the value."""
    try:
        entries = json.loads(text, object_pairs_hook=_once)
        return {parts_of(path): canonical_json(value) for path, value in entries.items()}
    except _UNREADABLE as error:
        raise UnreadableRescuedData(f"cannot read _rescued_data ({error!r}): {text[:300]}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs. Of a name that came twice ``json`` would keep the last and say nothing."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UnreadableRescuedData(f"a name comes twice in one object: {[name for name, _ in pairs]}")
    return found


def parts_of(path: str) -> tuple[str, ...]:
    """``"/items/0/a~1b"`` -> ``("items", "0", "a/b")``; ``""`` is the document itself."""
    if not path:
        return ()
    if not path.startswith("/"):
        raise UnreadableRescuedData(f"not a JSON Pointer: {path!r}")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))


def canonical_json(value: Any) -> bytes:
    """A value of canonical Extended JSON, as ``json.loads`` gives it."""
    if value is None:
        return b"0"
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, str):
        return b"s" + string_form(value.encode())
    if isinstance(value, list):
        return b"[" + b"".join([canonical_json(item) for item in value]) + b"]"
    if not isinstance(value, dict):
        raise UnreadableRescuedData(f"a bare number is no canonical Extended JSON: {value!r}")
    for name in value:
        wrapper = _WRAPPERS.get(name)
        if wrapper is not None:
            return wrapper(value)
    fields = sorted((name.encode() + b"\0", canonical_json(item)) for name, item in value.items())
    return b"{" + b"".join([b"," + name + item for name, item in fields]) + b"}"


def _only(value: Mapping[str, Any], *names: str) -> list[Any]:
    if set(value) != set(names):
        raise UnreadableRescuedData(f"fields {sorted(value)} where {sorted(names)} are expected")
    return [value[name] for name in names]


def _one(name: str, form: Callable[[Any], bytes]) -> Callable[[Mapping[str, Any]], bytes]:
    return lambda value: form(_only(value, name)[0])


def _constant(name: str, expected: Any, form: bytes) -> Callable[[Mapping[str, Any]], bytes]:
    def read(value: Mapping[str, Any]) -> bytes:
        if _only(value, name) != [expected]:
            raise UnreadableRescuedData(f"{name} is {value[name]!r}, expected {expected!r}")
        return form

    return read


def _integer(text: str) -> int:
    value = int(text)
    if str(value) != text:
        raise UnreadableRescuedData(f"not how an integer is written: {text!r}")
    return value


def _object_id(digits: str) -> bytes:
    form = object_id_form(digits)
    if form is None:
        raise UnreadableRescuedData(f"not the 24 digits of an ObjectId: {digits!r}")
    return form


def _text(value: str) -> bytes:
    return string_form(value.encode())


def _decimal(text: str) -> bytes:
    number = Decimal(text)
    if number.is_nan():
        return b"nNaN;"
    if number.is_infinite():
        return b"ninf;" if number > 0 else b"n-inf;"
    sign, digits, exponent = number.as_tuple()
    return canonical_scaled(int("".join(map(str, digits))), int(exponent), bool(sign))


def _binary(value: Mapping[str, Any]) -> bytes:
    data, subtype = _only(value, "base64", "subType")
    return binary_form(int(subtype, 16), b64decode(data, validate=True))


def _code(value: Mapping[str, Any]) -> bytes:
    if "$scope" not in value:
        return b"c" + _text(_only(value, "$code")[0])
    code, scope = _only(value, "$code", "$scope")
    return b"w" + _text(code) + canonical_json(scope)


def _whole(text: str) -> bytes:
    """A BSON document whose one field, with the empty name, is the value."""
    raw = b64decode(text, validate=True)
    if len(raw) < _WHOLE_VALUE_AT + 1 or raw[5] or not canonical_document(raw).startswith(b"{,\0"):
        raise UnreadableRescuedData(f"$bson does not hold one value: {text[:80]}")
    return canonical_value(raw[4], raw, _WHOLE_VALUE_AT)


def _timestamp(value: Mapping[str, Any]) -> bytes:
    seconds, increment = _only(value, "t", "i")
    return b"T" + _TIMESTAMP(increment, seconds)


def _regex(value: Mapping[str, Any]) -> bytes:
    pattern, options = _only(value, "pattern", "options")
    return b"r" + _text(pattern) + _text(options)


def _db_pointer(value: Mapping[str, Any]) -> bytes:
    name, identity = _only(value, "$ref", "$id")
    return b"p" + _text(name) + _object_id(_only(identity, "$oid")[0])[1:]


_WRAPPERS: dict[str, Callable[[Mapping[str, Any]], bytes]] = {
    "$numberInt": _one("$numberInt", lambda text: canonical_integer(_integer(text))),
    "$numberLong": _one("$numberLong", lambda text: canonical_integer(_integer(text))),
    "$numberDouble": _one("$numberDouble", lambda text: canonical_double(float(text))),
    "$numberDecimal": _one("$numberDecimal", _decimal),
    "$oid": _one("$oid", _object_id),
    "$date": _one("$date", lambda value: b"d" + _DATE(_integer(_only(value, "$numberLong")[0]))),
    "$binary": _one("$binary", _binary),
    "$code": _code,
    "$symbol": _one("$symbol", lambda text: b"y" + _text(text)),
    "$timestamp": _one("$timestamp", _timestamp),
    "$regularExpression": _one("$regularExpression", _regex),
    "$dbPointer": _one("$dbPointer", _db_pointer),
    "$undefined": _constant("$undefined", True, b"u"),
    "$minKey": _constant("$minKey", 1, b"<"),
    "$maxKey": _constant("$maxKey", 1, b">"),
    "$bson": _one("$bson", _whole),
    "$invalidUtf8": _one("$invalidUtf8", lambda text: b"s" + string_form(b64decode(text, validate=True))),
}

"""The content of a document as its table is to show it under rules about fields: what ``verify`` compares.

The rules come as plain values, and are carried out here once more, by code that shares nothing with what carries them
out on the way to a table (`streaming.fields`): a field that is kept there and dropped here, or the reverse, shows.

A rule is (what, path, new name), where what is "exclude", "rename" or "hash"; the path leads through documents and
arrays. Renames do not reach into an array of an array.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from struct import Struct as Packed

from streaming.canonical.documents import canonical_value, document_form, string_form

Rule = tuple[str, tuple[str, ...], str]

_INT32 = Packed("<i").unpack_from
_DOUBLE = Packed("<d").unpack_from
_OBJECT, _ARRAY, _NULL, _UNDEFINED = 0x03, 0x04, 0x0A, 0x06


def selected_document(raw: bytes, at: int, rules: Iterable[Rule], salt: bytes) -> bytes:
    """The canonical bytes of the document at byte ``at`` of ``raw`` under the ``rules``; hashes are made with ``salt``.

    The bytes must be sound: nothing is checked."""
    return _document(raw, at, list(rules), salt)[0]


def _document(raw: bytes, at: int, rules: list[Rule], salt: bytes) -> tuple[bytes, int]:
    fields: list[bytes] = []
    names: set[bytes] = set()
    position = at + 4
    while tag := raw[position]:
        start = raw.index(0, position + 1) + 1
        called = raw[position + 1 : start - 1]
        mine = [(what, path[1:], new) for what, path, new in rules if path and path[0].encode() == called]
        ended = {what: new for what, path, new in mine if not path}
        value, position = _value(tag, raw, start, mine, salt)
        if "exclude" in ended:
            continue
        name = (ended["rename"].encode() if "rename" in ended else called) + b"\0"
        fields.append(b"," + name + value)
        names.add(name)
    return document_form(fields, unique=len(names) == len(fields)), position + 1


def _value(tag: int, raw: bytes, at: int, rules: list[Rule], salt: bytes) -> tuple[bytes, int]:
    hashes = any(what == "hash" and not path for what, path, _ in rules)
    if tag == _ARRAY and rules:
        values = [b"["]
        position = at + 4
        while item := raw[position]:
            below = [rule for rule in rules if rule[0] != "rename"] if item == _ARRAY else rules
            value, position = _value(item, raw, raw.index(0, position + 1) + 1, below, salt)
            values.append(value)
        return b"".join(values) + b"]", position + 1
    if hashes and tag not in (_NULL, _UNDEFINED):
        end = at + _size(tag, raw, at)
        digest = hmac.new(salt, _hashed(tag, raw[at:end]), hashlib.sha256).hexdigest()
        return b"s" + string_form(digest.encode()), end
    if tag == _OBJECT and rules:
        return _document(raw, at, rules, salt)
    return canonical_value(tag, raw, at), at + _size(tag, raw, at)


def _hashed(tag: int, value: bytes) -> bytes:
    """What is hashed: the text of a string, the digits of an ObjectId or a whole number, else type and bytes."""
    match tag:
        case 0x02:
            return value[4:-1]
        case 0x07:
            return value.hex().encode()
        case 0x10 | 0x12:
            return str(int.from_bytes(value, "little", signed=True)).encode()
        case 0x01:
            number = _DOUBLE(value)[0]
            if number == number and abs(number) <= 2**63 and number == int(number) != 2**63:
                return str(int(number)).encode()
    return bytes([tag]) + value


_SIZES = {
    0x01: 8,
    0x06: 0,
    0x07: 12,
    0x08: 1,
    0x09: 8,
    0x0A: 0,
    0x10: 4,
    0x11: 8,
    0x12: 8,
    0x13: 16,
    0x7F: 0,
    0xFF: 0,
}
_LENGTHS = {0x02: 4, 0x03: 0, 0x04: 0, 0x05: 5, 0x0C: 16, 0x0D: 4, 0x0E: 4, 0x0F: 0}


def _size(tag: int, raw: bytes, at: int) -> int:
    if tag in _SIZES:
        return _SIZES[tag]
    if tag in _LENGTHS:
        return int(_INT32(raw, at)[0]) + _LENGTHS[tag]
    return raw.index(0, raw.index(0, at) + 1) + 1 - at  # a regular expression: two texts, each with its NUL

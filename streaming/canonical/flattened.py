"""The content of a document whose nested documents are fields at the top level, or whose arrays are documents: what
``verify`` compares where a table has such a shape.

It is worked out from the canonical bytes of the document as it is (`streaming.canonical.documents`), by code that
shares nothing with what reshapes documents on the way to a table (`streaming.fields.shape`).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Packed

from streaming.canonical.documents import document_form

_INT32 = Packed("<i").unpack_from
_FIXED = {b"0": 0, b"t": 0, b"f": 0, b"u": 0, b"<": 0, b">": 0, b"o": 12, b"d": 8, b"T": 8}
_STRINGS = {b"s": 1, b"c": 1, b"y": 1, b"r": 2}


def flattened(content: bytes, delimiter: bytes | None, *, arrays: bool) -> bytes:
    """The canonical bytes of a document with this ``content`` (canonical, too): nested names joined by the
    ``delimiter`` (None: they stay nested), and documents in the place of ``arrays``. `_id` stays."""
    if delimiter is None and not arrays:
        return content
    fields: list[bytes] = []
    for name, value in _fields(content, 0):
        if name == b"_id":
            fields.append(b"," + name + b"\0" + value)
        elif delimiter is None:
            fields.append(b"," + name + b"\0" + _without_arrays(value))
        else:
            leaves = _leaves(name, value, delimiter, arrays=arrays)
            fields += [b"," + path + b"\0" + leaf for path, leaf in leaves]
    return document_form(fields, unique=False)


def _leaves(name: bytes, value: bytes, delimiter: bytes, *, arrays: bool) -> Iterator[tuple[bytes, bytes]]:
    below = list(_below(value)) if value[:1] == b"{" or arrays else []
    if not below:
        yield name, b"{}" if arrays and value == b"[]" else value
    for inner, content in below:
        yield from _leaves(name + delimiter + inner, content, delimiter, arrays=arrays)


def _without_arrays(value: bytes) -> bytes:
    if value[:1] not in (b"{", b"["):
        return value
    return document_form(
        [b"," + name + b"\0" + _without_arrays(one) for name, one in _below(value)], unique=False
    )


def _below(value: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and values in a document, or in an array by their places; nothing in another value."""
    if value[:1] == b"{":
        yield from _fields(value, 0)
    elif value[:1] == b"[":
        at, place = 1, 0
        while value[at : at + 1] != b"]":
            end = _end(value, at)
            yield b"_%d" % place, value[at:end]
            at, place = end, place + 1


def _fields(data: bytes, at: int) -> Iterator[tuple[bytes, bytes]]:
    at += 1
    while data[at : at + 1] == b",":
        end_of_name = data.index(0, at)
        end = _end(data, end_of_name + 1)
        yield data[at + 1 : end_of_name], data[end_of_name + 1 : end]
        at = end


def _end(data: bytes, at: int) -> int:
    """Where the value that begins at byte ``at`` ends."""
    kind, at = data[at : at + 1], at + 1
    if kind in _FIXED:
        return at + _FIXED[kind]
    if kind in _STRINGS:
        for _ in range(_STRINGS[kind]):
            at += 4 + _INT32(data, at)[0] - 1
        return at
    match kind:
        case b"n":
            return data.index(b";", at) + 1
        case b"b":
            return at + 5 + int(_INT32(data, at + 1)[0])
        case b"p":
            return at + 4 + int(_INT32(data, at)[0]) - 1 + 12
        case b"w":
            return _end(data, at + 4 + _INT32(data, at)[0] - 1)
    close = b"}" if kind == b"{" else b"]"
    while data[at : at + 1] != close:
        at = _end(data, data.index(0, at) + 1 if kind == b"{" else at)
    return at + 1

"""The elements of a raw BSON document, walked without decoding a value.

Identity must not pass through a decoder: a decoder merges a field that occurs twice, refuses dates beyond
the year 9999, and makes one type of several. So keys are computed from the bytes. This module finds where
each value begins and ends; what a value means is `streaming.keys.keys`' business.

Every length is checked before it is used, so damaged bytes give an `UnkeyableId` that says what is wrong with
them, never an IndexError or a key of half a value.

Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from streaming.bson.elements import COUNTED_EXTRAS, FIXED_SIZES, REGEX, SMALLEST_LENGTHS, STRING

_SHOWN_BYTES = 40

_INT32 = struct.Struct("<i")


class UnkeyableId(ValueError):
    """These bytes are not an id that can be keyed: they are not well-formed BSON, or nested beyond every
    limit.

    MongoDB stores no such id, so the bytes were damaged or cut on their way here. The message shows them.
    """

    @classmethod
    def of(cls, reason: str, data: bytes) -> UnkeyableId:
        shown = data[:_SHOWN_BYTES].hex() + ("..." if len(data) > _SHOWN_BYTES else "")
        return cls(f"not a well-formed BSON id: {reason}; {len(data)} bytes: {shown}")


class Element(NamedTuple):
    """One field: BSON type, name (UTF-8 bytes, without the NUL), and the value's bytes."""

    kind: int
    name: bytes
    payload: bytes


def value_size(kind: int, data: bytes, at: int) -> int:
    """How many bytes a value of BSON type ``kind`` takes at byte ``at`` of ``data``, by its own account: the caller
    must check that they are there. Raises UnkeyableId for an unknown type, and where the length is cut or
    impossible."""
    size = FIXED_SIZES.get(kind)
    if size is not None:
        return size
    return _regex_size(data, at) if kind == REGEX else _counted_size(kind, data, at)


def elements(document: bytes) -> Iterator[Element]:
    """The fields of a raw BSON document in their order; raises UnkeyableId where it is damaged."""
    if len(document) < 5 or _INT32.unpack_from(document)[0] != len(document) or document[-1]:
        raise UnkeyableId.of("a document's length does not fit its bytes", document)
    at, end = 4, len(document) - 1
    while at < end:
        kind = document[at]
        name_end = document.find(b"\0", at + 1, end)
        if name_end < 0:
            raise UnkeyableId.of(f"the name of the field at byte {at} does not end", document)
        start = name_end + 1
        stop = start + value_size(kind, document, start)
        if stop > end:
            raise UnkeyableId.of(f"the field at byte {at} runs past the document's end", document)
        yield Element(kind, document[at + 1 : name_end], document[start:stop])
        at = stop


def document_of(fields: Iterable[Element]) -> bytes:
    """The raw BSON document of these fields: the other way round."""
    body = b"".join([bytes((kind,)) + name + b"\0" + payload for kind, name, payload in fields])
    return _INT32.pack(len(body) + 5) + body + b"\0"


def text_id(document: bytes) -> str | None:
    """The `_id` of a raw document that is a string, with a replacement for what is no UTF-8; None for any other.

    It does not fail on an `_id` that decoders refuse and MongoDB stores, such as old binary data (subtype 2) without
    the length within.
    """
    ids = (field for field in elements(document) if field.name == b"_id")
    found = next(ids, None)
    if found is None or found.kind != STRING:
        return None
    return string_bytes(found.payload).decode(errors="replace")


def string_bytes(data: bytes, at: int = 0) -> bytes:
    """The text of a length-prefixed BSON string, without its final NUL; it may hold NULs of its own."""
    if len(data) < at + 5:
        raise UnkeyableId.of(f"no string fits at byte {at}", data)
    stop = at + 4 + int(_INT32.unpack_from(data, at)[0])
    if not at + 5 <= stop <= len(data) or data[stop - 1]:
        raise UnkeyableId.of(
            f"the length of the string at byte {at} does not fit, or it has no final NUL", data
        )
    return data[at + 4 : stop - 1]


def _counted_size(kind: int, data: bytes, at: int) -> int:
    extra = COUNTED_EXTRAS.get(kind)
    if extra is None:
        raise UnkeyableId.of(f"no BSON type 0x{kind:02x} (at byte {at})", data)
    if at + 4 > len(data):
        raise UnkeyableId.of(f"a value of type 0x{kind:02x} at byte {at} is cut in its length", data)
    length = int(_INT32.unpack_from(data, at)[0])
    if length < SMALLEST_LENGTHS[kind]:
        raise UnkeyableId.of(f"length {length} for a value of type 0x{kind:02x} at byte {at}", data)
    return length + extra


def _regex_size(data: bytes, at: int) -> int:
    pattern_end = data.find(b"\0", at)
    flags_end = data.find(b"\0", pattern_end + 1) if pattern_end >= 0 else -1
    if flags_end < 0:
        raise UnkeyableId.of(f"the regular expression at byte {at} does not end", data)
    return flags_end + 1 - at

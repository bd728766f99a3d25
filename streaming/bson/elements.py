"""Where the values of a raw BSON document lie: tags, sizes, and a plain walk over the elements.

The plain walk checks every length against the buffer, so damaged bytes end in ``MalformedBson``, never in a
value made of somebody else's bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from struct import Struct as Packed

DOUBLE, STRING, DOCUMENT, ARRAY, BINARY, UNDEFINED, OBJECT_ID, BOOL, DATE, NULL = range(1, 11)
REGEX, DB_POINTER, CODE, SYMBOL, SCOPED_CODE, INT32, TIMESTAMP, INT64, DECIMAL = range(11, 20)
MIN_KEY, MAX_KEY = 0xFF, 0x7F

FIXED_SIZES = {
    DOUBLE: 8,
    UNDEFINED: 0,
    OBJECT_ID: 12,
    BOOL: 1,
    DATE: 8,
    NULL: 0,
    INT32: 4,
    TIMESTAMP: 8,
    INT64: 8,
    DECIMAL: 16,
    MIN_KEY: 0,
    MAX_KEY: 0,
}
"""BSON tag -> size of the value in bytes, for the types that have one."""

COUNTED_EXTRAS = {
    STRING: 4,
    DOCUMENT: 0,
    ARRAY: 0,
    BINARY: 5,
    DB_POINTER: 16,
    CODE: 4,
    SYMBOL: 4,
    SCOPED_CODE: 0,
}
"""BSON tag -> what to add to the length at the start of the value, to get its size in bytes."""

SMALLEST_LENGTHS = {
    STRING: 1,
    DOCUMENT: 5,
    ARRAY: 5,
    BINARY: 0,
    DB_POINTER: 1,
    CODE: 1,
    SYMBOL: 1,
    SCOPED_CODE: 14,
}
"""BSON tag -> the least length that such a value can state."""

_LENGTH = Packed("<i")

Element = tuple[int, bytes, int, int]
"""BSON tag, field name (UTF-8, without its NUL), and where the value starts and ends in the buffer."""


class MalformedBson(ValueError):
    """The bytes are no BSON: damaged on the way, or not documents at all. Reading them again is the only
    cure.
    """


def length_at(raw: bytes, at: int) -> int:
    """The little-endian int32 at ``at``."""
    if not 0 <= at <= len(raw) - 4:
        raise MalformedBson(f"a length at byte {at} lies outside of {len(raw)} bytes")
    return int(_LENGTH.unpack_from(raw, at)[0])


def value_end(tag: int, raw: bytes, at: int) -> int:
    """Where the value of BSON type ``tag`` that starts at byte ``at`` of ``raw`` ends. Raises MalformedBson for an
    unknown type, a length that the type cannot have, and an end past the buffer."""
    if (extra := COUNTED_EXTRAS.get(tag)) is not None:
        length = length_at(raw, at)
        size = length + extra if length >= SMALLEST_LENGTHS[tag] else -1
    elif (fixed := FIXED_SIZES.get(tag)) is not None:
        size = fixed
    elif tag == REGEX:
        size = raw.find(b"\0", raw.find(b"\0", at) + 1) + 1 - at
    else:
        raise MalformedBson(f"there is no BSON type 0x{tag:02x} (value at byte {at})")
    if size < 0 or at + size > len(raw):
        raise MalformedBson(f"a value of type 0x{tag:02x} at byte {at} has no valid length")
    return at + size


def document_end(raw: bytes, at: int) -> int:
    """Where the document that starts at ``at`` ends."""
    length = length_at(raw, at)
    end = at + length
    if length < 5 or end > len(raw) or raw[end - 1]:
        raise MalformedBson(f"the document at byte {at} says {length} bytes; {len(raw) - at} are there")
    return end


def elements(raw: bytes, at: int) -> Iterator[Element]:
    """The fields of the document that starts at ``at``, in their order."""
    last = document_end(raw, at) - 1
    at += 4
    size_of, find = FIXED_SIZES.get, raw.find
    while at < last:
        name_end = find(0, at + 1, last)
        if name_end < 0:
            raise MalformedBson(f"the field name at byte {at + 1} has no end")
        tag, start = raw[at], name_end + 1
        size = size_of(tag)  # half of all values: they are spared the call
        end = value_end(tag, raw, start) if size is None else start + size
        if end > last:
            raise MalformedBson(f"the field at byte {at} runs past the end of its document, byte {last}")
        yield tag, raw[at + 1 : name_end], start, end
        at = end
    if at != last:
        raise MalformedBson(f"the fields of a document end at byte {at}, the document at byte {last}")


def check(raw: bytes, at: int = 0) -> None:
    """Walk the document that starts at byte ``at``, with all that lies in it. Raises MalformedBson where bytes are
    damaged."""
    for tag, _, start, _ in elements(raw, at):
        if tag in (DOCUMENT, ARRAY):
            check(raw, start)
        elif tag == SCOPED_CODE:
            check(raw, start + 8 + length_at(raw, start + 4))


def starts_of(raw: bytes) -> list[int]:
    """Where each of the concatenated documents starts."""
    starts: list[int] = []
    at, size, unpack = 0, len(raw), _LENGTH.unpack_from
    while at + 4 < size:
        starts.append(at)
        length = unpack(raw, at)[0]
        if length < 5:
            raise MalformedBson(f"the document at byte {at} says it has {length} bytes")
        at += length
    if at != size:
        raise MalformedBson(f"the last document ends at byte {at} of {size}")
    return starts


def documents_of(raw: bytes) -> list[bytes]:
    """The concatenated documents, each for itself."""
    return [raw[at:end] for at, end in pairwise([*starts_of(raw), len(raw)])]

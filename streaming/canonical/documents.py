"""The content of a document as canonical bytes: what ``verify`` compares.

Two documents have equal bytes exactly when MongoDB's own content is equal up to the order of fields and the
type of numbers. A missing field differs from a null one, 5 equals 5.0 and NumberDecimal("5.00"), 0 differs
from -0.0, an ObjectId from the string of its digits, an int64 from its nearest double.

This side reads raw BSON with a walker of its own, and shares no code with the decoder of any layout: a field that a
decoder drops or cuts is still here. The table's side is a layout's own (`streaming.layout.Layout.documents`), which
knows rows, plans and ``_rescued_data`` only.

The form is prefix-free, so that no two contents can read the same::

    value  := "n" NUMBER ";" | "s" STRING | "{" ("," name NUL value)* "}" | "[" value* "]"
            | "0" (null) | "t" | "f" | "o" ObjectId | "d" milliseconds, 8 bytes | "b" subtype, length, bytes
            | "r" STRING STRING (regex) | "c" STRING (code) | "w" STRING value (code, scope) | "y" STRING
            (symbol) | "p" STRING ObjectId (DBPointer) | "T" timestamp | "u" (undefined) | "<" (MinKey) |
            ">" (MaxKey)
    NUMBER := hexadecimal numerator, "/" denominator where it is not 1, in lowest terms; "-0", "NaN", "inf",
    "-inf" STRING := length and final NUL counted, 4 bytes; bytes, whether or not they are UTF-8

Fields are sorted by the bytes of their names; of a name that occurs twice the order is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from math import copysign, gcd
from struct import Struct as Packed

_INT32 = Packed("<i").unpack_from
_INT64 = Packed("<q").unpack_from
_DOUBLE = Packed("<d").unpack_from
_LENGTH = Packed("<i").pack

_COEFFICIENT_MAX = 10**34 - 1
_OBJECT_ID_BYTES = 12
HASH_BYTES = 16


def content_hash(canonical: bytes) -> bytes:
    """128 bits of BLAKE2b."""
    return blake2b(canonical, digest_size=HASH_BYTES).digest()


def canonical_document(raw: bytes, at: int = 0) -> bytes:
    """The canonical bytes of the BSON document that starts at byte ``at`` of ``raw``.

    The bytes must be sound: nothing is checked, as in all of this module.
    """
    fields: list[bytes] = []
    names: set[bytes] = set()
    position = at + 4
    while tag := raw[position]:
        start = raw.index(0, position + 1) + 1
        name = raw[position + 1 : start]
        value, position = _VALUES[tag](raw, start)
        fields.append(b"," + name + value)
        names.add(name)
    return document_form(fields, unique=len(names) == len(fields))


def document_form(fields: list[bytes], *, unique: bool) -> bytes:
    """A document of these fields, each ``"," name NUL value``; they are sorted in place. ``unique``: no name comes
    twice."""
    if unique:
        fields.sort()
    else:  # by the name alone: sorting is stable, so fields of one name keep their order
        fields.sort(key=lambda field: field[: field.index(0)])
    return b"{" + b"".join(fields) + b"}"


def canonical_value(tag: int, raw: bytes, at: int) -> bytes:
    """The canonical bytes of the value of BSON type ``tag`` at byte ``at`` of ``raw``, which must be sound."""
    return _VALUES[tag](raw, at)[0]


def canonical_integer(value: int) -> bytes:
    return b"n%x;" % value if value >= 0 else b"n-%x;" % -value


def canonical_double(value: float) -> bytes:
    """The exact value, in lowest terms."""
    if value.is_integer():
        if value == 0 and copysign(1, value) < 0:
            return b"n-0;"
        return canonical_integer(int(value))
    if value != value:
        return b"nNaN;"
    if value in (float("inf"), float("-inf")):
        return b"ninf;" if value > 0 else b"n-inf;"
    above, below = value.as_integer_ratio()
    return b"n%s%x/%x;" % (b"-" if above < 0 else b"", abs(above), below)


def canonical_ratio(above: int, below: int) -> bytes:
    """``above / below``, for a positive ``below``."""
    common = gcd(above, below)
    if common == below:
        return canonical_integer(above // below)
    return b"n%s%x/%x;" % (b"-" if above < 0 else b"", abs(above) // common, below // common)


def canonical_scaled(coefficient: int, exponent: int, negative: bool) -> bytes:
    """A decimal, ``±coefficient * 10**exponent``. The coefficient has no sign: ``negative`` gives it, also to a
    zero."""
    if coefficient == 0:
        return b"n-0;" if negative else b"n0;"
    if negative:
        coefficient = -coefficient
    if exponent >= 0:
        return canonical_integer(coefficient * 10**exponent)
    return canonical_ratio(coefficient, 10**-exponent)


def string_form(data: bytes) -> bytes:
    return _LENGTH(len(data) + 1) + data


def binary_form(subtype: int, data: bytes) -> bytes:
    return b"b" + bytes((subtype,)) + _LENGTH(len(data)) + data


def object_id_form(digits: str) -> bytes | None:
    """An ObjectId by its digits: 24 hexadecimal ones, lower-case, as the decoder writes them. None for
    others.
    """
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        return None
    return b"o" + data if len(data) == _OBJECT_ID_BYTES and data.hex() == digits else None


def _string(raw: bytes, at: int) -> tuple[bytes, int]:
    end = at + 4 + _INT32(raw, at)[0]
    return b"s" + raw[at : end - 1], end


def _document(raw: bytes, at: int) -> tuple[bytes, int]:
    return canonical_document(raw, at), at + _INT32(raw, at)[0]


def _array(raw: bytes, at: int) -> tuple[bytes, int]:
    values: list[bytes] = [b"["]
    position = at + 4
    while tag := raw[position]:
        value, position = _VALUES[tag](raw, raw.index(0, position + 1) + 1)
        values.append(value)
    values.append(b"]")
    return b"".join(values), position + 1


def _binary(raw: bytes, at: int) -> tuple[bytes, int]:
    end = at + 5 + _INT32(raw, at)[0]
    subtype, data = raw[at + 4], raw[at + 5 : end]
    if subtype == 2 and len(data) >= 4 and _INT32(data)[0] == len(data) - 4:
        data = data[4:]  # the old form counts its bytes twice
    return binary_form(subtype, data), end


def _double(raw: bytes, at: int) -> tuple[bytes, int]:
    return canonical_double(_DOUBLE(raw, at)[0]), at + 8


def _decimal(raw: bytes, at: int) -> tuple[bytes, int]:
    return _decimal_form(raw[at : at + 16]), at + 16


@lru_cache(maxsize=1 << 16)
def _decimal_form(data: bytes) -> bytes:
    """IEEE 754 decimal128 in its binary (BID) encoding."""
    low, high = int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little")
    negative = bool(high >> 63)
    if high >> 58 & 0x1F == 0x1F:
        return b"nNaN;"
    if high >> 58 & 0x1F == 0x1E:
        return b"n-inf;" if negative else b"ninf;"
    if high >> 61 & 3 == 3:
        return canonical_scaled(0, 0, negative)  # a coefficient too large to be valid counts as zero
    coefficient = (high & (1 << 49) - 1) << 64 | low
    if coefficient > _COEFFICIENT_MAX:
        coefficient = 0
    return canonical_scaled(coefficient, (high >> 49 & 0x3FFF) - 6176, negative)


def _regex(raw: bytes, at: int) -> tuple[bytes, int]:
    middle = raw.index(0, at)
    end = raw.index(0, middle + 1)
    return b"r" + string_form(raw[at:middle]) + string_form(raw[middle + 1 : end]), end + 1


def _db_pointer(raw: bytes, at: int) -> tuple[bytes, int]:
    end = at + 4 + _INT32(raw, at)[0]
    return b"p" + raw[at : end - 1] + raw[end : end + 12], end + 12


def _scoped_code(raw: bytes, at: int) -> tuple[bytes, int]:
    middle = at + 8 + _INT32(raw, at + 4)[0]
    return b"w" + raw[at + 4 : middle - 1] + canonical_document(raw, middle), at + _INT32(raw, at)[0]


def _tagged_string(letter: bytes) -> Callable[[bytes, int], tuple[bytes, int]]:
    def form(raw: bytes, at: int) -> tuple[bytes, int]:
        end = at + 4 + _INT32(raw, at)[0]
        return letter + raw[at : end - 1], end

    return form


def _copied(letter: bytes, size: int) -> Callable[[bytes, int], tuple[bytes, int]]:
    def form(raw: bytes, at: int) -> tuple[bytes, int]:
        return letter + raw[at : at + size], at + size

    return form


_VALUES: dict[int, Callable[[bytes, int], tuple[bytes, int]]] = {
    0x01: _double,
    0x02: _string,
    0x03: _document,
    0x04: _array,
    0x05: _binary,
    0x06: _copied(b"u", 0),
    0x07: _copied(b"o", 12),
    0x08: lambda raw, at: (b"t" if raw[at] else b"f", at + 1),
    0x09: _copied(b"d", 8),
    0x0A: _copied(b"0", 0),
    0x0B: _regex,
    0x0C: _db_pointer,
    0x0D: _tagged_string(b"c"),
    0x0E: _tagged_string(b"y"),
    0x0F: _scoped_code,
    0x10: lambda raw, at: (canonical_integer(_INT32(raw, at)[0]), at + 4),
    0x11: _copied(b"T", 8),
    0x12: lambda raw, at: (canonical_integer(_INT64(raw, at)[0]), at + 8),
    0x13: _decimal,
    0x7F: _copied(b">", 0),
    0xFF: _copied(b"<", 0),
}

"""Hypothesis strategies for raw BSON documents: all types, many misfits, few field names, so that plans
meet them; and plans with documents that mostly fit them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from hypothesis import strategies as st

from streaming.layouts.columns.decimals import DECIMALS
from streaming.layouts.columns.plan import Array, Column, ColumnType, Scalar, Struct, TablePlan

Value = tuple[int, bytes]
"""BSON tag and the value's bytes."""

NAMES = ("a", "b", "c", "longer_name", "d", "A", "ü", "x.y", "$oid", "$date", "", "with space", "/~", "_key")
_RAW_NAMES = [name.encode() for name in NAMES]
_ODD_NAMES = [b"\xff\xfe", b"a"]
_TEXTS = ("", "x", "text", "nul\0inside", "Köln", "\U0001f600", "64b000000000000000000000", "a" * 40)
_DATE_EDGES = (0, -1, 1_700_000_000_123, -62_135_596_800_000, -62_135_596_800_001, 253_402_300_799_999)
_DATES = (*_DATE_EDGES, 253_402_300_800_000, 2**63 - 1, -(2**63))
_DOUBLES = (0.0, -0.0, 5.0, 5.5, 0.1, 2.0**53, 2.0**63, 1e300, 5e-324, math.nan, math.inf, -math.inf)
_LONGS = (0, 5, -5, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63))


def document(fields: Sequence[tuple[bytes, Value]]) -> bytes:
    """A BSON document of these fields, in this order, as they are."""
    body = b"".join([bytes((tag,)) + name + b"\0" + payload for name, (tag, payload) in fields])
    return struct.pack("<i", len(body) + 5) + body + b"\0"


def array(items: Sequence[Value]) -> bytes:
    return document([(str(index).encode(), item) for index, item in enumerate(items)])


def text(data: bytes) -> bytes:
    return struct.pack("<i", len(data) + 1) + data + b"\0"


def decimal(coefficient: int, exponent: int, negative: bool = False) -> bytes:
    """Decimal128 in its binary encoding, cohort and all."""
    high = int(negative) << 63 | (exponent + 6176) << 49 | coefficient >> 64
    return struct.pack("<QQ", coefficient & (1 << 64) - 1, high)


def _tagged(tag: int, payloads: st.SearchStrategy[bytes]) -> st.SearchStrategy[Value]:
    return payloads.map(lambda payload: (tag, payload))


_decimals = st.one_of(
    st.builds(
        decimal,
        st.one_of(
            st.integers(0, 10**6),
            st.integers(0, 10**34 - 1),
            st.sampled_from((2**64 - 1, 2**64, 10**20, 10**34, 2**113 - 1)),
        ),
        st.one_of(st.integers(-20, 4), st.integers(-6176, 6111)),
        st.booleans(),
    ),
    st.sampled_from([struct.pack("<QQ", 0, word << 56) for word in (0x7C, 0x7E, 0x78, 0xF8, 0x6C)]),
)
_strings = st.one_of(st.sampled_from(_TEXTS), st.text(max_size=6)).map(lambda value: text(value.encode()))
_invalid = st.sampled_from([text(b"\xff"), text(b"ok\xc3"), text(b"\xed\xa0\x80")])
_doubles = st.one_of(st.sampled_from(_DOUBLES), st.floats()).map(lambda value: struct.pack("<d", value))
_longs = st.one_of(st.sampled_from(_LONGS), st.integers(-(2**63), 2**63 - 1))
_binary = st.builds(
    lambda subtype, data: struct.pack("<iB", len(data), subtype) + data,
    st.sampled_from((0, 0, 0, 2, 4, 128)),
    st.binary(max_size=5),
)
_old_binary = st.binary(max_size=4).map(lambda d: struct.pack("<iBi", len(d) + 4, 2, len(d)) + d)

common = st.one_of(
    _tagged(0x10, st.integers(-5, 5).map(lambda n: struct.pack("<i", n))),
    _tagged(0x12, _longs.map(lambda n: struct.pack("<q", n))),
    _tagged(0x01, _doubles),
    _tagged(0x13, _decimals),
    _tagged(0x02, _strings),
    _tagged(0x08, st.sampled_from((b"\0", b"\1"))),
    _tagged(0x09, st.sampled_from(_DATES).map(lambda n: struct.pack("<q", n))),
    _tagged(0x07, st.binary(min_size=12, max_size=12)),
    _tagged(0x05, _binary),
    st.just((0x0A, b"")),
)
rare = st.one_of(
    _tagged(0x02, _invalid),
    _tagged(0x05, _old_binary),
    st.sampled_from([(0x06, b""), (0xFF, b""), (0x7F, b"")]),
    st.sampled_from([(0x0B, b"^a\0i\0"), (0x0B, b"\xff\0\0")]),
    _tagged(0x0C, st.just(text(b"db.c") + bytes(range(12)))),
    _tagged(0x0D, st.sampled_from([text(b"f()"), text(b"\xff")])),
    _tagged(0x0E, st.just(text(b"sym"))),
    _tagged(0x11, st.just(struct.pack("<II", 7, 2**31))),
    st.just((0x0F, struct.pack("<i", 18) + text(b"f") + document([(b"a", (0x0A, b""))]))),
)


@st.composite
def values(draw: st.DrawFn, depth: int = 0) -> Value:
    """Any value; documents and arrays at most three deep."""
    choice = draw(st.integers(0, 15))
    if depth < 3 and choice >= 14:
        return 0x03, document(draw(fields(depth + 1)))
    if depth < 3 and choice >= 12:
        return 0x04, array([draw(values(depth + 1)) for _ in range(draw(st.integers(0, 3)))])
    return draw(rare if choice == 11 else common)


@st.composite
def fields(draw: st.DrawFn, depth: int = 0) -> list[tuple[bytes, Value]]:
    """Fields with names from a small pool; seldom one name twice, or one that is no UTF-8."""
    found: list[tuple[bytes, Value]] = []
    odd = draw(st.integers(0, 40)) == 40
    pool = _ODD_NAMES if odd else _RAW_NAMES[:5] if draw(st.booleans()) else _RAW_NAMES
    for _ in range(draw(st.integers(0, 4))):
        name = draw(st.sampled_from(pool))
        if odd or name not in dict(found):
            found.append((name, draw(values(depth))))
    return found


ids = st.one_of(
    _tagged(0x07, st.binary(min_size=12, max_size=12)),
    _tagged(0x10, st.integers(-(2**31), 2**31 - 1).map(lambda n: struct.pack("<i", n))),
    _tagged(0x02, _strings),
    _tagged(0x03, st.lists(st.tuples(st.just(b"k"), common), max_size=1).map(document)),
)


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """A document with an ``_id``, mostly its first field."""
    rest = draw(fields())
    place = draw(st.sampled_from((0, 0, 0, len(rest))))
    return document([*rest[:place], (b"_id", draw(ids)), *rest[place:]])


_PLAN_NAMES = ("a", "b", "c", "longer_name", "ü")
_NUMERIC = ("long", "double", *DECIMALS)
_NUMBERS = st.one_of(
    _tagged(0x10, st.sampled_from((0, 1, -5, 2**31 - 1, -(2**31))).map(lambda n: struct.pack("<i", n))),
    _tagged(0x12, _longs.map(lambda n: struct.pack("<q", n))),
    _tagged(0x01, _doubles),
    _tagged(0x13, _decimals),
    st.just((0x13, decimal(0, 0, negative=True))),
)
_OF_KIND = {
    **dict.fromkeys(_NUMERIC, _NUMBERS),
    "string": st.one_of(_tagged(0x02, _strings), _tagged(0x02, _strings), _tagged(0x02, _invalid)),
    "bool": _tagged(0x08, st.sampled_from((b"\0", b"\1"))),
    "date": _tagged(0x09, st.sampled_from(_DATES).map(lambda n: struct.pack("<q", n))),
    "objectId": _tagged(0x07, st.binary(min_size=12, max_size=12)),
    "binary": _tagged(0x05, _binary),
}


@st.composite
def column_types(draw: st.DrawFn, depth: int = 0) -> ColumnType:
    """Any type of a column; structs and arrays at most three deep."""
    choice = draw(st.integers(0, 9))
    if depth < 3 and choice >= 8:
        return Struct(draw(columns(depth + 1)))
    if depth < 3 and choice >= 6:
        return Array(draw(column_types(depth + 1)))
    return Scalar(draw(st.sampled_from(sorted(_OF_KIND))))


@st.composite
def columns(draw: st.DrawFn, depth: int = 0) -> tuple[Column, ...]:
    """One to three columns, or fields of a struct."""
    names = draw(st.lists(st.sampled_from(_PLAN_NAMES), min_size=1, max_size=3, unique=True))
    return tuple(Column(name, draw(column_types(depth))) for name in names)


@st.composite
def value_for(draw: st.DrawFn, type_: ColumnType) -> Value:
    """Mostly a value that a column of this type takes or nearly takes; now and then null, or anything."""
    choice = draw(st.integers(0, 11))
    if choice == 11:
        return draw(values(depth=1))
    if choice == 10:
        return 0x0A, b""
    if isinstance(type_, Scalar):
        return draw(_OF_KIND[type_.kind])
    if isinstance(type_, Struct):
        return 0x03, document(draw(fields_for(type_.fields)))
    items = [draw(value_for(type_.element)) for _ in range(draw(st.integers(0, 4)))]
    if draw(st.integers(0, 9)) == 9:  # names of elements do not count
        return 0x04, document([(draw(st.sampled_from((b"", b"0", b"xyz"))), item) for item in items])
    return 0x04, array(items)


@st.composite
def fields_for(draw: st.DrawFn, wanted: Sequence[Column]) -> list[tuple[bytes, Value]]:
    """These fields, mostly all and in order; some missing, unknown, or twice."""
    found = [(c.name.encode(), draw(value_for(c.type))) for c in wanted if draw(st.integers(0, 7)) < 7]
    habit = draw(st.integers(0, 19))
    if habit >= 15:
        place = draw(st.integers(0, len(found)))
        found.insert(place, (draw(st.sampled_from(_RAW_NAMES)), draw(values(depth=2))))
    if habit >= 18 and found:
        found.append((draw(st.sampled_from(found))[0], draw(values(depth=2))))
    return found if habit != 14 else found[::-1]


@st.composite
def batches(draw: st.DrawFn) -> tuple[TablePlan, list[bytes]]:
    """A plan, and documents that mostly fit it; seldom with a column for ``_id``."""
    identity = draw(st.sampled_from(("", "", "string", "long", "objectId")))
    first = (Column("_id", Scalar(identity)),) if identity else ()
    plan = TablePlan((*first, *draw(columns())))
    wanted = fields_for(plan.columns[len(first) :])
    return plan, [document([(b"_id", draw(ids)), *draw(wanted)]) for _ in range(draw(st.integers(1, 10)))]

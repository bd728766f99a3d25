"""Every kind of column meets every value at the edge of what it takes: none is lost, rounded or cut.

The same value often enough for the lock-step path, and beside others, so that both ways of loading it are
taken. What the column takes is said here by exact arithmetic, and not by the decoder.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction

import pytest
from bson.decimal128 import Decimal128

from streaming.canonical.documents import canonical_document
from streaming.layouts.columns.canonical_rows import canonical_rows
from streaming.layouts.columns.decimals import DECIMALS
from streaming.layouts.columns.decoder import Decoder
from streaming.layouts.columns.plan import LEAVES_MAX, SPARK_TYPES, Array, Column, Scalar, Struct, TablePlan
from tests.support.bson_documents import Value, array, decimal, document, text

ID = (b"_id", (0x10, b"\1\0\0\0"))
MAX_DOUBLE = 2**1024 - 2**971
MANY = 20
"""More than are walked one by one."""

INTEGERS = [
    *(0, 1, -1, 2**31 - 1, -(2**31), 2**31, 10**15, 2**46, -(2**46), 10**18, -(10**18)),
    *(sign * (2**power + step) for sign in (1, -1) for power in (53, 54, 62) for step in (-1, 0, 1)),
    *(2**63 - 1, 2**63 - 1024, -(2**63), -(2**63) + 1),
]
DOUBLES = [
    *(0.0, -0.0, 0.1, -0.5, 1.0, 5e-324, 1e-18, 2.0**-18, 2.0**-19, 1e19, 1e20, 1e22, 1e300),
    *(
        2.0**53,
        2.0**53 + 2,
        2.0**63,
        -(2.0**63),
        math.nextafter(2.0**63, 0),
        math.nextafter(-(2.0**63), -1e19),
    ),
    *(math.inf, -math.inf, math.nan, 2.0**64, math.nextafter(1e20, 0)),
]
COEFFICIENTS = [
    0,
    1,
    5,
    15,
    2**46,
    2**53 + 1,
    10**19,
    10**20 - 1,
    10**20,
    2**63,
    2**64 - 1,
    2**64,
    10**34 - 1,
]
EXPONENTS = [-6176, -34, -20, -19, -18, -17, -14, -9, -5, -4, -2, -1, 0, 1, 2, 18, 19, 6111]


def int32(number: int) -> Value:
    return 0x10, struct.pack("<i", number)


def numbers() -> list[Value]:
    found = [int32(number) for number in INTEGERS if -(2**31) <= number < 2**31]
    found += [(0x12, struct.pack("<q", number)) for number in INTEGERS]
    found += [(0x01, struct.pack("<d", number)) for number in DOUBLES]
    found += [
        (0x13, decimal(coefficient, exponent, negative))
        for coefficient in COEFFICIENTS
        for exponent in EXPONENTS
        for negative in (False, True)
    ]
    found += [(0x13, decimal(10**34, 0)), (0x13, decimal(2**113 - 1, -2))]  # too large to be valid: zero
    return found + [
        (0x13, struct.pack("<QQ", 7, word << 56)) for word in (0x7C, 0xFC, 0x7E, 0x78, 0xF8, 0x6C)
    ]


NUMBERS = numbers()
OTHERS: list[Value] = [
    *((0x02, text(data)) for data in (b"", b"x", b"a\0b", b"\0", "ü\U0001f600".encode(), b"24" * 12, b"5")),
    *((0x02, text(data)) for data in (b"\xff", b"ok\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80")),
    *((0x08, data) for data in (b"\0", b"\1")),
    *((0x09, struct.pack("<q", ms)) for ms in (0, -1, -62_135_596_800_000, -62_135_596_800_001)),
    *((0x09, struct.pack("<q", ms)) for ms in (253_402_300_799_999, 253_402_300_800_000)),
    *((0x09, struct.pack("<q", ms)) for ms in (2**63 - 1, -(2**63), 2**63 // 1000, -(2**63) // 1000)),
    (0x07, bytes(12)),
    (0x07, b"\xff" * 12),
    *((0x05, struct.pack("<iB", 2, subtype) + b"\0a") for subtype in (0, 1, 2, 3, 4, 128)),
    (0x05, struct.pack("<iB", 0, 0)),
    (0x05, struct.pack("<iBi", 6, 2, 2) + b"ab"),
    (0x05, struct.pack("<iBi", 6, 2, 1) + b"ab"),
    *((tag, b"") for tag in (0x06, 0x0A, 0x7F, 0xFF)),
    (0x03, document([])),
    (0x04, array([])),
    (0x0D, text(b"f()")),
    (0x0E, text(b"sym")),
    (0x11, struct.pack("<II", 1, 2**32 - 1)),
]


def exact(value: Value) -> Fraction | None:
    """The exact number; None for -0.0, and for what is not finite."""
    tag, payload = value
    if tag in (0x10, 0x12):
        return Fraction(int.from_bytes(payload, "little", signed=True))
    if tag == 0x01:
        (double,) = struct.unpack("<d", payload)
        if not math.isfinite(double):
            return None
        number = Decimal(double)
    else:
        number = Decimal128.from_bid(payload).to_decimal()
    if not number.is_finite() or (number.is_zero() and number.is_signed()):
        return None
    return Fraction(number)


def takes_number(kind: str, value: Value) -> bool:
    number = exact(value)
    if kind == "double" and value[0] == 0x01:
        return True
    if number is None:
        return False
    if kind == "long":
        return number.denominator == 1 and -(2**63) <= number < 2**63
    if kind in DECIMALS:
        scale = DECIMALS[kind]
        return (number * 10**scale).denominator == 1 and abs(number) < 10 ** (38 - scale)
    return kind == "double" and abs(number) <= MAX_DOUBLE and Fraction(float(number)) == number


def takes(kind: str, value: Value) -> bool:
    tag, payload = value
    if value in NUMBERS:
        return takes_number(kind, value)
    if tag == 0x02 and kind == "string":
        return payload[4:-1].decode(errors="replace").encode() == payload[4:-1]
    if tag == 0x05 and kind == "binary":
        return payload[4] == 0
    if tag == 0x09 and kind == "date":
        return -62_135_596_800_000 <= struct.unpack("<q", payload)[0] <= 253_402_300_799_999
    return (kind, tag) in (("bool", 0x08), ("objectId", 0x07))


def batches() -> list[list[Value]]:
    """All values in one batch, and of each type a batch of its own."""
    everything = NUMBERS + OTHERS
    groups = [[value for value in everything if value[0] == tag] for tag, _ in everything]
    unique = [group for index, group in enumerate(groups) if group not in groups[:index]]
    return [everything, *(group * (MANY // len(group) + 1) for group in unique)]


BATCHES = batches()


@pytest.mark.parametrize("kind", SPARK_TYPES)
def test_a_column_takes_exactly_what_it_holds_exactly(kind: str) -> None:
    """What fits is in the column and nowhere else, and everything else is rescued whole."""
    plan = TablePlan((Column("a", Scalar(kind)),))
    for values in BATCHES:
        raws = [document([ID, (b"a", value)]) for value in values]
        batch = Decoder(plan).decode(b"".join(raws)).batch
        assert canonical_rows(plan, batch) == [canonical_document(raw) for raw in raws]
        taken = batch.column("a").is_valid().to_pylist()
        assert taken == [takes(kind, value) for value in values]
        rescued = ['"/a":' in text for text in batch.column("_rescued_data").to_pylist()]
        assert rescued == [not there for there in taken]


@pytest.mark.parametrize("kind", SPARK_TYPES)
def test_the_same_inside_documents_and_arrays(kind: str) -> None:
    """Elements that misfit keep their index, and a null element stays between its neighbours."""
    inner = Struct((Column("a", Scalar(kind)), Column("l", Array(Scalar(kind)))))
    plan = TablePlan((Column("d", inner), Column("l", Array(inner))))
    for values in BATCHES:
        raws = []
        for index, value in enumerate(values):
            both = [value, values[index - 1], (0x0A, b"")]
            inside = document([(b"a", value), (b"l", (0x04, array(both)))])
            raws.append(
                document([ID, (b"d", (0x03, inside)), (b"l", (0x04, array([both[1], (0x03, inside)])))])
            )
        batch = Decoder(plan).decode(b"".join(raws)).batch
        assert canonical_rows(plan, batch) == [canonical_document(raw) for raw in raws]


@pytest.mark.parametrize("count", [1, MANY])
def test_a_field_that_no_column_takes_gives_none(count: int) -> None:
    """A plan does not grow by binary data of another subtype, though it does by subtype 0."""
    other, plain = (0x05, struct.pack("<iB", 1, 4) + b"x"), (0x05, struct.pack("<iB", 1, 0) + b"x")
    raw = document([ID, (b"other", other), (b"plain", plain), (b"nothing", (0x0A, b""))])
    unknown = Decoder(TablePlan()).decode(raw * count).unknown
    assert set(unknown.columns) == {Column("_id", Scalar("long")), Column("plain", Scalar("binary"))}


@pytest.mark.parametrize("count", [1, MANY])
def test_what_a_table_refuses_takes_no_room(count: int) -> None:
    """A plan that is without five hundred fields still grows by a new one behind them, also inside a document."""
    value = (0x10, b"\1\0\0\0")
    refused = [f"r{number}" for number in range(LEAVES_MAX)]
    inside = document([(name.encode(), value) for name in [*refused, "new"]])
    raw = document([ID, *((name.encode(), value) for name in [*refused, "new"]), (b"in", (0x03, inside))])
    long = Scalar("long")
    paths = [*((name,) for name in refused), *(("in", name) for name in refused)]
    plan = TablePlan((Column("_id", long),)).refuse(paths)
    grown = plan.merge(Decoder(plan).decode(raw * count).unknown)
    assert grown.columns[1:] == (Column("new", long), Column("in", Struct((Column("new", long),))))

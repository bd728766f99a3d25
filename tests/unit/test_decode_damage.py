"""Damaged bytes, kind by kind: never a row, whichever walk meets them; and names that come twice."""

from __future__ import annotations

import struct

import pytest

from streaming.bson.elements import MalformedBson
from streaming.canonical.documents import canonical_document
from streaming.layouts.columns.canonical_rows import canonical_rows
from streaming.layouts.columns.decoder import Decoder
from streaming.layouts.columns.plan import Array, Column, Scalar, Struct, TablePlan
from tests.support.bson_documents import Value, array, document, text

ID = (b"_id", (0x10, b"\1\0\0\0"))
ONE: Value = (0x10, b"\1\0\0\0")
GOOD = document([ID, (b"s", (0x02, text(b"x"))), (b"d", (0x03, document([(b"y", ONE)])))])
FIRST = document([ID, (b"s", (0x02, text(b"0123")))])
PLANS = {
    "nothing known": TablePlan(),
    "all known": TablePlan(
        (
            Column("s", Scalar("string")),
            Column("d", Struct((Column("y", Scalar("long")), Column("z", Scalar("string"))))),
            Column("l", Array(Scalar("string"))),
        )
    ),
}


def stated(length: int, data: bytes) -> bytes:
    """The value with another length at its start."""
    return struct.pack("<i", length) + data[4:]


LAST_VALUES: dict[str, Value] = {
    "a string one byte too long": (0x02, stated(3, text(b"x"))),
    "a string that reaches into the next document": (0x02, stated(30, text(b"x"))),
    "a string far too long": (0x02, stated(2**31 - 1, text(b"x"))),
    "a string of no length": (0x02, stated(0, text(b""))),
    "a string of negative length": (0x02, stated(-5, text(b""))),
    "a string of no length and without its end": (0x02, bytes(4)),
    "binary data of negative length and no subtype": (0x05, struct.pack("<i", -1)),
    "binary data that reaches into the next document": (0x05, struct.pack("<iB", 30, 0) + b"x"),
    "binary data of negative length": (0x05, struct.pack("<iB", -1, 0)),
    "an unknown type": (0x20, b""),
    "a number that is cut": (0x12, b"\1\0\0"),
    "a date that is cut by much": (0x09, b""),
    "a document one byte too long": (0x03, stated(13, document([(b"y", ONE)]))),
    "a document one byte too short": (0x03, stated(11, document([(b"y", ONE)]))),
    "a document too short for any": (0x03, stated(4, document([]))),
    "a document without its end": (0x03, document([(b"y", ONE)])[:-1] + b"\1"),
    "a document that ends early": (0x03, stated(13, document([]) + bytes(8))),
    "an array whose element is too long": (0x04, array([(0x02, stated(9, text(b"x")))])),
    "an array whose element reaches further": (0x04, array([ONE, (0x02, stated(40, text(b"x")))])),
    "an array whose element is far too long": (0x04, array([(0x02, stated(2**31 - 1, text(b"x")))])),
    "an array one byte too short": (0x04, stated(11, array([ONE]))),
    "an array that ends early": (0x04, stated(13, array([]) + bytes(8))),
    "an array of unknown things": (0x04, array([(0x20, b"")])),
    "an array with a name that does not end": (0x04, stated(8, array([]) + b"\x10ab")[:7] + b"\0"),
}
NAMES = {0x02: b"s", 0x03: b"d", 0x04: b"l"}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize("value", LAST_VALUES.values(), ids=LAST_VALUES)
def test_a_damaged_value_is_refused(value: Value, copies: int, plan: TablePlan) -> None:
    """One document walked alone, and many in lock-step: an error, not a value made of its neighbour's bytes."""
    damaged = document([ID, (NAMES.get(value[0], b"s"), value)])
    for raw in (damaged * copies, GOOD + damaged * copies + FIRST, GOOD * 19 + damaged + GOOD * 19 + FIRST):
        with pytest.raises(MalformedBson):
            Decoder(plan).decode(raw)


@pytest.mark.parametrize("copies", [1, 20])
@pytest.mark.parametrize(
    "damaged",
    [
        GOOD[:-1],
        GOOD + b"\5",
        GOOD + b"\5\0\0\0",
        stated(len(GOOD) + 1, GOOD),
        stated(len(GOOD) - 1, GOOD),
        stated(4, GOOD),
        stated(-1, GOOD),
        GOOD[:-1] + b"\1",
        stated(len(GOOD) + 3, GOOD + bytes(3)),
        stated(8, document([])[:4] + b"\x10ab\0"),
    ],
)
def test_a_damaged_document_is_refused(damaged: bytes, copies: int) -> None:
    """Cut, too long, without its end, or with an end in its middle."""
    for plan in PLANS.values():
        with pytest.raises(MalformedBson):
            Decoder(plan).decode(GOOD * 20 + damaged * copies)


TWICE = [(b"u", ONE), (b"u", (0x10, b"\2\0\0\0"))]


@pytest.mark.parametrize("plan", [TablePlan(), TablePlan((Column("u", Scalar("long")),))])
@pytest.mark.parametrize("others", [0, 3, 20])
@pytest.mark.parametrize("doubles", [1, 3, 20])
@pytest.mark.parametrize("behind", [0, 20])
@pytest.mark.parametrize("between", [[], [(b"v", ONE)]])
def test_a_name_that_comes_twice_keeps_both_values(
    between: list[tuple[bytes, Value]], behind: int, doubles: int, others: int, plan: TablePlan
) -> None:
    """Also when the first was met in lock-step, and the second when few documents were left."""
    twice = document([ID, TWICE[0], *between, TWICE[1]])
    inside = document([ID, (b"d", (0x03, document([TWICE[0], *between, TWICE[1]])))])
    nested = TablePlan((*plan.columns, *([Column("d", Struct(plan.columns))] if plan.columns else [])))
    for odd in (twice, inside):
        raws = [document([ID, TWICE[0], *between])] * others + [odd] * doubles
        raws += [document([ID, (b"d", (0x03, document([TWICE[0]])))])] * behind
        batch = Decoder(nested).decode(b"".join(raws)).batch
        assert canonical_rows(nested, batch) == [canonical_document(raw) for raw in raws]

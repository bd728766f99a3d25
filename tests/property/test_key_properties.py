"""Properties of keys over random ids, without a server: order, identity, the two modules."""

from __future__ import annotations

import struct
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import bson
import pytest
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import InvalidBSON
from bson.raw_bson import RawBSONDocument
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from streaming.keys.decoded import key_of, keys_of
from streaming.keys.keys import UnkeyableId, key_of_document
from tests.support import id_strategies as some
from tests.support import raw_bson as b

OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(
    tz_aware=True,
    uuid_representation=UuidRepresentation.STANDARD,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
)
LOSSLESSLY_DECODED = (0x01, 0x02, 0x05, 0x07, 0x08, 0x09, 0x0A, 0x0D, 0x10, 0x11, 0x12, 0x13, 0x7F, 0xFF)
INFINITY = Fraction(10) ** 7000


def key(value: b.Value) -> bytes:
    """A key as Spark compares it."""
    return key_of_document(b.id_document(value)).encode()


def exact(value: b.Value) -> Fraction:
    """A number's value; NaN below -Infinity."""
    kind, payload = value
    if kind in (0x10, 0x12):
        return Fraction(int.from_bytes(payload, "little", signed=True))
    number: float | Decimal
    if kind == 0x01:
        (number,) = struct.unpack("<d", payload)
    else:
        number = bson.Decimal128.from_bid(payload).to_decimal()
    if number != number:
        return -2 * INFINITY
    if abs(number) == float("inf"):
        return INFINITY if number > 0 else -INFINITY
    return Fraction(number)


@given(st.lists(some.numbers, min_size=2, max_size=30))
def test_numbers_of_all_types_are_on_one_exact_line(numbers: list[b.Value]) -> None:
    """Keys compare as the exact values do: int32, int64, double, decimal128, and equal ones are equal."""
    numbers.sort(key=exact)
    for low, high in pairwise(numbers):
        if exact(low) == exact(high):
            assert key(low) == key(high)
        else:
            assert key(low) < key(high)


@given(st.lists(some.text_bytes, min_size=2, max_size=20))
def test_strings_are_in_the_order_of_their_bytes(texts: list[bytes]) -> None:
    """Every code point, NULs and invalid UTF-8 included, at the top and inside documents and arrays."""
    expected = sorted(set(texts))
    for place in (
        b.string,
        lambda t: b.embedded(("a", b.string(t))),
        lambda t: b.array(b.code(t), b.int32(1)),
    ):
        assert sorted(set(texts), key=lambda text: key(place(text))) == expected
        assert len({key(place(text)) for text in texts}) == len(expected)


@given(st.lists(st.lists(some.text_bytes, max_size=3), min_size=2, max_size=12))
def test_composites_compare_element_by_element(rows: list[list[bytes]]) -> None:
    """Elements decide in their order, and the shorter comes first: ends are never ambiguous."""
    expected = sorted(rows)
    keyed = sorted(rows, key=lambda row: key(b.embedded(("a", b.array(*map(b.string, row))))))
    assert keyed == expected


@given(st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 255)), min_size=2, max_size=12))
def test_binaries_compare_by_length_subtype_and_bytes(binaries: list[tuple[bytes, int]]) -> None:
    """BinData: the shorter first, then the subtype, then the bytes."""
    expected = sorted(binaries, key=lambda item: (len(item[0]), item[1], item[0]))
    assert sorted(binaries, key=lambda item: key(b.binary(*item))) == expected


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2), st.lists(st.integers(0, 2**64 - 1), min_size=2)
)
def test_dates_are_signed_and_timestamps_are_not(dates: list[int], stamps: list[int]) -> None:
    """Dates before 1970 come first; a timestamp's high bit is not a sign."""
    assert sorted(dates, key=lambda date: key(b.date(date))) == sorted(dates)
    assert sorted(stamps, key=lambda stamp: key(b.timestamp(stamp >> 32, stamp & 2**32 - 1))) == sorted(
        stamps
    )


@given(some.values)
def test_a_composite_holds_its_parts_unambiguously(value: b.Value) -> None:
    """What follows a nested value never changes what it is: the key of a pair splits where the value ends."""
    alone = key(b.array(value))
    assert key(b.array(value, b.NULL)) == alone[:-1] + b"0!"
    assert key(b.array(value, b.MIN_KEY)).startswith(alone[:-1])


@given(some.ids)
def test_both_modules_agree(value: b.Value) -> None:
    """A decoded id has the key of its bytes, unless decoding lost something."""
    document = b.id_document(value)
    assume(value[0] in LOSSLESSLY_DECODED)
    try:
        decoded = bson.decode(document, OPTIONS)["_id"]
        assume(bson.encode({"_id": decoded}, codec_options=OPTIONS) == document or value[0] == 0x13)
    except InvalidBSON:
        assume(False)
    expected = key_of_document(document)
    assert key_of(decoded) == expected
    assert keys_of([decoded]) == [expected]
    assert keys_of([decoded, "x", decoded]) == [expected, "Sx", expected]


@given(some.embedded_ids)
def test_embedded_ids_are_keyed_from_raw_documents(value: b.Value) -> None:
    """A RawBSONDocument loses nothing: also with a field that occurs twice, or types that do not decode."""
    assert key_of(RawBSONDocument(value[1])) == key_of_document(b.id_document(value))


@given(st.lists(some.ids, max_size=20))
def test_a_batch_has_the_keys_of_its_ids(values: list[b.Value]) -> None:
    """`keys_of` is `key_of` for each, also in batches of one type."""
    decoded = []
    for value in values:
        try:
            decoded.append(bson.decode(b.id_document(value), OPTIONS)["_id"])
        except InvalidBSON:
            continue
    assert keys_of(decoded) == [key_of(value) for value in decoded]
    for kind in {type(value) for value in decoded}:
        one_type = [value for value in decoded if type(value) is kind]
        assert keys_of(one_type) == [key_of(value) for value in one_type]


@settings(max_examples=300)
@given(some.ids, st.data())
def test_damage_never_passes_for_something_else(value: b.Value, data: st.DataObject) -> None:
    """A document cut or changed is refused, or is another well-formed one: no other error leaks."""
    document = bytearray(b.id_document(value))
    place = data.draw(st.integers(0, len(document) - 1))
    document[place] = data.draw(st.integers(0, 255))
    for damaged in (bytes(document), bytes(document[:place])):
        with suppress(UnkeyableId):
            assert key_of_document(damaged)


def test_text_that_is_no_text_is_refused() -> None:
    """A lone surrogate, which only a lenient decoder lets in, is an UnkeyableId and says what to do."""
    for text in ("\ud800", "a\udfffb"):
        with pytest.raises(UnkeyableId, match="raw BSON"):
            key_of(text)

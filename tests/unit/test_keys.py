"""`streaming.keys.keys`, by examples: what keys look like, what is refused."""

from __future__ import annotations

import string

import pytest

from streaming.keys.keys import (
    DEPTH_MAX,
    TAGS,
    UnkeyableId,
    event_key,
    key_of_document,
    key_of_value,
    sharded_key,
)
from tests.support import raw_bson as b
from tests.support.ids import TWENTY_IDS

STATISTICS_CHARACTERS = 32
"""What Delta keeps of a string in a file's statistics."""

OID = bytes.fromhex("5f0000000000000000000001")


def key(value: b.Value) -> str:
    return key_of_document(b.id_document(value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b.MIN_KEY, "-"),
        (b.NULL, "0"),
        (b.int32(0), "NZ"),
        (b.int32(42), "Nb42"),
        (b.int32(-42), "NW57~"),
        (b.double(42.5), "Nb42.5"),
        (b.double(-42.5), "NW57.4~"),
        (b.double(0.5), "N_61755"),
        (b.double(0.1), "N_61751000000000000000055511151231257827+"),
        (b.decimal128(100, -3), "N_61751"),
        (b.int64(2**63 - 1), "Ns9223372036854775807"),
        (b.double(float("nan")), "NB"),
        (b.string("abc"), "Sabc"),
        (b.string(""), "S"),
        (b.object_id(OID), "iMk-------------0"),
        (b.boolean(True), "l1"),
        (b.binary(bytes(16), 4), "b0F0----------------------"),
        (b.embedded(), "V!"),
        (b.embedded(("a", b.int32(1)), ("b", b.string("x y"))), "VNa!a1!Sb!x#`y!!"),
        (b.date(0), "mV----------"),
        (b.timestamp(1, 2), "t-----F----7"),
        (b.MAX_KEY, "z"),
    ],
)
def test_keys_are_stable(value: b.Value, expected: str) -> None:
    """Keys are stored in tables: their text may never change."""
    assert key(value) == expected


def test_tags_ascend_in_the_order_of_types() -> None:
    """One tag for each of BSON's classes of comparison, all above the end mark."""
    tags = list(dict.fromkeys(TAGS.values()))
    assert tags == sorted(tags)
    assert min(tags) > "!"


@pytest.mark.parametrize(
    "cohort",
    [
        [
            b.int32(1),
            b.int64(1),
            b.double(1.0),
            b.decimal128(1),
            b.decimal128(100, -2),
            b.decimal128(10**33, -33),
        ],
        [
            b.int32(0),
            b.double(-0.0),
            b.decimal128(0, 5),
            b.decimal128_special(0x80),
            b.decimal128_special(0x60, 7),
        ],
        [
            b.double(float("nan")),
            b.double(-float("nan")),
            b.decimal128_special(0x7C),
            b.decimal128_special(0xFC, 9),
        ],
        [b.double(float("-inf")), b.decimal128_special(0xF8)],
        [b.double(1e22), b.decimal128(1, 22), b.decimal128(10**12, 10)],
        [b.decimal128(1, 6111), b.decimal128(10**33, 6111 - 33)],
        [b.string("a"), b.symbol("a")],
        [b.array(b.int32(1)), (0x04, b.document_bytes(("odd name", b.double(1.0))))],
    ],
    ids=lambda cohort: repr(cohort[0])[:20],
)
def test_equal_ids_have_one_key(cohort: list[b.Value]) -> None:
    """What MongoDB holds for equal has one key, whatever type carries it."""
    assert len({key(value) for value in cohort}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b.double(0.1), b.decimal128(1, -1)),
        (b.int64(2**53 + 1), b.double(2.0**53)),
        (b.string("5f0000000000000000000001"), b.object_id(OID)),
        (b.NULL, b.UNDEFINED),
        (b.embedded(("a", b.NULL)), b.embedded()),
        (b.embedded(("a", b.int32(1)), ("b", b.int32(2))), b.embedded(("b", b.int32(2)), ("a", b.int32(1)))),
        (b.embedded(("a", b.string("x!Sb!y"))), b.embedded(("a", b.string("x")), ("b", b.string("y")))),
        (b.binary(b"a", 0), b.binary(b"a", 5)),
        (b.string("a"), b.code("a")),
        (b.string(b"\xff"), b.string("\U0010ffff~FF")),
    ],
)
def test_different_ids_have_different_keys(one: b.Value, other: b.Value) -> None:
    """Near misses stay apart: exact numbers, types, the order of fields, text that imitates the marks."""
    assert key(one) != key(other)


def test_twenty_ids_in_order() -> None:
    """The example collection: the order of the keys is BSON's order."""
    keys = [key(value).encode() for value in TWENTY_IDS]
    assert keys == sorted(set(keys))


def test_keys_of_ordinary_ids_fit_into_statistics() -> None:
    """ObjectIds in 17 characters, int64 in at most 21, UUIDs and dates below the 32 that Delta keeps."""
    assert len(key(b.object_id(OID))) == 17
    assert len(key(b.int64(2**63 - 1))) == 21
    assert len(key(b.int64(-(2**63)))) == 22
    assert len(key(b.binary(bytes(16), 4))) == 26 < STATISTICS_CHARACTERS
    assert {len(key(b.date(ms))) for ms in (-(2**63), 0, 2**63 - 1)} == {12}
    assert max(len(key(b.double(x))) for x in (5e-324, 1.7976931348623157e308, -2.2e-308)) <= 42


def test_only_strings_bring_other_than_printable_characters() -> None:
    """All but the text of a string is printable ASCII; in composites control characters are escaped."""
    printable = set(string.printable) - set(string.whitespace)
    for value in (*TWENTY_IDS, b.embedded(("a\tb", b.string("\0\n ")), ("c", b.array(*TWENTY_IDS)))):
        if value[0] != 0x0E and value[0] != 0x0D:
            assert set(key(value)) <= printable


def test_an_event_has_the_key_of_its_read() -> None:
    """A documentKey names the fields of the shard key by their whole paths, the document holds them where they belong;
    a document may lack some of them, or all."""
    shard_key = [b"region", b"address.zip"]
    address = b.embedded(("street", b.NULL), ("zip", b.string("8001")))
    document = b.document_bytes(("_id", b.int32(1)), ("address", address), ("region", b.string("eu")))
    event = b.document_bytes(
        ("region", b.string("eu")), ("address.zip", b.string("8001")), ("_id", b.int32(1))
    )
    assert sharded_key(document, shard_key) == event_key(event) == "|Na1! address.zip!S8001!region!Seu!"
    assert sharded_key(document, shard_key[::-1]) == sharded_key(document, shard_key)
    lacking = b.document_bytes(("_id", b.int32(1)), ("region", b.string("eu")), ("address", b.array(b.NULL)))
    assert sharded_key(lacking, shard_key) == "|Na1! region!Seu!"
    bare = b.id_document(b.int32(1))
    assert sharded_key(bare, shard_key) == event_key(bare) == "|Na1! "


def test_a_document_key_names_its_fields() -> None:
    """Two shard keys that hold the same value are two; without a field besides `_id` nothing is added."""
    eu = key_of_document(b.document_bytes(("region", b.string("eu")), ("_id", b.int32(1))))
    zone = key_of_document(b.document_bytes(("zone", b.string("eu")), ("_id", b.int32(1))))
    assert len({eu, zone, key(b.int32(1))}) == 3
    assert key_of_document(b.document_bytes(("_id", b.int32(1)), ("region", b.string("eu")))) == eu
    with pytest.raises(UnkeyableId, match="no _id"):
        key_of_document(b.document_bytes(("region", b.string("eu"))))


def test_a_value_alone_has_the_key_of_its_document() -> None:
    """`key_of_value` and `key_of_document` agree."""
    for value in TWENTY_IDS:
        assert key_of_value(*value) == key(value)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"\x05\0\0\0",
        b.document_bytes(),
        b.id_document(b.int32(1))[:-1],
        b.id_document(b.int32(1)) + b"\0",
        b.id_document((0x10, b"\0\0")),
        b.id_document((0x20, b"")),
        b.id_document((0x02, b"\xff\xff\xff\x7fabc\0")),
        b.id_document((0x02, b"\x04\0\0\0abcd")),
        b.id_document((0x02, b"\0\0\0\0")),
        b.id_document((0x03, b"\x04\0\0\0")),
        b.id_document((0x05, b"\xff\xff\xff\xff\0")),
        b.id_document((0x0B, b"a\0b")),
        b.id_document((0x0C, b"\x09\0\0\0abc\0" + bytes(12))),
        b.id_document((0x0F, b"\x0e\0\0\0\x08\0\0\0abcdef")),
        b"\x0a\0\0\0\x10_id\x01\0",
    ],
)
def test_damaged_bytes_are_refused(document: bytes) -> None:
    """Cut, overlong, or of an unknown type: an error that shows the bytes, never a key of half a value."""
    with pytest.raises(UnkeyableId, match="not a well-formed BSON id"):
        key_of_document(document)


@pytest.mark.parametrize("size", [3, 5])
def test_a_value_of_another_size_is_refused(size: int) -> None:
    """A value's bytes must be the value's alone, and all of them."""
    with pytest.raises(UnkeyableId, match="takes 4 bytes"):
        key_of_value(0x10, bytes(size))


def test_depth_is_guarded() -> None:
    """Nesting that MongoDB would refuse ends in an error, not in the interpreter's recursion limit."""
    value = b.int32(1)
    for _ in range(DEPTH_MAX):
        value = b.embedded(("a", value))
    assert key(value).endswith("!" * DEPTH_MAX)
    with pytest.raises(UnkeyableId, match="levels deep"):
        key(b.array(value))

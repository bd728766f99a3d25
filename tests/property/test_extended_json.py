"""BSON as Extended JSON: what MongoDB's own library says, for whatever it can decode; nothing lost where it cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal

import bson
import pytest
from bson import json_util
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.json_util import DatetimeRepresentation, JSONMode, JSONOptions
from hypothesis import assume, example, given
from hypothesis import strategies as st

from streaming.bson.elements import ARRAY, DB_POINTER, DOCUMENT, SCOPED_CODE, SYMBOL, UNDEFINED, elements
from streaming.events.extended_json import Form, writer
from tests.support.bson_documents import document, documents

THEIRS = {
    Form.STRICT: JSONOptions(
        strict_number_long=True,
        datetime_representation=DatetimeRepresentation.LEGACY,
        json_mode=JSONMode.LEGACY,
    ),
    Form.CANONICAL: json_util.CANONICAL_JSON_OPTIONS,
    Form.RELAXED: json_util.RELAXED_JSON_OPTIONS,
}
CODEC = CodecOptions(
    unicode_decode_error_handler="replace", datetime_conversion=DatetimeConversion.DATETIME_MS
)
WITHOUT_A_CLASS = {UNDEFINED, DB_POINTER, SYMBOL, SCOPED_CODE}
"""What their decoder turns into something else."""
coefficients = st.one_of(st.integers(0, 10_000), st.integers(2**63, 2**64 + 9), st.integers(0, 10**34 - 1))


def parts(raw: bytes) -> Iterator[tuple[int, bytes, tuple[int, bytes]]]:
    """Of every value, within others too: its type, the document that it is in (by where that starts), its name."""

    def within(at: int) -> Iterator[tuple[int, int, bytes]]:
        for tag, name, start, _ in elements(raw, at):
            yield tag, at, name
            if tag in (DOCUMENT, ARRAY):
                yield from within(start)

    for tag, at, name in within(0):
        yield tag, name, (at, name)


def is_decoded_whole(raw: bytes) -> bool:
    found = list(parts(raw))
    names = [place for _, _, place in found]
    return not WITHOUT_A_CLASS & {tag for tag, _, _ in found} and len(set(names)) == len(names)


def normal(text: str) -> str:
    """The same for texts of one meaning: NaN equals itself, and numbers are told apart by how they are written."""
    return json.dumps(json.loads(text))


@pytest.mark.parametrize("form", list(Form))
@given(raw=documents())
@example(raw=bson.encode({"_id": bson.Int64(1), "at": bson.Timestamp(2, 3), "re": bson.Regex("^a", "im")}))
@example(
    raw=bson.encode({"_id": bson.Binary(b"abc", 4), "n": {"a": [1, bson.Decimal128("1.50"), None, [True]]}})
)
def test_it_is_what_mongodbs_own_library_writes(form: Form, raw: bytes) -> None:
    """In each form, for every document that their decoder takes whole."""
    assume(is_decoded_whole(raw))
    try:
        decoded = bson.decode(raw, CODEC)
        theirs = json_util.dumps(decoded, json_options=THEIRS[form])
    except (bson.errors.BSONError, UnicodeDecodeError):
        assume(False)
        raise
    assert normal(writer(form).document(raw)) == normal(theirs)


@pytest.mark.parametrize("form", list(Form))
@given(raw=documents())
def test_it_writes_whatever_mongodb_stores(form: Form, raw: bytes) -> None:
    """Every type, names that occur twice and texts that are no UTF-8: always JSON, with as many fields, and nothing
    that UTF-8 could not hold."""
    text = writer(form).document(raw)
    assert len(json.loads(text, object_pairs_hook=list)) == sum(1 for _ in elements(raw, 0))
    assert text.encode()


@given(sign=st.sampled_from((0, 1)), coefficient=coefficients, exponent=st.integers(-8, 3))
def test_decimals_are_written_as_the_driver_writes_them(sign: int, coefficient: int, exponent: int) -> None:
    """Of each sign, with zeros in front and behind; those of prices, which are read here, and all others."""
    number = Decimal((sign, tuple(map(int, str(coefficient))), exponent))
    found = json.loads(writer(Form.STRICT).document(bson.encode({"n": bson.Decimal128(number)})))
    assert found == {"n": {"$numberDecimal": str(number)}}


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (
            Form.STRICT,
            '{"s": {"$symbol": "x"},"p": {"$ref": "c","$id": {"$oid": "00"}},"u": {"$undefined": 1}}',
        ),
        (
            Form.RELAXED,
            '{"s": {"$symbol": "x"},"p": {"$dbPointer": {"$ref": "c","$id": {"$oid": "00"}}},"u": {"$undefined": 1}}',
        ),
    ],
)
def test_what_their_decoder_loses(form: Form, text: str) -> None:
    """Symbols, DBPointers and undefined stay what they are."""
    symbol = b"\x02\0\0\0x\0"
    pointer = b"\x02\0\0\0c\0" + bytes(12)
    raw = document([(b"s", (SYMBOL, symbol)), (b"p", (DB_POINTER, pointer)), (b"u", (UNDEFINED, b""))])
    assert writer(form).document(raw) == text.replace('"00"', f'"{"00" * 12}"').replace(": 1}", ": true}")


def test_the_separators_are_those_of_the_java_driver() -> None:
    """With its indentation of nothing, which the connector asks for; and with its default, as in updatedFields."""
    raw = bson.encode({"company": 32, "dept": "home improvement", "a": [1, {"b": bson.Binary(b"")}]})
    dense = '{"company": 32,"dept": "home improvement","a": [1,{"b": {"$binary": {"base64": "","subType": "00"}}}]}'
    assert writer(Form.RELAXED).document(raw) == dense
    assert writer(Form.RELAXED, ", ").document(raw) == dense.replace(',"', ', "').replace("1,", "1, ")

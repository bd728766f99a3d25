"""Documents that no decoder likes and MongoDB stores, on a real engine: in the stream and in a load, none is lost."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import bson
import pytest

from tests.support.bson_documents import document, text
from tests.support.engines import SECONDS, Lab, lab
from tests.support.inserts import insert_raw

__all__ = ["lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]

INT, STRING, OBJECT, ARRAY, BINARY, REGEX, SCOPED = 0x10, 0x02, 0x03, 0x04, 0x05, 0x0B, 0x0F
LEVELS = 100


def _int(value: int) -> tuple[int, bytes]:
    return INT, struct.pack("<i", value)


def nested(levels: int, tag: int = OBJECT) -> bytes:
    """A document in a document, or an array in an array, so many levels deep."""
    value = document([(b"0" if tag == ARRAY else b"n", _int(1))])
    for _ in range(levels):
        value = document([(b"0" if tag == ARRAY else b"n", (tag, value))])
    return value


def odd_fields() -> Iterator[tuple[str, list[tuple[bytes, tuple[int, bytes]]]]]:
    """Names, and the fields that a document has beside its id."""
    yield "a name twice", [(b"a", _int(1)), (b"a", _int(2))]
    yield "a name twice deep", [(b"d", (OBJECT, document([(b"a", _int(1)), (b"a", (STRING, text(b"x")))])))]
    yield "a string of no UTF-8", [(b"s", (STRING, text(b"\xff\xfe")))]
    yield "a name of no UTF-8", [(b"\xff\xfe", _int(1))]
    yield "a pattern of no UTF-8", [(b"r", (REGEX, b"\xff\0i\0"))]
    yield "old binary without its length", [(b"b", (BINARY, struct.pack("<iB", 2, 2) + b"\x01\x02"))]
    yield "a hundred levels", [(b"n", (OBJECT, nested(LEVELS)))]
    yield "a hundred arrays", [(b"n", (ARRAY, nested(LEVELS, ARRAY)))]
    yield "no names", [(b"", _int(1)), (b" ", _int(2))]
    yield "dots and dollars", [(b"a.b", _int(1)), (b"$c", _int(2)), (b"$oid", (STRING, text(b"x")))]
    yield "cases", [(b"Case", _int(1)), (b"case", _int(2)), (b"CASE", (STRING, text(b"x")))]
    yield "array of odd indexes", [(b"l", (ARRAY, document([(b"7", _int(1)), (b"7", _int(2))])))]
    scope = document([(b"x", _int(1))])
    code = text(b"\xff") + scope
    yield "code of no UTF-8", [(b"c", (SCOPED, struct.pack("<i", len(code) + 4) + code))]
    yield "many fields", [(f"f{n}".encode(), _int(n)) for n in range(10_000)]


def odd_documents(prefix: str) -> list[bytes]:
    """Documents under ids that begin so, some of the ids odd themselves."""
    found = [
        document([(b"_id", (STRING, text(f"{prefix} {name}".encode()))), *fields])
        for name, fields in odd_fields()
    ]
    ids = [
        (STRING, text(prefix.encode() + b"\xff\xfe")),
        (OBJECT, document([(b"a", (STRING, text(prefix.encode()))), (b"a", _int(2))])),
        (OBJECT, document([(b"\xff", (STRING, text(prefix.encode())))])),
        (BINARY, struct.pack("<iB", len(prefix), 2) + prefix.encode()),
        (OBJECT, document([(b"n", (OBJECT, nested(LEVELS))), (b"p", (STRING, text(prefix.encode())))])),
        (0x09, struct.pack("<q", 2**62 + len(prefix))),
    ]
    found += [document([(b"_id", id_), (b"a", _int(1))]) for id_ in ids]
    largest = 16 * 1024 * 1024 - 2_000
    found.append(bson.encode({"_id": f"{prefix} largest", "t": "x" * (largest - 60)}))
    return found


def test_odd_documents_land_whole(lab: Lab) -> None:
    """Whatever MongoDB takes is in the table as it is, read by a load or streamed, and no engine stops at it: names
    that come twice, bytes that are no UTF-8, a hundred levels, ten thousand fields, sixteen megabytes."""
    odd = lab.collection("odd")
    loaded, streamed = odd_documents("loaded"), odd_documents("streamed_")
    for raw in loaded:
        taken, codes = insert_raw(odd, [raw])
        assert taken == 1, (raw[:60], codes)
    lab.with_options("cluster_time")
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        for raw in streamed:
            taken, codes = insert_raw(odd, [raw])
            assert taken == 1, (raw[:60], codes)
        engine.catch_up(SECONDS)
        result = engine.verify(lab.name("odd"))
        assert result.equal, str(result)
    assert len(lab.rows("odd")) == len(loaded) + len(streamed)

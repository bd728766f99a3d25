"""The twenty-id collection: 20 ids of 16 BSON types, of which a walk by ``$gt`` sees three."""

from __future__ import annotations

from typing import Any

from bson.raw_bson import RawBSONDocument
from pymongo.collection import Collection

from tests.support import raw_bson as b

TWENTY_IDS: tuple[b.Value, ...] = (
    b.MIN_KEY,
    b.NULL,
    b.double(float("nan")),
    b.int32(-5),
    b.decimal128(100, -3),  # 0.100
    b.double(0.1),  # above the decimal 0.1
    b.int64(2**53 + 1),  # no double can hold it
    b.string(""),
    b.string("5f0000000000000000000001"),  # the hex of the ObjectId below
    b.symbol("sym\0bol"),
    b.embedded(),
    b.embedded(("region", b.string("eu")), ("n", b.int32(1))),
    b.binary(b"\xff", 0x80),
    b.binary(bytes(range(16)), 4),
    b.object_id(bytes.fromhex("5f0000000000000000000001")),
    b.boolean(False),
    b.date(-1),
    b.timestamp(1, 2),
    b.code("function () {}"),
    b.MAX_KEY,
)
"""In BSON order."""


def twenty_documents() -> list[RawBSONDocument]:
    """One document an id, ``{"_id": ..., "n": place in BSON order}``, in an order that is not the ids'."""
    documents = [b.raw(("_id", value), ("n", b.int32(place))) for place, value in enumerate(TWENTY_IDS)]
    return [documents[place * 7 % 20] for place in range(20)]


def fill_with_twenty(collection: Collection[Any]) -> None:
    """Insert the twenty documents."""
    collection.insert_many(twenty_documents())

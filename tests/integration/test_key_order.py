"""Keys against the real server: the `_id` index decides what is equal and what comes first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient
from pymongo.collection import Collection

from streaming.keys.keys import key_of_document
from tests.support import id_strategies as some
from tests.support import raw_bson as b
from tests.support.ids import TWENTY_IDS
from tests.support.inserts import RAW, insert_raw

DUPLICATE_KEY = 11000

# A third of the profile's examples, each of dozens of ids; every example empties the collection.
against_server = settings(
    max_examples=settings().max_examples // 3,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def compare_with_server(collection: Collection[Any], values: Iterable[b.Value]) -> None:
    """Insert all; what the unique index let in, in its order, must be one of each key, in the keys' order."""
    documents = [b.id_document(value) for value in values]
    collection.delete_many({})
    _, refused = insert_raw(collection, documents)
    assert set(refused) <= {DUPLICATE_KEY}
    stored = [bytes(found.raw) for found in collection.find(sort=[("_id", 1)], hint=[("_id", 1)])]
    keys = {key_of_document(document) for document in documents}
    assert [key_of_document(document) for document in stored] == sorted(keys, key=str.encode)


def collection_of(client: MongoClient[Any], database: str) -> Collection[Any]:
    return client[database].get_collection("ids", RAW)


@against_server
@given(values=st.lists(some.ids, min_size=10, max_size=60))
def test_keys_of_all_types(mongo_client: MongoClient[Any], database: str, values: list[b.Value]) -> None:
    """Ids of every legal type, some hundreds of them in all: same identity, same order."""
    compare_with_server(collection_of(mongo_client, database), values)


@against_server
@given(values=st.lists(some.numbers, min_size=10, max_size=80))
def test_keys_of_numbers(mongo_client: MongoClient[Any], database: str, values: list[b.Value]) -> None:
    """Doubles beside the decimals next to them, cohorts, extremes, non-canonical decimals, NaNs, zeros."""
    compare_with_server(collection_of(mongo_client, database), values)


@against_server
@given(values=st.lists(some.embedded_ids, min_size=10, max_size=60))
def test_keys_of_embedded_documents(
    mongo_client: MongoClient[Any], database: str, values: list[b.Value]
) -> None:
    """Fields compare by type, name, value; nested documents, arrays, undefined and regular expressions."""
    compare_with_server(collection_of(mongo_client, database), values)


@against_server
@given(texts=st.lists(some.text_bytes, min_size=10, max_size=80))
def test_keys_of_strings(mongo_client: MongoClient[Any], database: str, texts: list[bytes]) -> None:
    """Bytes decide, in strings, symbols, code and inside documents, valid UTF-8 or not."""
    values = [b.string(text) for text in texts]
    values += [b.embedded(("a", b.string(text)), ("b", b.NULL)) for text in texts]
    values += [b.code(text) for text in texts] + [b.symbol(text) for text in texts[:3]]
    compare_with_server(collection_of(mongo_client, database), values)


def test_an_old_binary_without_its_inner_length(mongo_client: MongoClient[Any], database: str) -> None:
    """The server stores it, though drivers do not decode it; it is one id like any other."""
    ids = [b.binary(b"", 2), b.binary(b"", 2), b.binary(b"", 0), b.binary(b"\1", 2)]
    compare_with_server(collection_of(mongo_client, database), ids)


def test_the_twenty_ids(mongo_client: MongoClient[Any], database: str) -> None:
    """The example collection is listed in the server's order, no two of its ids are equal."""
    collection = collection_of(mongo_client, database)
    compare_with_server(collection, TWENTY_IDS)
    stored = [bytes(found.raw) for found in collection.find(sort=[("_id", 1)])]
    assert stored == [b.id_document(value) for value in TWENTY_IDS]
    assert len(list(collection.aggregate([{"$group": {"_id": {"$type": "$_id"}}}]))) == 16


def test_expressions_compare_as_the_index_does(mongo_client: MongoClient[Any], database: str) -> None:
    """`$expr`, which reads ranges, and the index agree on the delicate pairs of doubles and decimals."""
    collection = collection_of(mongo_client, database)
    pairs = [
        (b.decimal128(1, -1), b.double(0.1)),
        (b.decimal128(1000000000000000055511151231257827, -34), b.double(0.1)),
        (b.double(0.1), b.decimal128(1000000000000000055511151231257828, -34)),
        (b.int64(2**53), b.int64(2**53 + 1)),
        (b.double(2.0**53), b.int64(2**53 + 1)),
    ]
    for low, high in pairs:
        compare_with_server(collection, [low, high])
        literals = [b.raw(("$literal", value)) for value in (low, high)]
        (answer,) = mongo_client[database].aggregate(
            [{"$documents": [{}]}, {"$project": {"sign": {"$cmp": literals}}}]
        )
        assert answer["sign"] == -1, (low, high)

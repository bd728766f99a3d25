"""Properties of keys in collections that are sharded by more than `_id`, without a server."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from snapshotter.core.values.chunks import KeyList, KeyRange
from snapshotter.reading.range_find import bound_of, plain
from streaming.keys.keys import (
    ID_END,
    event_key,
    is_sharded,
    key_of_document,
    sharded_key,
    start_of,
    whole_id,
)
from tests.support import id_strategies as some
from tests.support import raw_bson as b

Document = tuple[b.Value, dict[str, b.Value]]
"""Its id, and those fields of the shard key that it has."""

NAMES = ("region", "tenant", "zip.code")
shard_values = st.dictionaries(st.sampled_from(NAMES), some.values, max_size=3)
documents = st.tuples(some.ids, shard_values)


def key(document: Document) -> str:
    """Of an event: the server tells the shard key's fields, then the id."""
    value, fields = document
    return event_key(b.document_bytes(*fields.items(), ("_id", value)))


def id_key(value: b.Value) -> str:
    return key_of_document(b.id_document(value))


def end(value: b.Value) -> str:
    return bound_of(b.id_document(value)).past_id().key


def is_before(one: str, other: str) -> bool:
    """As Spark compares them."""
    return one.encode() < other.encode()


@given(documents, documents)
def test_keys_are_in_the_order_of_ids(one: Document, other: Document) -> None:
    """Whatever the shard key's values are: of two ids the smaller one's keys come first, all of them."""
    ids = id_key(one[0]), id_key(other[0])
    if ids[0] != ids[1]:
        assert is_before(key(one), key(other)) is is_before(*ids)
        assert is_before(end(one[0]), end(other[0])) is is_before(*ids)


@given(some.ids, shard_values, shard_values)
def test_documents_of_one_id_are_told_apart(
    value: b.Value, one: dict[str, b.Value], other: dict[str, b.Value]
) -> None:
    """By each value of the shard key, and by which of its fields they have; equal values are one."""
    same = {n: id_key(v) for n, v in one.items()} == {n: id_key(v) for n, v in other.items()}
    assert (key((value, one)) == key((value, other))) is same


@given(documents, st.lists(some.ids, max_size=6))
def test_a_chunk_holds_all_keys_of_its_ids(document: Document, ends: list[b.Value]) -> None:
    """Chunks that join hold each key once, in the chunk that its id belongs to; so a chunk is a range of keys."""
    bounds = {bound.key: bound for bound in (bound_of(b.id_document(value)) for value in ends)}
    cuts = [None, *sorted(bounds.values(), key=lambda bound: bound.key.encode()), None]
    chunks = [KeyRange(low, high) for low, high in pairwise(cuts)]
    by_id = [chunk.holds(id_key(document[0])) for chunk in chunks]
    assert [chunk.of_whole_ids().holds(key(document)) for chunk in chunks] == by_id
    assert sum(by_id) == 1


@given(some.ids, documents)
def test_an_id_means_all_documents_that_have_it(asked: b.Value, document: Document) -> None:
    """Alone, and as both ends of a range; and no other document."""
    bound = bound_of(b.id_document(asked))
    same = bound.key == id_key(document[0])
    assert KeyList((bound.past_id(),)).holds(key(document)) is same
    assert KeyRange(bound, bound, closed=True).of_whole_ids().holds(key(document)) is same
    assert (whole_id(key(document)) == bound.past_id().key) is same
    assert key(document).startswith(start_of(bound.past_id().key) + ID_END) is same
    assert plain(bound.past_id()) == bound
    assert not is_sharded(bound.key)


@given(documents)
def test_a_document_has_the_key_of_its_event(document: Document) -> None:
    """Read with the shard key's names, wherever its fields lie, and whatever lies around them."""
    value, fields = document
    inner = [("code", v) for name, v in fields.items() if name == "zip.code"]
    outer = [(name, v) for name, v in fields.items() if name != "zip.code"]
    nested = [("zip", b.embedded(*inner))] if inner else []
    read = b.document_bytes(("_id", value), ("more", b.NULL), *nested, *outer)
    assert sharded_key(read, [name.encode() for name in NAMES]) == key(document)

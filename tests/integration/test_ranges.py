"""Ranges of `_id` on the real server: nothing is missed, nothing comes twice, and the index does the work."""

from __future__ import annotations

from itertools import chain, combinations, pairwise
from typing import Any

import pytest
from bson import Int64, ObjectId
from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS
from pymongo import MongoClient
from pymongo.collection import Collection

from snapshotter.core.values.chunks import Bound, KeyList, KeyRange
from snapshotter.reading.range_find import HIGHEST
from snapshotter.reading.ranges import IdProber, bound_of, collation_proof, is_simple_collation, range_find
from streaming.namespaces import Namespace
from tests.support import raw_bson as b
from tests.support.ids import TWENTY_IDS, fill_with_twenty

Client = MongoClient[Any]
BOUNDS = [bound_of(b.id_document(value)) for value in TWENTY_IDS]
IGNORE_CASE = {"locale": "en", "strength": 2}


def raw_collection(client: Client, database: str) -> Collection[Any]:
    return client[database].get_collection("c", DEFAULT_RAW_BSON_OPTIONS)


def namespace_of(database: str) -> Namespace:
    return Namespace(database, "c")


def read(
    client: Client, database: str, target: KeyRange | KeyList, filter: dict[str, Any] | None = None
) -> list[Bound]:
    """The ids that a range's query finds, in the order they come."""
    arguments = range_find(target, filter=filter)
    found = raw_collection(client, database).find(**arguments.to_find(), projection={"_id": 1})
    return [bound_of(bytes(document.raw)) for document in found]


def walk(
    prober: IdProber, namespace: Namespace, chunk_docs: int, count: int, filter: Any = None
) -> list[KeyRange]:
    """The chunks of the whole collection, as the engine plans them."""
    upto = prober.max_bound(namespace, filter)
    if upto is None:
        return []
    cuts: list[Bound | None] = [None]
    while True:
        probe = prober.next_bounds(namespace, cuts[-1], upto, chunk_docs, count, filter)
        assert 1 <= len(probe.bounds) <= count
        cuts += probe.bounds
        if probe.exhausted:
            assert cuts[-1] == upto
            return [KeyRange(low, high) for low, high in pairwise(cuts)]


def stages(client: Client, database: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """The stages of the winning plan, the last first."""
    command = {
        "find": "c",
        "filter": arguments["filter"],
        "sort": dict(arguments["sort"]),
        "hint": dict(arguments["hint"]),
        **({"projection": arguments["projection"]} if "projection" in arguments else {}),
    }
    plan = client[database].command("explain", command, verbosity="queryPlanner")["queryPlanner"][
        "winningPlan"
    ]
    plan = plan.get("queryPlan", plan)
    found = []
    while plan:
        found.append(plan)
        plan = plan.get("inputStage")
    return found


@pytest.mark.parametrize("count", [1, 2, 100])
@pytest.mark.parametrize("chunk_docs", [1, 2, 3, 19, 20, 21])
def test_the_twenty_ids_are_walked_whole(
    mongo_client: Client, database: str, chunk_docs: int, count: int
) -> None:
    """In chunks of any size: each id once, in order, exactly `chunk_docs` in a chunk."""
    fill_with_twenty(mongo_client[database]["c"])
    chunks = walk(IdProber(mongo_client), namespace_of(database), chunk_docs, count)
    contents = [read(mongo_client, database, chunk) for chunk in chunks]
    assert [bound for content in contents for bound in content] == BOUNDS
    assert {len(content) for content in contents[:-1]} <= {chunk_docs}
    assert len(chunks) == -(-20 // chunk_docs)
    for chunk, content in zip(chunks, contents, strict=True):
        assert all(chunk.holds(bound.key) for bound in content)


def test_every_range_of_two_ids_is_exact(mongo_client: Client, database: str) -> None:
    """All 231 ranges between the twenty ids and the open ends, by every style that applies to them."""
    fill_with_twenty(mongo_client[database]["c"])
    collection = raw_collection(mongo_client, database)
    places = [(None, -1), *((bound, place) for place, bound in enumerate(BOUNDS)), (None, 19)]
    styles = set()
    for (after, low), (upto, high) in combinations(places, 2):
        if low == high:
            continue
        target = KeyRange(after, upto)
        for arguments in (range_find(target), range_find(target, style="total")):
            styles.add(arguments.style)
            found = [
                bound_of(bytes(d.raw)) for d in collection.find(**arguments.to_find(), projection={"_id": 1})
            ]
            assert found == BOUNDS[low + 1 : high + 1], (arguments.style, low, high)
    assert styles == {"all", "bracket", "total"}


def test_gt_alone_would_miss_most() -> None:
    """A bracket is used only where both ends share one, and neither is NaN; else asking for it is refused."""
    nan, five, small = BOUNDS[2], BOUNDS[3], BOUNDS[5]
    assert range_find(KeyRange(five, small)).style == "bracket"
    for low, high in [
        (nan, five),
        (BOUNDS[1], five),
        (five, BOUNDS[7]),
        (BOUNDS[18], BOUNDS[19]),
        (None, five),
    ]:
        assert range_find(KeyRange(low, high)).style == "total"
        with pytest.raises(ValueError, match="no type bracket"):
            range_find(KeyRange(low, high), style="bracket")


def test_ranges_scan_the_index_between_tight_bounds(mongo_client: Client, database: str) -> None:
    """Both styles scan the `_id` index within the range; in a bracket, ids alone need no document."""
    fill_with_twenty(mongo_client[database]["c"])
    in_bracket = range_find(KeyRange(BOUNDS[3], BOUNDS[6])).to_find()
    *_, scan = stages(mongo_client, database, in_bracket)
    assert scan["stage"] == "IXSCAN"
    assert scan["indexBounds"] == {"_id": ["(-5, 9007199254740993]"]}
    covered = stages(mongo_client, database, {**in_bracket, "projection": {"_id": 1}})
    assert [stage["stage"] for stage in covered] == ["PROJECTION_COVERED", "IXSCAN"]
    for low, high, expected in [
        (BOUNDS[2], BOUNDS[14], "(nan.0, ObjectId('5f0000000000000000000001')]"),
        (BOUNDS[1], BOUNDS[19], "(null, MaxKey]"),
        (None, BOUNDS[15], "[MinKey, false]"),
        (BOUNDS[15], None, "(false, MaxKey]"),
    ]:
        plan = stages(mongo_client, database, range_find(KeyRange(low, high)).to_find())
        assert [stage["stage"] for stage in plan] == ["FETCH", "IXSCAN"]
        assert plan[-1]["indexBounds"] == {"_id": [expected]}


def test_a_filter_narrows_chunks_and_probes(mongo_client: Client, database: str) -> None:
    """With a filter, chunks count only what it matches, and together hold exactly that."""
    fill_with_twenty(mongo_client[database]["c"])
    some = {"n": {"$in": [0, 4, 5, 6, 10, 11, 18]}}
    chunks = walk(IdProber(mongo_client), namespace_of(database), 2, 3, some)
    contents = [read(mongo_client, database, chunk, some) for chunk in chunks]
    assert [len(content) for content in contents] == [2, 2, 2, 1]
    assert [bound for content in contents for bound in content] == [
        BOUNDS[n] for n in (0, 4, 5, 6, 10, 11, 18)
    ]


def test_a_list_reads_single_ids(mongo_client: Client, database: str) -> None:
    """A key list finds its ids and no other, of every type; ids that are gone are simply not there."""
    fill_with_twenty(mongo_client[database]["c"])
    gone = bound_of(b.id_document(b.string("gone")))
    for place, bound in enumerate(BOUNDS):
        assert read(mongo_client, database, KeyList((gone, bound))) == [BOUNDS[place]]
    assert read(mongo_client, database, KeyList(tuple(BOUNDS[::-1]))) == BOUNDS
    assert read(mongo_client, database, KeyList(())) == []


def test_a_list_of_document_keys(mongo_client: Client, database: str) -> None:
    """Where `_id` is not unique, a list holds documentKeys: every field must be equal."""
    mongo_client[database]["c"].insert_many([{"_id": 1, "region": "eu"}, {"_id": 2, "region": "us"}])
    keys = [b.document_bytes(("region", b.string("eu")), ("_id", b.int32(n))) for n in (1, 2)]
    found = read(mongo_client, database, KeyList(tuple(map(bound_of, keys))))
    assert found == [bound_of(b.id_document(b.int32(1)))]
    with pytest.raises(ValueError, match=r"\['region', '_id'\]"):
        range_find(KeyRange(bound_of(keys[0]), None))


def test_an_empty_collection_has_no_bound(mongo_client: Client, database: str) -> None:
    """Nothing to read is None: no such collection, no documents, no match."""
    prober = IdProber(mongo_client)
    assert prober.max_bound(namespace_of(database)) is None
    mongo_client[database]["c"].insert_one({"_id": 1})
    assert prober.max_bound(namespace_of(database), {"_id": 2}) is None
    assert prober.max_bound(namespace_of(database)) == bound_of(b.id_document(b.int32(1)))


def test_an_end_that_is_gone_still_ends_the_walk(mongo_client: Client, database: str) -> None:
    """The largest id may go, and larger ones come, while chunks are probed: the end stays where it was."""
    collection = mongo_client[database]["c"]
    collection.insert_many({"_id": n} for n in range(10))
    prober, namespace = IdProber(mongo_client), namespace_of(database)
    upto = prober.max_bound(namespace)
    assert upto is not None
    collection.delete_one({"_id": 9})
    collection.insert_many([{"_id": 9.5}, {"_id": "later"}])
    probe = prober.next_bounds(namespace, None, upto, 4, 10)
    assert [bound.key for bound in probe.bounds] == ["Na3", "Na7", "Na9"]
    assert probe.exhausted


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 30])
def test_a_chunk_is_split_without_gap_or_overlap(mongo_client: Client, database: str, parts: int) -> None:
    """Sub-ranges cover the chunk in order, are about equal, and there are at most as many as asked for."""
    fill_with_twenty(mongo_client[database]["c"])
    prober, namespace = IdProber(mongo_client), namespace_of(database)
    target = KeyRange(BOUNDS[1], BOUNDS[16])
    for docs in (None, 15):
        split = prober.sub_bounds(namespace, target, parts, docs)
        assert split[0].after == target.after
        assert split[-1].upto == target.upto
        assert all(one.upto == other.after for one, other in pairwise(split))
        contents = [read(mongo_client, database, part) for part in split]
        assert list(chain.from_iterable(contents)) == BOUNDS[2:17]
        assert len(split) <= parts
        assert max(map(len, contents)) <= -(-15 // parts)


def test_a_range_open_above_is_not_split(mongo_client: Client, database: str) -> None:
    """Without an upper end there is nothing to divide: the range comes back whole."""
    whole = KeyRange(None, None)
    assert IdProber(mongo_client).sub_bounds(namespace_of(database), whole, 4) == [whole]


def test_probes_see_at_least_the_time_of_their_session(mongo_client: Client, database: str) -> None:
    """A causally consistent session is honoured: a probe sees what was written in it."""
    prober, namespace = IdProber(mongo_client), namespace_of(database)
    with mongo_client.start_session(causal_consistency=True) as session:
        mongo_client[database]["c"].insert_many(({"_id": n} for n in range(5)), session=session)
        upto = prober.max_bound(namespace, session=session)
        assert upto is not None
        assert upto.key == "Na4"
        probe = prober.next_bounds(namespace, None, upto, 2, 9, session=session)
    assert [bound.key for bound in probe.bounds] == ["Na1", "Na3", "Na4"]


def test_bounds_keep_types_through_json(mongo_client: Client, database: str) -> None:
    """Progress stores bounds as JSON: the id comes back with its BSON type."""
    mongo_client[database]["c"].insert_one({"_id": Int64(5)})
    bound = IdProber(mongo_client).max_bound(namespace_of(database))
    assert bound is not None
    assert Bound.from_json(bound.to_json()).id == b.id_document(b.int64(5))


def test_strings_under_a_collation_are_read_as_one_range(mongo_client: Client, database: str) -> None:
    """Ids ordered by a collation are not cut: the whole range still reads every document once."""
    mongo_client[database].create_collection("c", collation=IGNORE_CASE)
    ids = ["b", "A", "c", "D", "é", "Z", 1, ObjectId(), {"k": "B"}, {"k": "a"}]
    mongo_client[database]["c"].insert_many([{"_id": one} for one in ids if not isinstance(one, ObjectId)])
    prober, namespace = IdProber(mongo_client), namespace_of(database)
    upto = prober.max_bound(namespace)
    assert upto is not None
    assert not is_simple_collation(mongo_client, namespace)
    assert not prober.can_split(namespace, upto)
    with pytest.raises(ValueError, match="read it as one range"):
        prober.next_bounds(namespace, None, upto, 2, 2)
    keys = [bound.key for bound in read(mongo_client, database, KeyRange(None, None))]
    assert len(keys) == len(set(keys)) == 9
    assert keys != sorted(keys)


def test_other_ids_under_a_collation_are_cut_as_ever(mongo_client: Client, database: str) -> None:
    """Bounds without a string divide alike under any collation; strings below them stay in one chunk."""
    mongo_client[database].create_collection("c", collation=IGNORE_CASE)
    ids: list[Any] = [n * 1.5 for n in range(6)]
    ids += ["b", "A", "c", "D", {"k": "B"}, {"k": 1}, *(ObjectId() for _ in range(5))]
    mongo_client[database]["c"].insert_many([{"_id": one} for one in ids])
    chunks = walk(IdProber(mongo_client), namespace_of(database), 2, 3)
    contents = [read(mongo_client, database, chunk) for chunk in chunks]
    keys = [bound.key for content in contents for bound in content]
    assert len(keys) == len(set(keys)) == len(ids)
    for chunk, content in zip(chunks, contents, strict=True):
        assert chunk.upto is not None
        assert collation_proof(chunk.upto)
        assert all(chunk.holds(bound.key) for bound in content)
    assert len(chunks) >= 6


def test_a_clustered_collection_is_walked_the_same_way(mongo_client: Client, database: str) -> None:
    """Without an `_id` index (clustered by `_id`), the same queries give the same chunks."""
    mongo_client[database].create_collection("c", clusteredIndex={"key": {"_id": 1}, "unique": True})
    fill_with_twenty(mongo_client[database]["c"])
    chunks = walk(IdProber(mongo_client), namespace_of(database), 3, 2)
    found = chain.from_iterable(read(mongo_client, database, chunk) for chunk in chunks)
    assert list(found) == BOUNDS


def test_limits_are_checked(mongo_client: Client, database: str) -> None:
    """A chunk holds at least one document, a probe finds at least one bound."""
    for chunk_docs, count in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="at least 1"):
            IdProber(mongo_client).next_bounds(namespace_of(database), None, BOUNDS[5], chunk_docs, count)


def test_a_range_with_both_of_its_ends_is_exact(mongo_client: Client, database: str) -> None:
    """All ranges from one of the twenty ids to another, to itself, and open above; by every style that applies."""
    fill_with_twenty(mongo_client[database]["c"])
    collection = raw_collection(mongo_client, database)
    ends = [*((bound, place) for place, bound in enumerate(BOUNDS)), (None, 19)]
    for low, after in enumerate(BOUNDS):
        for upto, high in ends[low:]:
            target = KeyRange(after, upto, closed=True)
            assert all(target.holds(bound.key) for bound in BOUNDS[low : high + 1])
            for arguments in (range_find(target), range_find(target, style="total")):
                asked = {**arguments.to_find(), "projection": {"_id": 1}}
                found = [bound_of(bytes(d.raw)) for d in collection.find(**asked)]
                assert found == BOUNDS[low : high + 1], (arguments.style, low, high)
            largest = IdProber(mongo_client).max_bound(namespace_of(database), within=target)
            assert largest == BOUNDS[high]


@pytest.mark.parametrize("low", [0, 3, 10, 19])
def test_a_closed_range_is_walked_from_its_lower_end(mongo_client: Client, database: str, low: int) -> None:
    """The first chunk begins with it; the largest id there can be ends a walk that has to see everything."""
    fill_with_twenty(mongo_client[database]["c"])
    prober, namespace = IdProber(mongo_client), namespace_of(database)
    probe = prober.next_bounds(namespace, BOUNDS[low], HIGHEST, 3, 99, closed=True)
    assert probe.exhausted
    assert probe.bounds[-1].key == HIGHEST.key
    cuts: list[Bound | None] = [BOUNDS[low], *probe.bounds]
    chunks = [KeyRange(after, upto, closed=n == 0) for n, (after, upto) in enumerate(pairwise(cuts))]
    found = [bound for chunk in chunks for bound in read(mongo_client, database, chunk)]
    assert found == BOUNDS[low:]


def test_no_id_lies_above_the_highest() -> None:
    """It is MaxKey, which is an id itself."""
    assert max(bound.key for bound in BOUNDS) <= HIGHEST.key

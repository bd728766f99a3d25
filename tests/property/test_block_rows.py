"""Rows that are made a reply at a time are those that a landing would pick of the rows made event by event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson import Int64, ObjectId
from bson.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import RecordBatch

from streaming.fields.document_rules import DocumentRules, document_rules
from streaming.fields.rules import FieldRules
from streaming.json_text import from_text
from streaming.keys.keys import DEPTH_MAX, key_of_document
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.scope.scope import CaptureScope
from streaming.source import event_block
from streaming.source.block_rows import PLACES_MAX, BlockRows
from streaming.source.change_events import BYTES_MAX, RowBuilder
from streaming.source.event_block import block_of
from streaming.source.newest_events import AllEvents, NewestEvents
from streaming.source.places import SPLIT_BITS, Places
from streaming.source.raw_events import Event, parse_event, place_of
from tests.support.changes import picked

SIGNALS = Namespace("shop", "signals")
CAPTURED = [Namespace("shop", name) for name in ("orders", "Ünïts", "items")]
SCOPE = CaptureScope.parse(
    {"collection.include.list": "shop.(orders|Ünïts|items)", "signal.data.collection": str(SIGNALS)}
)
IDS: list[Any] = [1, 1.0, Int64(2), 2.5, "a", "ä", "", ObjectId(b"a" * 12), ObjectId(b"b" * 12), True]
IDS += [{"a": 1}, datetime(2026, 1, 1, tzinfo=UTC), None, b"\x01"]
MB = 1 << 20
OPERATIONS = ("insert", "update", "replace", "delete")


@dataclass(frozen=True)
class Change:
    """``whole``: whether an update comes with its document; ``timed``: whether the server says when it was applied."""

    operation: str
    id: Any
    place: Namespace
    whole: bool
    timed: bool

    def raw(self, number: int) -> bytes:
        event: dict[str, Any] = {"_id": {"_data": f"82{number:08X}"}, "operationType": self.operation}
        event["clusterTime"] = Timestamp(1_000 + number // 3, 1 + number % 3)
        if self.timed:
            event["wallTime"] = datetime(2026, 1, 1, 0, 0, number % 60, tzinfo=UTC)
        if self.operation in ("insert", "replace") or (self.operation == "update" and self.whole):
            event["fullDocument"] = {"_id": self.id, "number": number}
        elif self.operation == "update":
            event["fullDocument"] = None
        event["ns"] = {"db": self.place.database, "coll": self.place.collection}
        event["documentKey"] = {"_id": self.id}
        return bson.encode(event)


CHANGES = st.lists(
    st.builds(
        Change,
        st.sampled_from(OPERATIONS),
        st.sampled_from(IDS),
        st.sampled_from(CAPTURED),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=60,
)
ORDINARY = Change("insert", 1, CAPTURED[0], whole=True, timed=True)


class Lookup:
    """As the lookup at the server does it: the documents that are ``there``."""

    def __init__(self, there: set[str]) -> None:
        self.there = there
        self.asked: list[str] = []

    def filled(self, events: Sequence[Event]) -> Iterator[list[Event]]:
        found = []
        for operation, time, size, fields in events:
            key = fields[b"documentKey"]
            if operation == b"update" and b"fullDocument" not in fields:
                self.asked.append(key_of_document(key))
                if self.asked[-1] in self.there:
                    fields, size = {**fields, b"fullDocument": key}, size + len(key)
            found.append((operation, time, size, fields))
        yield found


def places(split: int = 0) -> Places:
    return Places(SCOPE.captures, split)


def by_blocks(raws: list[bytes], reply: int, lookup: Lookup | None) -> tuple[list[dict[str, Any]], Any]:
    seen = places(3)
    made, builder = BlockRows(seen, place_of(SIGNALS)), RowBuilder(seen, wide=False)
    events = NewestEvents(builder.stands_alone, None if lookup is None else lookup.filled)
    batches: list[RecordBatch] = []
    for begin in range(0, len(raws), reply):
        block = block_of(raws[begin : begin + reply])
        assert block is not None
        found = made.rows(block)
        assert found is not None
        batches += found[0]
        for some in events.add(found[1]):
            batches += builder.add(some)
    for some in events.rest():
        batches += builder.add(some)
    batches += builder.rest()
    return [row for batch in batches for row in batch.to_pylist()], trailer(builder)


def event_by_event(raws: list[bytes], lookup: Lookup | None) -> tuple[list[dict[str, Any]], Any]:
    seen = places(3)
    builder = RowBuilder(seen, wide=False)
    events = AllEvents(None if lookup is None else lookup.filled)
    batches: list[RecordBatch] = []
    for some in events.add(builder.numbered(map(parse_event, raws))):
        batches += builder.add(some)
    batches += builder.rest()
    return [row for batch in batches for row in batch.to_pylist()], trailer(builder)


def trailer(builder: RowBuilder) -> dict[str, Any]:
    (row,) = builder.trailer(ClusterTime(9, 9), None).to_pylist()
    content = from_text(row["trailer"])
    return {name: content[name] for name in ("events", "namespaces", "operations", "split")} | {
        "ord": row["ord"]
    }


@given(
    CHANGES,
    st.integers(1, 30),
    st.none() | st.sets(st.integers(0, len(IDS) - 1)),
)
def test_a_landing_picks_the_same_rows(changes: list[Change], reply: int, there: set[int] | None) -> None:
    """Whatever the ids are and however many come in a reply, with and without a lookup: each column of each row that
    counts. No row comes twice, all events are counted, and their order is that of the stream."""
    raws = [change.raw(number) for number, change in enumerate(changes)]
    lookup = None
    if there is not None:
        lookup = Lookup({key_of_document(bson.encode({"_id": IDS[number]})) for number in there})
    rows, counted = by_blocks(raws, reply, lookup)
    everything, expected = event_by_event(raws, lookup)
    assert picked(rows) == picked(everything)
    assert counted == expected
    assert len({row["ord"] for row in rows}) == len(rows)
    assert {row["ord"] >> SPLIT_BITS for row in rows} <= {3}


def test_an_update_is_looked_up_where_nothing_follows_it() -> None:
    """One that another change of its document follows, which lands, asks for nothing; nor do all but the newest."""
    one, other, third = (
        (lambda op, whole=False, key=key: Change(op, key, CAPTURED[0], whole=whole, timed=True))
        for key in (1, 2, 3)
    )
    changes = [
        one("update"),
        one("update"),
        other("update"),
        other("delete"),
        third("insert"),
        third("update"),
    ]
    raws = [change.raw(number) for number, change in enumerate(changes)]
    for reply in (6, 2):
        lookup = Lookup({key_of_document(bson.encode({"_id": 3}))})
        rows, _ = by_blocks(raws, reply, lookup)
        assert lookup.asked == [key_of_document(bson.encode({"_id": number})) for number in (1, 3)]
        # That of 1 is gone, so its update stays for a later look; that of 3 was found, and hides the insert before.
        found = sorted((row["ord"] & 0xFF, row["op"], row["document"] is not None) for row in rows)
        assert found == [(1, "u", False), (3, "d", False), (4, "c", True), (5, "u", True)]


def test_a_hot_document_is_looked_up_once() -> None:
    """However many replies have updates of it, and among others."""
    changes = [Change("update", number % 40, CAPTURED[0], whole=False, timed=True) for number in range(2_000)]
    keys = {key_of_document(bson.encode({"_id": number})) for number in range(40)}
    lookup = Lookup(keys)
    rows, counted = by_blocks([change.raw(number) for number, change in enumerate(changes)], 100, lookup)
    assert sorted(lookup.asked) == sorted(keys)
    assert [row["ord"] & 0xFFFF for row in rows] == [*range(1_960, 2_000)]
    assert counted["events"] == 2_000


def without(name: str, change: Change = ORDINARY, **more: Any) -> bytes:
    event = bson.decode(change.raw(1))
    event.pop(name, None)
    return bson.encode({**event, **more})


WALL = b"wallTime\0" + bson.encode({"w": datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)})[7:-1]


def damaged_string() -> bytes:
    raw = Change("insert", "abc", CAPTURED[0], whole=True, timed=True).raw(1)
    at = raw.rindex(b"abc\0")
    return raw[: at + 3] + b"x" + raw[at + 4 :]


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth else {}


KEY = "documentKey"
STRANGE = {
    "a signal": Change("insert", 1, SIGNALS, whole=True, timed=True).raw(1),
    "not captured": Change("insert", 1, Namespace("shop", "others"), whole=True, timed=True).raw(1),
    "a drop": without(KEY, operationType="drop"),
    "an insert without its document": without("fullDocument"),
    "a delete with a document": without(
        "", Change("delete", 1, CAPTURED[0], True, True), fullDocument={"_id": 1}
    ),
    "two fields in a key": without(KEY, documentKey={"_id": 1, "x": 2}),
    "no id in a key": without(KEY, documentKey={"idx": 1}),
    "an id that makes no key": without(KEY, documentKey={"_id": nested(DEPTH_MAX + 1)}),
    "a key without its end": ORDINARY.raw(1)[:-2] + b"\1\0",
    "a string id without its end": damaged_string(),
    "a time of no calendar": ORDINARY.raw(1).replace(WALL, WALL[:9] + ((1 << 63) - 1).to_bytes(8, "little")),
    "a key that is none": without(KEY, documentKey=5),
    "a place that is none": without("ns", ns=5),
    "a time that is none": without("wallTime", wallTime="noon"),
    "a document that is none": without("fullDocument", fullDocument=7),
}


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
def test_a_reply_with_anything_else_is_given_back(strange: bytes) -> None:
    """It goes event by event then, so nothing of it has been counted or numbered."""
    seen = places()
    block = block_of([ORDINARY.raw(0), strange, ORDINARY.raw(2)])
    assert block is not None
    assert BlockRows(seen, place_of(SIGNALS)).rows(block) is None
    assert (seen.number, seen.counts(), seen.size) == (0, {}, 0)
    assert block.events() == [*map(parse_event, (ORDINARY.raw(0), strange, ORDINARY.raw(2)))]


def test_collections_with_rules_or_a_shard_key_are_given_back() -> None:
    """A rule changes documents, and a shard key belongs to the key."""
    rules = FieldRules.parse({"field.exclude.list": "shop.orders.secret"})

    def of(namespace: Namespace) -> DocumentRules | None:
        return document_rules(rules, namespace, ())

    for seen in (Places(SCOPE.captures, 0, lambda _: True), Places(SCOPE.captures, 0, rules=of)):
        block = block_of([ORDINARY.raw(0)])
        assert block is not None
        assert BlockRows(seen, None).rows(block) is None


DAMAGED = {
    "a field that others never have": without("", more=1),
    "no time": without("clusterTime"),
    "an operation that is none": without("operationType", operationType=1),
    "cut off": ORDINARY.raw(1)[:-9],
    "a length that runs into the next": (500).to_bytes(4, "little") + ORDINARY.raw(1)[4:],
    "large": without("fullDocument", fullDocument={"_id": 1, "x": "x" * 40_000}),
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
def test_what_the_walk_does_not_understand_is_no_block(damaged: bytes) -> None:
    """`parse_event` says what it is."""
    assert block_of([ORDINARY.raw(0), damaged, ORDINARY.raw(2)]) is None
    assert block_of([]) is None


@given(st.integers(1, 40), st.integers(-1, 15))
def test_a_block_ends_where_it_is_to(count: int, seconds: int) -> None:
    """With the last event of that time, of which several may have the same second; what is left is a block."""
    raws = [ORDINARY.raw(number) for number in range(count)]
    block = block_of(raws)
    assert block is not None
    end = (1_000 + seconds) << 32 | 2
    cut = block.until(end)
    expected = [event for event in map(parse_event, raws) if event[1] <= end]
    assert cut.events() == expected
    assert len(cut) == len(expected)
    if expected:
        assert cut.last() == expected[-1]
        made = BlockRows(places(), None).rows(cut)
        assert made is not None
        assert sum(batch.num_rows for batch in made[0]) == 1  # one document


@pytest.mark.parametrize("sizes", [[MB] * 6, [MB] * 3 + [1] * 90], ids=["alike", "the first ones"])
def test_batches_stay_small(monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> None:
    """Of a large block several come, each of about so many bytes as rows that are made one by one."""
    monkeypatch.setattr(event_block, "LARGEST_BYTES", 2 * MB)
    raws = []
    for number, size in enumerate(sizes):
        key = {"_id": number}
        raws.append(without("fullDocument", documentKey=key, fullDocument={**key, "x": "x" * size}))
    block = block_of(raws)
    assert block is not None
    made = BlockRows(places(), None).rows(block)
    assert made is not None
    batches = list(made[0])
    assert sum(batch.num_rows for batch in batches) == len(sizes)
    assert all(batch.nbytes < 1.1 * BYTES_MAX for batch in batches)


def test_many_collections_are_given_back() -> None:
    """Each is looked for among all events of a block, so there is a bound."""
    for count, few in ((PLACES_MAX, True), (PLACES_MAX + 1, False)):
        changes = [
            Change("insert", 1, Namespace("shop", f"c{number}"), whole=True, timed=True)
            for number in range(count)
        ]
        block = block_of([change.raw(number) for number, change in enumerate(changes)])
        assert block is not None
        assert (BlockRows(Places(lambda _: True), None).rows(block) is not None) is few

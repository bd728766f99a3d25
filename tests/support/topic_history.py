"""What a topic tells of a collection, held against what happened there: for judging histories.

Documents are those of `tests.support.workload`: a number ``k`` and its version ``v``. Records are read as a consumer of
Debezium reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from streaming.positions import ClusterTime
from tests.support.debezium_consumer import Change as Record
from tests.support.debezium_consumer import payload
from tests.support.history import Change, State

Raw = tuple[bytes, bytes | None]
"""Key and value of a message."""


def delivered(messages: Iterable[Raw]) -> list[Raw]:
    """The messages without those that come again. What comes again is a stretch that is whole: it ends where messages
    go on that are new, or with the topic."""
    once: list[Raw] = []
    places: dict[tuple[Raw, Raw | None], int] = {}
    at, before = -1, None
    for message in messages:
        # A tombstone is like any other of its key: it belongs to what it follows.
        identity = (message, before if message[1] is None else None)
        before = message
        place = places.get(identity)
        if place is None:
            assert at == len(once) - 1, f"{message} follows a stretch that came again and breaks off at {at}"
            places[identity] = len(once)
            once.append(message)
            at += 1
        else:
            assert place <= at + 1, f"{message} is left behind: {place} follows {at}"
            at = place
    assert at == len(once) - 1, f"what came again breaks off at {at} of {len(once)}"
    return once


def judge_topic(messages: Iterable[Raw], changes: Sequence[Change], held: State, loaded: ClusterTime) -> int:
    """Each change of the collection is told once and in order, from somewhere before ``loaded`` on; a READ never tells
    an older version than what came before it; and all of it amounts to what the collection holds (``held``). Returns
    how many READs there were."""
    records = [Record(payload(key), payload(value)) for key, value in delivered(messages)]
    numbers = _numbers(records)
    found: dict[int, list[int | None]] = {}
    newest: State = {}
    state: State = {}
    reads, unread = 0, set()
    for record in records:
        k = numbers.get(record.key["id"])
        if k is None:
            assert record.op in ("d", None), f"{record} tells no document"
            unread.add(record.key["id"])
            continue
        if record.op is None:
            assert k not in state, f"a tombstone of {k}, which is there"
            continue
        v = None if record.op == "d" else _body(record)["v"]
        if record.op == "r":
            reads += 1
        else:
            found.setdefault(k, []).append(v)
        if v is None:
            state.pop(k, None)
            continue
        assert v >= newest.get(k, 0), f"{k} goes back from {newest[k]} to {v} ({record.op})"
        newest[k] = state[k] = v
    wanted: dict[int, list[tuple[int | None, ClusterTime]]] = {}
    for change in changes:
        wanted.setdefault(change.k, []).append((change.v, change.time))
    for k in found.keys() | wanted.keys():
        told, happened = found.get(k, []), wanted.get(k, [])
        missing = len(happened) - len(told)
        assert [v for v, _ in happened[missing:]] == told, f"{k}: {happened} happened, told are {told}"
        assert all(time <= loaded for _, time in happened[:missing]), f"{k}: {happened}, told are {told}"
    untold = [k for k, happened in wanted.items() if k not in found and None in [v for v, _ in happened]]
    assert len(unread) <= len(untold), (
        f"{unread} are deleted, and at most {untold} were before they were read"
    )
    assert state == held
    return reads


def _numbers(records: Sequence[Record]) -> dict[str, int]:
    """The number of each document, by its key; none for one that was deleted before anybody read it."""
    numbers: dict[str, int] = {}
    for record in records:
        if record.op in ("c", "u", "r"):
            k = _body(record)["k"]
            assert numbers.setdefault(record.key["id"], k) == k, f"two documents have the key {record.key}"
    return numbers


def _body(record: Record) -> Any:
    return json.loads(record.value["after"])

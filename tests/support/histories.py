"""Generated histories of one collection, for landings: micro-batches of events, and windows that read beside them.

A history is consistent: what a window reads is what the collection held at a moment at or after its low watermark. So
besides the rule itself (`tests.support.commit_rule`) the outcome can be judged: a table that every window has passed
over equals the collection.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import bson
from bson import ObjectId

from snapshotter.core.values.chunks import Bound, KeyRange, Target
from snapshotter.core.values.namespace_changes import Truncation
from snapshotter.core.values.window import Window, WindowId, WindowState
from snapshotter.reading.ranges import bound_of
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.commit_rule import Read, StreamedEvent

COLLECTION = Namespace("shop", "things")
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """An event: ``content`` None is a delete, or (not ``lands``) an update that comes without its document."""

    key: str
    op: str
    time: ClusterTime
    ord: int
    content: Document | None
    lands: bool = True

    def streamed(self) -> StreamedEvent:
        return StreamedEvent(self.key, self.time, self.ord, self.lands, self.content)


@dataclass(frozen=True, slots=True)
class PlannedWindow:
    """A window that is registered in batch ``opens`` and closes in batch ``closes``, with the documents it read.
    ``read_at``: they are those of this time, which is the low watermark or later; None: of the low watermark."""

    window: Window
    opens: int
    closes: int
    found: Mapping[str, Document]
    read_at: ClusterTime | None = None

    @property
    def stamp(self) -> ClusterTime:
        """The latest time that rows in files may bear."""
        return self.window.low if self.read_at is None else self.read_at

    def reads(self) -> list[Read]:
        number = self.window.id.number
        return [Read(key, self.window.low, number, document) for key, document in self.found.items()]


@dataclass(slots=True)
class History:
    """``batches[n]`` are the events in ``(ends[n - 1], ends[n]]``; ``last`` is the collection in the end.
    ``truncated``: of the batches in which the collection was dropped, when and after which event it was for the last
    time. ``ids``: all that are ever there, by key."""

    start: ClusterTime
    batches: list[list[Change]] = field(default_factory=list)
    ends: list[ClusterTime] = field(default_factory=list)
    windows: list[PlannedWindow] = field(default_factory=list)
    last: dict[str, Document] = field(default_factory=dict)
    truncated: dict[int, Truncation] = field(default_factory=dict)
    ids: dict[str, bytes] = field(default_factory=dict)

    def truncated_by(self, batch: int) -> ClusterTime | None:
        """When it was dropped last, up to the end of this batch."""
        return max((what.time for n, what in self.truncated.items() if n <= batch), default=None)

    def closing_in(self, batch: int) -> list[PlannedWindow]:
        return [planned for planned in self.windows if planned.closes == batch]


def generate(rng: random.Random, *, keys: int, batches: int, events: int, drops: float = 0.0) -> History:
    """Keys of several types; transactions share a time, and may change one key several times; few keys are hot.
    ``drops``: how likely the collection is dropped after a transaction."""
    ids = _ids(rng, keys)
    history = History(ClusterTime(1_000, 0), ids=ids)
    at: list[tuple[ClusterTime, dict[str, Document]]] = [(history.start, _initial(rng, ids))]
    now, version = history.start, 10_000
    for number in range(batches):
        changes: list[Change] = []
        while len(changes) < events:
            now = ClusterTime(now.t + rng.randrange(2), now.i + 1)
            state = dict(at[-1][1])
            for _ in range(rng.choice((1, 1, 1, 4))):
                key = rng.choice(list(ids)[: max(1, keys // 10)] if rng.random() < 0.4 else list(ids))
                version += 1
                changes.append(_change(rng, state, key, ids[key], now, len(changes), version, number))
            at.append((now, state))
            if drops and rng.random() < drops:
                now = now.next()
                at.append((now, {}))
                history.truncated[number] = Truncation(now, len(changes) - 1)
        history.batches.append(changes)
        history.ends.append(now)
    history.last = at[-1][1]
    history.windows = _windows(rng, history, at, ids)
    return history


def _ids(rng: random.Random, count: int) -> dict[str, bytes]:
    """Ids as BSON by their keys, in the order of keys."""
    made: list[Any] = [
        n
        if n % 4 == 0
        else f"id {n}"
        if n % 4 == 1
        else n + 0.5
        if n % 4 == 2
        else ObjectId(n.to_bytes(12, "big"))
        for n in rng.sample(range(10_000), count)
    ]
    bounds = [bound_of(bson.encode({"_id": value})) for value in made]
    return {bound.key: bound.id for bound in sorted(bounds, key=lambda bound: bound.key)}


def _initial(rng: random.Random, ids: Mapping[str, bytes]) -> dict[str, Document]:
    there = [key for key in ids if rng.random() < 0.7]
    return {key: {**bson.decode(ids[key]), "v": n} for n, key in enumerate(there)}


def _change(
    rng: random.Random,
    state: dict[str, Document],
    key: str,
    id_: bytes,
    time: ClusterTime,
    ord: int,
    version: int,
    batch: int,
) -> Change:
    document: Document = {**bson.decode(id_), "v": version}
    if rng.random() < 0.2:
        document[f"f{batch}"] = {"n": version, "items": [version]}
    if key not in state:
        state[key] = document
        return Change(key, "c", time, ord, document)
    kind = rng.random()
    if kind < 0.3:
        del state[key]
        return Change(key, "d", time, ord, None)
    if kind < 0.45:
        return Change(key, "u", time, ord, None, lands=False)
    state[key] = document
    return Change(key, "u", time, ord, document)


def _windows(
    rng: random.Random,
    history: History,
    at: list[tuple[ClusterTime, dict[str, Document]]],
    ids: Mapping[str, bytes],
) -> list[PlannedWindow]:
    """Chunks that cover all keys, in order; several may close in one batch."""
    keys = list(ids)
    chunks = len(history.batches) * 2
    cuts = [*sorted(rng.sample(range(1, len(keys)), chunks - 1)), len(keys)]
    bounds = [Bound(ids[keys[cut - 1]], keys[cut - 1]) for cut in cuts]
    planned, opens, closes = [], 0, 0
    for number, upto in enumerate(bounds):
        after = bounds[number - 1] if number else None
        latest = min(len(history.batches) - 1, 1 + number * len(history.batches) // chunks)
        opens = rng.randint(opens, max(opens, latest - 1))
        closes = rng.randint(max(closes, opens + 1, latest - 1), max(closes, opens + 1, latest))
        floor = history.ends[opens]
        moments = [(t, state) for t, state in at if floor <= t <= history.ends[closes]]
        low = rng.randrange(len(moments))
        read_at = rng.randrange(low, len(moments))
        target = KeyRange(after, upto)
        found = {key: document for key, document in moments[read_at][1].items() if target.holds(key)}
        window = closing_window(target, len(found), floor, moments[low][0], number)
        planned.append(PlannedWindow(window, opens, closes, found, moments[read_at][0]))
    return planned


def closing_window(target: Target, rows: int, floor: ClusterTime, low: ClusterTime, order: int = 0) -> Window:
    """A window that closes: what it was to read, and how many documents it has read, from which low watermark on."""
    return Window(
        id=WindowId("a1", order + 1),
        request_id="r",
        namespace=COLLECTION,
        target=target,
        filter=None,
        order=order,
        floor=floor,
        in_stream=True,
        state=WindowState.CLOSING,
        low_seen=low,
        rows=rows,
    )

"""The simulated deployment: documents, the log of their changes, and what was true when.

Time is a counter. Every entry of the log has a time; the entries of one transaction share one. A document is
an integer that is never used twice, so "which state is this?" always has an answer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from random import Random

from snapshotter.core.values.chunks import KeyList, KeyRange
from snapshotter.core.values.window import Edge, WindowId
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime


def at(time: int) -> ClusterTime:
    return ClusterTime(1, time)


def when(time: ClusterTime) -> int:
    """The inverse of ``at``; ORIGIN lies before everything."""
    return time.i if time.t else 0


@dataclass(frozen=True, slots=True)
class Entry:
    """``op``: c, u, r(eplace), d; "drop" or "fill" of the whole collection; or a watermark's document (``mark``) in the
    signal collection."""

    time: int
    ord: int
    namespace: Namespace | None
    key: str = ""
    op: str = ""
    doc: int | None = None
    mark: tuple[WindowId, Edge] | None = None


@dataclass(slots=True)
class Collection:
    """``keys``: every key that may ever exist, in the order of the ids (under a collation not that of the
    keys)."""

    namespace: Namespace
    keys: list[str]
    ordered: bool
    rank: dict[str, int] = field(init=False)
    history: dict[str, tuple[list[int], list[int | None]]] = field(init=False)

    def __post_init__(self) -> None:
        self.rank = {key: n for n, key in enumerate(self.keys)}
        self.history = {key: ([0], [None]) for key in self.keys}

    def state(self, key: str, time: int) -> int | None:
        times, docs = self.history[key]
        return docs[bisect_right(times, time) - 1]

    def states(self, key: str, low: int, high: int) -> list[int | None]:
        """Every state the key had at some moment in [low, high]."""
        times, docs = self.history[key]
        return docs[max(0, bisect_right(times, low) - 1) : bisect_right(times, high)]

    def change(self, key: str, time: int, doc: int | None) -> None:
        times, docs = self.history[key]
        if times[-1] == time:
            docs[-1] = doc
        else:
            times.append(time)
            docs.append(doc)

    def alive(self, time: int) -> list[str]:
        return [key for key in self.keys if self.state(key, time) is not None]

    def members(self, target: KeyRange | KeyList) -> list[str]:
        """The keys that may lie in the target, in the order of the ids."""
        if isinstance(target, KeyList):
            return [b.key for b in target.ids]
        after = self.rank[target.after.key] if target.after else -1
        upto = self.rank[target.upto.key] if target.upto else len(self.keys)
        return self.keys[after + (not target.closed) : upto + 1]


class Source:
    def __init__(self, collections: list[Collection]) -> None:
        self.collections = {c.namespace: c for c in collections}
        self.clock = 0
        self.log: list[Entry] = []
        self.open_documents: dict[WindowId, int] = {}
        self.written: dict[int, int] = {}
        self._times: list[int] = []
        self._doc = 0

    def tick(self) -> int:
        """A no-op entry: time passes."""
        self.clock += 1
        return self.clock

    def write(self, *changes: tuple[Namespace, str, str]) -> None:
        """One write, or one transaction: all changes carry one time. What cannot be (insert twice) is passed
        over."""
        time = self.tick()
        for namespace, key, op in changes:
            collection = self.collections[namespace]
            exists = collection.state(key, time) is not None
            if exists == (op == "c"):
                continue
            self._doc += 1
            self.written[self._doc] = time
            doc = None if op == "d" else self._doc
            collection.change(key, time, doc)
            self._append(Entry(time, len(self.log), namespace, key, op, doc))

    def random_write(self, rng: Random) -> None:
        """Insert, update, replace, delete, delete then insert, or a transaction of several of these."""
        namespace = rng.choice(list(self.collections))
        keys = self.collections[namespace].keys
        key, kind = rng.choice(keys), rng.random()
        if kind < 0.15:
            several = [rng.choice(list(self.collections)) for _ in range(rng.randint(2, 5))]
            self.write(*[(n, rng.choice(self.collections[n].keys), rng.choice("cuudr")) for n in several])
        elif kind < 0.25:
            self.write((namespace, key, "d"))
            self.write((namespace, key, "c"))
        else:
            alive = self.collections[namespace].state(key, self.clock) is not None
            self.write((namespace, key, rng.choice("uuurd") if alive else "c"))

    def empty(self, namespace: Namespace, brought: list[str] | None = None) -> None:
        """The collection is dropped, or a rename puts documents of these keys in its place; none of them streams."""
        time, collection = self.tick(), self.collections[namespace]
        for key in collection.keys:
            if brought is not None and key in brought:
                self._doc += 1
                self.written[self._doc] = time
                collection.change(key, time, self._doc)
            elif collection.state(key, time) is not None:
                collection.change(key, time, None)
        op = "drop" if brought is None else "fill"
        self._append(Entry(time, len(self.log), namespace, op=op))

    def mark(self, window: WindowId, edge: Edge) -> int:
        """A watermark's document is written (or, LOST, an open document is deleted by somebody)."""
        time = self.tick()
        self._append(Entry(time, len(self.log), None, mark=(window, edge)))
        return time

    def between(self, start: int, end: int) -> list[Entry]:
        """The entries of a batch ``(start, end]``."""
        return self.log[bisect_left(self._times, start + 1) : bisect_right(self._times, end)]

    def _append(self, entry: Entry) -> None:
        self.log.append(entry)
        self._times.append(entry.time)

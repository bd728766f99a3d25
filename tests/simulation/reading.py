"""What a process does for the machine beside its batches: watermarks, chunk reads, plans. Each is a job of its own."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.chunks import Bound, KeyList, KeyRange
from snapshotter.core.values.window import Edge, Window, WindowId
from streaming.namespaces import Namespace

from .source import Source, at, when

Job = Generator[str, None, None]


def bound(key: str) -> Bound:
    return Bound(key.encode(), key)


class Reading:
    """The half of a `Process` that reads."""

    world: Any
    source: Source
    rng: Random
    scenario: Any
    machine: Any
    buffers: dict[WindowId, dict[str, int]]
    captured: frozenset[Namespace]
    step: Any

    def open_collection(self, ask: eff.OpenCollection) -> Job:
        yield "open"
        if self.world.happens("open_fails") or ask.namespace not in self.captured:
            self.step(inp.CollectionFailed(ask.request_id, ask.namespace, "not allowed"))
            return
        collection = self.source.collections[ask.namespace]
        held = collection.members(ask.within or KeyRange(None, None))
        alive = collection.alive(self.rng.randint(when(ask.after_time), self.source.clock))
        alive = [key for key in alive if key in held]
        yield "opened"
        last = bound(alive[-1]) if alive else None
        if ask.reconcile and held:
            last = bound(held[-1])
        self.step(
            inp.CollectionOpened(
                ask.request_id, ask.namespace, last, len(alive), ordered_keys=collection.ordered
            )
        )

    def plan_chunks(self, ask: eff.PlanChunks) -> Job:
        """Chunk ends may be planned from an old state, and the last of them may be ``upto`` or the last
        document."""
        yield "plan"
        if ask.namespace not in self.captured:
            self.step(inp.CollectionFailed(ask.request_id, ask.namespace, "not captured"))
            return
        collection = self.source.collections[ask.namespace]
        alive = set(collection.alive(self.rng.randint(0, self.source.clock)))
        within = KeyRange(ask.after, ask.upto, ask.closed)
        ids = [k for k in collection.members(within) if k in alive]
        ends = ids[ask.docs - 1 :: ask.docs][: ask.count]
        exhausted = len(ends) < ask.count
        if exhausted and len(ids) % ask.docs:
            ends.append(ids[-1])
        yield "planned"
        planned = tuple(map(bound, ends))
        self.step(inp.ChunksPlanned(ask.request_id, ask.namespace, planned, exhausted, ask.resumed))

    def members(self, namespace: Namespace, target: KeyRange | KeyList) -> list[str]:
        return self.source.collections[namespace].members(target)

    def majority(self) -> int:
        """A majority operation time, from a node that may lag."""
        return max(0, self.source.clock - self.rng.randint(0, self.scenario.lag))

    def write_low(self, window: WindowId) -> Job:
        yield "write low"
        if not self.scenario.in_stream:
            self.step(inp.LowWritten(window, at(self.majority())))
            return
        if self.world.happens("hidden"):
            self.world.hidden.add(window)
        time = self.source.mark(window, Edge.LOW)
        self.source.open_documents[window] = time
        yield "low written"
        self.step(inp.LowWritten(window, at(self.rng.randint(time, self.source.clock))))

    def read_chunk(self, ask: eff.ReadChunk) -> Job:
        """Not atomic: each reader reads document after document, at states that only move forward, perhaps
        behind."""
        yield "read"
        keys = self.source.collections[ask.namespace].members(ask.target)
        collection, after = self.source.collections[ask.namespace], when(ask.after_time)
        cut = self.rng.randint(0, len(keys))
        rows = frozenset(self.world.tables[ask.namespace].rows) if ask.rows_too else frozenset()
        buffer: dict[str, int] = {}
        ended = after
        for part in (keys[:cut], keys[cut:]):
            state = after
            for key in part:
                if self.rng.random() < 0.3:
                    yield "reading"
                if not ask.exact:
                    lags = self.rng.random() < 0.3
                    state = self.rng.randint(state, self.source.clock) if lags else self.source.clock
                doc = collection.state(key, state)
                if doc is not None and (ask.filter is None or doc % 2 == 0 or key in rows):
                    buffer[key] = doc
            ended = max(ended, state)
        if self.world.happens("read_fails") or self.world.happens("read_fails_definitely"):
            definite = self.world.last_fault == "read_fails_definitely"
            self.step(inp.WindowFailed(ask.window, "a reader failed", definite))
            return
        self.buffers[ask.window] = buffer
        yield "chunk read"
        self.step(inp.ChunkRead(ask.window, at(ended), len(buffer), size_bytes=100, seconds=0.1))

    def write_high(self, window: WindowId, not_before: int) -> Job:
        yield "write high"
        if not self.scenario.in_stream:
            causal = self.rng.random() > 0.1
            time = max(self.majority(), not_before) if causal else self.majority()
            self.step(inp.HighWritten(window, at(time)))
            return
        if self.scenario.strategy == "insert_delete":
            gone = window not in self.source.open_documents
            if gone and self.rng.random() < 0.5:
                self.step(inp.WindowFailed(window, "its open document was gone before it was deleted"))
                return
            time = self.source.clock if gone else self.source.mark(window, Edge.HIGH)
            self.source.open_documents.pop(window, None)
        else:
            time = self.source.mark(window, Edge.HIGH)
        yield "high written"
        self.step(inp.HighWritten(window, at(self.rng.randint(time, self.source.clock))))

    def discard(self, window: WindowId) -> Job:
        yield "discard"
        self.buffers.pop(window, None)
        self.delete_open_document(window)

    def delete_open_document(self, window: WindowId) -> None:
        """By the engine that tidies up, by a TTL index, by a user: the stream shows one and the same
        delete."""
        if self.source.open_documents.pop(window, None) is not None:
            self.source.mark(window, Edge.HIGH if self.scenario.strategy == "insert_delete" else Edge.LOST)

    def in_flight(self) -> list[Window]:
        return list(self.machine.windows.values()) if self.machine is not None else []

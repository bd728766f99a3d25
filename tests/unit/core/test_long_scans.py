"""`core.machine` over thousands of chunks: each lands once, in order, and nothing grows with their number."""

from __future__ import annotations

from collections import deque

import pytest

from snapshotter.core.machine import Machine
from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.chunks import KeyRange
from snapshotter.core.values.tasks import TaskState
from snapshotter.core.values.window import Edge, WatermarkObservation, WindowId
from tests.support.taken import taken

from .some import ORDERS, arrived, at, bound, machine, request

CHUNKS = 5_000
IDS = [f"k{n:05}" for n in range(1, CHUNKS + 1)]


class Answers:
    """Answers at once whatever the machine asks for; a batch comes when nothing else is left to do."""

    def __init__(self, it: Machine, in_stream: bool) -> None:
        self.it, self.in_stream, self.time, self.batch = it, in_stream, 10, -1
        self.waiting: deque[eff.Effect] = deque()
        self.seen: list[WatermarkObservation] = []
        self.landed: list[KeyRange] = []
        self.most_windows = self.most_effects = 0

    def step(self, happened: inp.Input) -> None:
        said = self.it.step(happened)
        self.waiting += said
        self.most_windows = max(self.most_windows, len(self.it.windows))
        self.most_effects = max(self.most_effects, len(said))

    def next_batch(self) -> None:
        self.batch, self.time = self.batch + 1, self.time + 1
        seen, self.seen = tuple(self.seen), []
        self.step(arrived(self.batch, self.time, observations=seen))
        while self.waiting:
            self.answer(self.waiting.popleft())

    def watermark(self, window: WindowId, edge: Edge) -> None:
        self.time += 1
        if self.in_stream:
            self.seen.append(WatermarkObservation(window, edge, at(self.time)))

    def answer(self, effect: eff.Effect) -> None:
        match effect:
            case eff.OpenCollection():
                self.step(inp.CollectionOpened("q1", ORDERS, bound(IDS[-1])))
            case eff.PlanChunks():
                after = IDS.index(effect.after.key) + 1 if effect.after else 0
                ends = tuple(map(bound, IDS[after : after + effect.count]))
                self.step(inp.ChunksPlanned("q1", ORDERS, ends, exhausted=False))
            case eff.WriteLow():
                self.watermark(effect.window, Edge.LOW)
                self.step(inp.LowWritten(effect.window, at(self.time)))
            case eff.ReadChunk():
                self.step(inp.ChunkRead(effect.window, at(self.time), 1))
            case eff.WriteHigh():
                self.watermark(effect.window, Edge.HIGH)
                self.step(inp.HighWritten(effect.window, at(self.time)))
            case eff.LandBatch():
                windows = [closing.window for closing in effect.closings]
                self.landed += [w.target for w in windows if isinstance(w.target, KeyRange)]
                outcomes = {window.id: inp.Outcome(1, 0) for window in windows}
                self.step(inp.BatchLanded(effect.batch_id, outcomes))


@pytest.mark.parametrize("in_stream", [True, False])
def test_five_thousand_chunks_of_one_document(in_stream: bool) -> None:
    """A chunk that closes is no call within that of the chunk before it: no step says more, and no more windows are in
    flight, at the last chunk than at the first; and every few of them have a batch, in which the stream lands."""
    answers = Answers(machine(in_stream=in_stream, chunk_docs=1, windows_in_flight=8), in_stream)
    answers.step(taken(answers.it, request()))
    while not answers.it.finished:
        answers.next_batch()
        assert answers.batch < CHUNKS
    (task,) = answers.it.progress.requests[0].tasks
    assert (task.state, task.rows, task.chunks) == (TaskState.DONE, CHUNKS, CHUNKS)
    assert [part.upto.key for part in answers.landed if part.upto] == IDS
    assert [part.after for part in answers.landed] == [None, *(part.upto for part in answers.landed[:-1])]
    assert answers.most_windows <= 16
    assert answers.most_effects <= 64
    assert answers.batch >= CHUNKS / 16

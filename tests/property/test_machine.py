"""The machine beside a tiny model, driven by Hypothesis: any answer to anything asked for, in any order.

The model knows one collection's chunks and which of them have landed. It says what must always hold: chunks land in
order and each exactly once in a run, an answer leads to exactly the next question, batches are landed, saved and only
then announced, and a restart from what was saved goes on after the last chunk that landed.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from snapshotter.core.machine import Machine
from snapshotter.core.values import effects as eff
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.chunks import Bound, KeyList, KeyRange
from snapshotter.core.values.commands import Pause, Resume
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.limits import Limits
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.core.values.tasks import TaskState
from snapshotter.core.values.window import Edge, WatermarkObservation, WindowId
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.taken import taken

ORDERS = Namespace("shop", "orders")
KEYS = [f"k{n}" for n in range(1, 8)]


def bound(key: str) -> Bound:
    return Bound(key.encode(), key)


class MachineBesideModel(RuleBasedStateMachine):
    @initialize(strategy=st.sampled_from(["stream", "cluster_time"]), windows=st.integers(1, 3))
    def begin(self, strategy: str, windows: int) -> None:
        self.in_stream = strategy == "stream"
        self.limits = Limits(
            chunk_docs=1, windows_in_flight=windows, rows_in_flight=windows, attempts=99, yield_seconds=0
        )
        self.time, self.batch, self.run = 10, 0, 0
        self.saved: dict[int, Progress] = {}
        self.frontier = ""
        self.incomplete: set[str] = set()
        self.requested = False
        self.paused = False
        self.commands = 0
        self.controls = Controls()
        self.restart()

    # The world, as far as the machine sees it

    def restart(self) -> None:
        """A new run, from the newest state before the batch that is due."""
        self.run += 1
        newest = max((n for n in self.saved if n < self.batch), default=None)
        progress = Progress() if newest is None else self.saved[newest]
        self.machine = Machine(
            f"r{self.run}", progress, self.limits, in_stream=self.in_stream, controls=self.controls
        )
        self.asked: list[eff.Effect] = []
        self.marks: list[WatermarkObservation] = []
        self.landing: eff.LandBatch | None = None
        self.failed: set[WindowId] = set()
        self.listed = {b.key for _, b in progress.rereads}
        task = self.task()
        self.frontier = task.frontier.key if task is not None and task.frontier else ""
        if self.requested:
            self.step(taken(self.machine, SnapshotRequest("q1", (Wanted(ORDERS),))))

    def task(self) -> Any:
        request = self.machine.progress.request("q1")
        return request.tasks[0] if request else None

    def now(self) -> ClusterTime:
        self.time += 1
        return ClusterTime(1, self.time)

    def step(self, happened: inp.Input) -> list[eff.Effect]:
        said = list(self.machine.step(happened))
        for effect in said:
            if isinstance(effect, eff.LandBatch):
                self.landing = effect
            elif isinstance(effect, eff.Discard):
                self.failed.add(effect.window)
            elif isinstance(effect, eff.SaveControls):
                self.controls = effect.controls
            elif not isinstance(effect, eff.SaveProgress | eff.Announce | eff.MakeBatch):
                self.asked.append(effect)
            if isinstance(effect, eff.WriteLow) and self.paused:
                assert self.machine.windows[effect.window].request_id is None, "paused, and yet a window"
        return said

    def answers(self, kind: type[eff.Effect], said: list[eff.Effect], window: WindowId) -> None:
        """A live window's answer leads to exactly the next question about it; a dead one's to nothing."""
        about = [e for e in said if getattr(e, "window", None) == window]
        assert [type(e) for e in about] == ([] if window in self.failed else [kind])

    # What may happen

    @precondition(lambda self: not self.requested)
    @rule()
    def request(self) -> None:
        self.requested = True
        self.step(taken(self.machine, SnapshotRequest("q1", (Wanted(ORDERS),))))

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        """Any of the questions that are open, in any order."""
        asked = self.asked.pop(data.draw(st.integers(0, len(self.asked) - 1)))
        match asked:
            case eff.OpenCollection():
                self.step(inp.CollectionOpened("q1", ORDERS, bound(KEYS[-1])))
            case eff.PlanChunks():
                after = asked.after.key if asked.after else ""
                ends = [bound(key) for key in KEYS if after < key][: asked.count]
                self.step(inp.ChunksPlanned("q1", ORDERS, tuple(ends), exhausted=False))
            case eff.WriteLow():
                time = self.now()
                self.marks.append(WatermarkObservation(asked.window, Edge.LOW, time))
                self.answers(eff.ReadChunk, self.step(inp.LowWritten(asked.window, time)), asked.window)
            case eff.ReadChunk():
                said = self.step(inp.ChunkRead(asked.window, self.now(), 1))
                self.answers(eff.WriteHigh, said, asked.window)
            case eff.WriteHigh():
                time = self.now()
                self.marks.append(WatermarkObservation(asked.window, Edge.HIGH, time))
                self.step(inp.HighWritten(asked.window, time))

    @precondition(lambda self: any(isinstance(e, eff.ReadChunk) for e in self.asked))
    @rule()
    def fail(self) -> None:
        """A read fails; its chunk is registered anew at once, or later, but never forgotten (see the invariants)."""
        asked = next(e for e in self.asked if isinstance(e, eff.ReadChunk))
        self.asked.remove(asked)
        self.step(inp.WindowFailed(asked.window, "reset"))

    @precondition(lambda self: self.landing is None)
    @rule(incomplete=st.lists(st.sampled_from([*KEYS, "k9"]), max_size=2, unique=True), streams=st.booleans())
    def arrive(self, incomplete: list[str], streams: bool) -> None:
        marks = self.marks if self.in_stream else []
        self.marks = []
        self.step(
            inp.BatchArrived(
                self.batch,
                ClusterTime(1, 1),
                self.now(),
                tuple(marks),
                incomplete={ORDERS: tuple(map(bound, incomplete))},
                streams=streams,
            )
        )
        self.incomplete = set(incomplete)
        self.chunks_close_in_order()

    def chunks_close_in_order(self) -> None:
        """Without a gap, from the frontier on."""
        assert self.landing is not None
        expected = [key for key in KEYS if key > self.frontier]
        closing = [c.window.target for c in self.landing.closings]
        ranges = [target.upto.key for target in closing if isinstance(target, KeyRange) and target.upto]
        assert ranges == expected[: len(ranges)]

    @precondition(lambda self: self.landing is not None)
    @rule(waited=st.floats(0, 20))
    def land(self, waited: float) -> None:
        landing, self.landing = self.landing, None
        assert landing is not None
        outcomes = {c.window.id: inp.Outcome(1, 0) for c in landing.closings}
        said = self.step(inp.BatchLanded(self.batch, outcomes, waited))
        kinds = [type(e) for e in said]
        assert kinds[0] is eff.SaveProgress
        last_told = max((n for n, kind in enumerate(kinds) if kind is eff.Announce), default=0)
        assert all(kind in (eff.SaveProgress, eff.Announce) for kind in kinds[: last_told + 1])
        save = said[0]
        assert isinstance(save, eff.SaveProgress)
        for closing in landing.closings:
            if isinstance(closing.window.target, KeyRange) and closing.window.target.upto:
                self.frontier = closing.window.target.upto.key
        listed = {b.key for _, b in save.progress.rereads}
        read = {
            b.key
            for c in landing.closings
            if isinstance(c.window.target, KeyList)
            for b in c.window.target.ids
        }
        assert self.incomplete <= listed, "an id without its document is read again after this batch"
        assert self.listed - read <= listed, "an id leaves the list only by being read"
        self.listed = listed
        self.saved[self.batch] = save.progress
        self.batch += 1

    @precondition(lambda self: self.landing is not None)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """Buffers are lost: a landing shrinks, to an unbroken run, and grows by nothing."""
        assert self.landing is not None
        before = self.landing.closings
        lost = frozenset(c.window.id for c in before if data.draw(st.booleans()))
        self.step(inp.BuffersLost(self.batch, lost))
        after = self.landing.closings
        assert set(after) <= set(before)
        assert not lost & {c.window.id for c in after}
        self.chunks_close_in_order()

    @rule()
    def crash(self) -> None:
        """At any moment; what was saved decides where the next run goes on."""
        self.restart()
        assert self.machine.quiet

    @rule(named=st.booleans())
    def pause(self, named: bool) -> None:
        """Of a request that exists; one that comes later is not meant."""
        self.commands += 1
        self.paused = self.paused or (self.task() is not None and not self.task().ended)
        self.step(taken(self.machine, Pause(f"s{self.commands}", frozenset({"q1"}) if named else None)))

    @rule(named=st.booleans())
    def resume(self, named: bool) -> None:
        self.commands += 1
        self.paused = False
        self.step(taken(self.machine, Resume(f"s{self.commands}", frozenset({"q1"}) if named else None)))

    # What must always hold

    @invariant()
    def the_frontier_is_the_end_of_what_landed(self) -> None:
        if hasattr(self, "machine"):
            task = self.task()
            if task is not None:
                assert (task.frontier.key if task.frontier else "") == self.frontier
                assert (task.state is TaskState.DONE) <= (self.frontier == KEYS[-1])

    @invariant()
    def a_pause_lasts_until_it_is_resumed(self) -> None:
        if hasattr(self, "machine") and self.task() is not None and not self.task().ended:
            request = self.machine.progress.request("q1")
            assert request is not None
            assert request.paused == self.paused

    @invariant()
    def no_id_is_in_two_windows(self) -> None:
        if hasattr(self, "machine"):
            held = [
                key for w in self.machine.windows.values() for key in [*KEYS, "k9"] if w.target.holds(key)
            ]
            assert len(held) == len(set(held))

    @invariant()
    def every_window_has_a_question_open_or_waits_for_a_batch(self) -> None:
        """So the machine cannot get stuck while somebody answers."""
        if hasattr(self, "machine"):
            asked = {getattr(e, "window", None) for e in self.asked}
            for window in self.machine.windows.values():
                assert window.id in asked or window.state == "closing"

    @invariant()
    def ids_to_read_again_are_on_the_list(self) -> None:
        if hasattr(self, "machine"):
            listed = {b.key for _, b in self.machine.progress.rereads}
            for window in self.machine.windows.values():
                if isinstance(window.target, KeyList):
                    assert {b.key for b in window.target.ids} <= listed

    def teardown(self) -> None:
        """Answer everything, batch after batch: the request comes to its end."""
        if not getattr(self, "requested", False):
            return
        self.resume(named=True)
        for _ in range(200):
            if self.machine.finished:
                return
            if self.landing is not None:
                self.land(0.0)
            elif self.asked:
                self.answer(_First())
            else:
                self.arrive([], streams=True)
        raise AssertionError(f"never finished: {vars(self.machine)}")


class _First:
    """Draws the smallest."""

    def draw(self, strategy: object) -> int:
        return 0


TestMachineBesideModel = MachineBesideModel.TestCase
TestMachineBesideModel.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)

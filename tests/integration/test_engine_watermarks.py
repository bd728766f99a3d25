"""What an engine leaves in its signal collection: nothing of a window that has ended, and never too early; or all of
it, where that is wanted."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from snapshotter.core.values.progress import Progress
from snapshotter.core.values.tasks import TaskState
from snapshotter.core.values.window import WindowId
from snapshotter.reading.watermarks import InsertedWatermarks
from snapshotter.state.progress_store import ProgressStore
from tests.support.engines import SECONDS, STRATEGIES, Lab, lab, limits
from tests.support.selection import rest_thorough

__all__ = ["lab"]

pytestmark = pytest.mark.slow  # every chunk of a backfill waits for batches
DOCUMENTS = 15


def prepared(lab: Lab, strategy: str, **options: object) -> Lab:
    """A collection that a backfill reads in five chunks, two at a time."""
    lab.with_options(strategy, snapshot__mode="no_data", **options)
    lab.collection("orders").insert_many([{"_id": n} for n in range(DOCUMENTS)])
    lab.tune = limits(3, 2)
    return lab


def documents(lab: Lab, edge: str = "(open|close)") -> list[str]:
    """Watermarks that are there."""
    return [d["_id"] for d in lab.signals.find({"_id": {"$regex": f"-{edge}$"}})]


@pytest.mark.parametrize("strategy", rest_thorough(STRATEGIES[:2], ["insert_insert"]))
def test_windows_that_have_landed_leave_nothing(
    lab: Lab, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their documents go while the engine runs, and none before the batch that closed its window has been saved."""
    prepared(lab, strategy)
    saved, removed = [0], [0]
    save, discard = ProgressStore.save, InsertedWatermarks.discard
    early: list[str] = []

    def saving(store: ProgressStore, progress: Progress) -> None:
        save(store, progress)
        saved.append(sum(task.chunks for request in progress.requests for task in request.tasks))

    def discarding(writer: InsertedWatermarks, windows: Sequence[WindowId]) -> None:
        removed.append(removed[-1] + len(windows))
        if removed[-1] > saved[-1]:
            early.append(f"{removed[-1]} removed, {saved[-1]} saved")
        discard(writer, windows)

    monkeypatch.setattr(ProgressStore, "save", saving)
    monkeypatch.setattr(InsertedWatermarks, "discard", discarding)
    with lab.running() as engine:
        done = engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS)
        assert (done.tasks[0].state, done.tasks[0].chunks) == (TaskState.DONE, 5)
        engine.until("the documents to be removed", lambda: removed[-1] == 5 and not documents(lab), SECONDS)
    assert early == []
    lab.assert_equal("orders")


@pytest.mark.thorough
def test_windows_may_leave_their_documents(lab: Lab) -> None:
    """Both of each window, also after a restart; they are in nobody's way there."""
    prepared(lab, "insert_insert", engine__watermarks__keep=True)
    for life in (1, 2):
        with lab.running() as engine:
            done = engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS)
            assert (done.tasks[0].state, done.tasks[0].chunks) == (TaskState.DONE, 5)
            opened, closed = [
                {re.sub(f"-{edge}$", "", name) for name in documents(lab, edge)} for edge in ("open", "close")
            ]
            assert opened == closed
            assert len(opened) == 5 * life
    lab.assert_equal("orders")


def test_a_window_that_is_given_up_while_it_is_opened_leaves_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped while the low watermark is on its way: its document comes after it was to be removed, and goes all the
    same."""
    prepared(lab, "insert_insert")
    reached, go = threading.Event(), threading.Event()
    low, discard = InsertedWatermarks.low, InsertedWatermarks.discard
    asked: list[WindowId] = []

    def opening(writer: InsertedWatermarks, windows: Sequence[WindowId]) -> Any:
        reached.set()
        assert go.wait(SECONDS)
        return low(writer, windows)

    def discarding(writer: InsertedWatermarks, windows: Sequence[WindowId]) -> None:
        discard(writer, windows)
        asked.extend(windows)

    monkeypatch.setattr(InsertedWatermarks, "low", opening)
    monkeypatch.setattr(InsertedWatermarks, "discard", discarding)
    with lab.running() as engine:
        request = engine.execute_snapshot(lab.name("orders"))
        assert reached.wait(SECONDS)
        engine.stop_snapshot()
        assert engine.wait(request, SECONDS).tasks[0].state is TaskState.STOPPED
        engine.until("the windows to be discarded", lambda: asked, SECONDS)
        first = len(asked)
        go.set()
        engine.until("the late documents to be removed", lambda: len(asked) > first, SECONDS)
        assert documents(lab) == []

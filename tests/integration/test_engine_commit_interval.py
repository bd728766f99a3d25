"""How soon a landing follows another, where each writes files again: changes wait, and nobody else does."""

from __future__ import annotations

import time
from itertools import count

import pytest

from snapshotter.core.rules import commit_interval
from tests.support.engines import SECONDS, Lab, lab

__all__ = ["lab"]

DOCUMENTS, BEHIND_SECONDS = 100, 4


@pytest.mark.guard
def test_changes_wait_for_dear_landings_and_nothing_else_does(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the landing of one change the next ones wait, however many come; a signal that comes meanwhile is taken
    ahead of the stream, carried out, and what waited lands with it. A stop does not wait, nor does ``--once``, which
    lands a backlog in several batches. In the end all rows are equal."""
    monkeypatch.setattr(commit_interval, "BYTES_A_SECOND", 1)  # so the longest wait, for any table
    monkeypatch.setattr(commit_interval, "LONGEST_SECONDS", SECONDS)
    lab.with_options(snapshot__mode="initial", delta__reader="any")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "n": 0} for n in range(DOCUMENTS)])
    number = count()

    def change() -> None:
        orders.update_one({"_id": next(number) % DOCUMENTS}, {"$inc": {"n": 1}})

    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        run = engine.engine.run_state
        assert run is not None

        def changes_that_wait() -> bool:
            change()
            return run.known_head.t - run.position.t >= BEHIND_SECONDS

        change()
        engine.until("a landing that has to be paid for", lambda: run.holding, SECONDS)
        landings, until = len(lab.commits("orders")), time.monotonic() + SECONDS
        engine.until("seconds of changes that wait", changes_that_wait, SECONDS)
        assert len(lab.commits("orders")) == landings
        lab.signal("execute-snapshot", "meanwhile", data__collections=[lab.name("orders")])
        engine.wait("meanwhile", SECONDS)
        assert len(lab.commits("orders")) > landings
        change()
        engine.until("the next wait", lambda: run.holding, SECONDS)
        change()
    assert time.monotonic() < until, "neither the signal nor the stop was put off"

    for _ in range(20):
        change()
    lab.with_options(engine__batch__max__events=4)
    landings, begun = len(lab.commits("orders")), time.monotonic()
    lab.engine().engine.run(once=True)
    assert len(lab.commits("orders")) - landings > 1
    assert time.monotonic() - begun < SECONDS
    lab.assert_equal("orders")

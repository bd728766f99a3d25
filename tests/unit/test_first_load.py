"""The initial load: which start has one, under which id, and what it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from snapshotter.configuration.snapshot_modes import MODES
from snapshotter.core.progress import Progress, RequestProgress, TaskState
from snapshotter.core.requests import Origin, SnapshotRequest, Wanted
from snapshotter.core.watermark_ids import Strategy
from snapshotter.engine.first_load import FirstLoad
from snapshotter.engine_config import EngineConfig
from snapshotter.state.generation import Generation
from snapshotter.state.journal import Journal
from snapshotter.state.storage import MemoryStorage
from streaming.namespaces import Namespace
from streaming.scope import CaptureScope

ORDERS, PEOPLE, GONE = (Namespace("shop", name) for name in ("orders", "people", "gone"))
FIRST, SECOND = Generation(), Generation(2)


@dataclass
class Start:
    """One start of an engine in some mode."""

    mode: str
    journal: Journal = field(default_factory=lambda: Journal(MemoryStorage()))
    skipped: int = 0
    filters: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config = EngineConfig(
            "e", "mongodb://x", "/w", {}, CaptureScope.parse({}), Strategy.CLUSTER_TIME,
            policy=MODES[self.mode], initial_filters=self.filters,
        )  # fmt: skip
        there: Callable[[], list[Namespace]] = lambda: [ORDERS, PEOPLE]  # noqa: E731
        self.load = FirstLoad(config, self.journal, there, lambda: [GONE, ORDERS], self._skip)

    def _skip(self) -> None:
        self.skipped += 1

    def begins(self, progress: Progress, generation: Generation = FIRST) -> list[str]:
        return [request.id for request in self.load.requests(progress, generation)]


def state(batch: int, *loads: tuple[str, TaskState]) -> Progress:
    """Progress of a batch that knows these initial loads."""
    requests = tuple(
        RequestProgress.accepted(SnapshotRequest(name, (Wanted(ORDERS),), Origin.INITIAL))
        for name, _ in loads
    )
    ended = tuple(
        request.with_task(replace(request.tasks[0], state=how))
        for request, (_, how) in zip(requests, loads, strict=True)
    )
    return Progress(batch_id=batch, requests=ended)


NOTHING = Progress()
DONE = state(7, ("initial", TaskState.DONE))
LOADING = state(7, ("initial", TaskState.RUNNING))


@pytest.mark.parametrize(
    ("mode", "first", "later"),
    [
        ("always", ["initial"], ["initial-2"]),
        ("initial", ["initial"], []),
        ("initial_only", ["initial"], []),
        ("no_data", [], []),
        ("when_needed", ["initial"], []),
    ],
)
def test_a_start_reads_as_its_mode_says(mode: str, first: list[str], later: list[str]) -> None:
    """The first one, and one that finds a position; where it reads nothing, that is said once."""
    start = Start(mode)
    assert start.begins(NOTHING) == first
    assert start.skipped == (not first)
    start = Start(mode)
    assert start.begins(DONE) == later
    assert start.skipped == (not later)


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_load_that_goes_on_is_enough(mode: str) -> None:
    """No second one beside it, and nothing is said to be skipped."""
    start = Start(mode)
    assert start.begins(LOADING) == []
    assert start.skipped == 0


def test_a_start_reads_once() -> None:
    """Whatever many runs it takes; before any batch has been saved it is asked for again in the same words."""
    start = Start("always")
    assert start.begins(DONE) == ["initial-2"]
    assert [r.id for r in start.journal.requests] == ["initial-2"]
    assert start.begins(DONE) == []
    start = Start("initial")
    assert start.begins(NOTHING) == start.begins(NOTHING) == ["initial"]
    assert start.journal.requests == ()


def test_a_lost_position_reads_everything_whatever_the_mode_says_of_a_start() -> None:
    """Also what has a table and is no more, and with reconcile: what was deleted meanwhile has no event. A collection
    that is filtered cannot be reconciled."""
    start = Start("no_data", filters={"shop.people": '{"a": 1}'})
    assert start.begins(state(-1, ("initial", TaskState.DONE)), SECOND) == ["initial-2"]
    (load,) = start.load.requests(NOTHING, SECOND)
    assert [(w.namespace, w.filter, w.reconcile) for w in load.wanted] == [
        (ORDERS, None, True),
        (PEOPLE, '{"a": 1}', False),
        (GONE, None, True),
    ]
    assert start.begins(DONE, SECOND) == [], "it has streamed since"


def test_an_initial_load_reads_what_its_filters_match() -> None:
    """Of the collections that are named; the others are read whole."""
    start = Start("initial", filters={"shop.orders": '{"a": 1}'})
    (load,) = start.load.requests(NOTHING, FIRST)
    assert [(w.namespace, w.filter) for w in load.wanted] == [(ORDERS, '{"a": 1}'), (PEOPLE, None)]


def test_a_load_has_an_id_of_its_own() -> None:
    """Also where the request that had it ended long ago, and only its id is remembered."""
    start = Start("always")
    assert start.begins(DONE) == ["initial-2"]
    start.journal.forget(state(8, ("initial-2", TaskState.DONE)))
    again = Start("always", start.journal)
    assert again.begins(DONE) == ["initial-3"]

"""When the source is told to wait, by the machine as it stands and by what landings cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from snapshotter.configuration.settings import Settings
from snapshotter.core.machine import Machine
from snapshotter.core.rules.commit_interval import BY_COST, CommitInterval, Cost
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.controls import Controls
from snapshotter.engine.assembly import engine_config
from snapshotter.engine.hints import HintsWriter
from snapshotter.engine.source_pacing import SourcePacing, pacing_of
from snapshotter.landing.batch_times import BatchTimes
from snapshotter.landing.batch_trailer import BatchTrailer
from snapshotter.landing.targets.target import KEYS_SCHEMA, Landed, LandedCollection
from streaming.positions import ClusterTime
from streaming.source.hints import read_hints
from tests.unit.core.some import ITEMS, ORDERS, arrived, machine, request

MB = 1_000_000


def landed(**copied: int) -> Landed:
    """Tables that were written, by what was copied there."""
    tables = {"orders": ORDERS, "items": ITEMS}
    keys = KEYS_SCHEMA.empty_table()
    return Landed(
        {
            tables[name]: LandedCollection(tables[name], keys, wrote=True, cost=Cost(1_000, size))
            for name, size in copied.items()
        }
    )


@dataclass(slots=True)
class Paced:
    """A pacing by a clock that is set by hand, the machine that it goes by, and what the source is told."""

    path: Path
    interval: CommitInterval = BY_COST
    now: float = 100.0
    machine: Machine = field(default_factory=machine)
    pacing: SourcePacing = field(init=False)
    batch: int = 0

    def __post_init__(self) -> None:
        times = BatchTimes(clock=lambda: self.now)
        hints = HintsWriter(self.path / "hints.json")
        self.pacing = SourcePacing(hints, 4, 1e9, 0.0, fresh=False, interval=self.interval, times=times)

    def lands(self, told: Landed, seconds: float = 2.0) -> None:
        """The next batch begins now, and takes so long."""
        self.batch += 1
        self.pacing.times.begin()
        self.machine.step(arrived(self.batch, self.batch))
        self.now += seconds
        self.machine.step(inp.BatchLanded(self.batch, {}, self.pacing.land(told)))
        self.pacing.update(self.machine)

    def told(self) -> int:
        """By how many seconds the stream has to be ahead, as it is now."""
        self.pacing.update(self.machine)
        return read_hints(str(self.path / "hints.json")).wait_seconds


@pytest.fixture
def paced(tmp_path: Path) -> Paced:
    return Paced(tmp_path)


def test_changes_wait_for_a_landing_that_has_to_be_paid_for(paced: Paced) -> None:
    """From the beginning of the one to that of the next, by the clock, however still the source's own time stands; a
    stream that is further behind is not held up."""
    paced.lands(landed(orders=30 * MB))
    assert paced.told() == 31
    paced.now += 27.9
    assert paced.told() == 31
    assert paced.pacing.lands_in(paced.machine) == pytest.approx(0.1)
    paced.now += 0.2
    assert paced.told() == 0
    assert paced.pacing.lands_in(paced.machine) is None


def test_marked_rows_and_slow_landings_are_followed_at_once(paced: Paced) -> None:
    """The first copy nothing; behind the others enough time has passed. A batch that has written nothing changes
    nothing about what is waited for."""
    paced.lands(landed(orders=0))
    assert paced.told() == 0
    paced.lands(landed(orders=8 * MB), seconds=9.0)
    assert paced.told() == 0
    paced.lands(landed(orders=30 * MB))
    paced.lands(Landed())
    assert paced.told() == 31


def test_what_is_set_holds_for_tables_of_every_kind(tmp_path: Path) -> None:
    """And 0 waits for none."""
    (tmp_path / "never").mkdir()
    fixed = Paced(tmp_path, CommitInterval(10.0))
    fixed.lands(landed(orders=0, items=0))
    assert fixed.told() == 11
    never = Paced(tmp_path / "never", CommitInterval(0.0))
    never.lands(landed(orders=500 * MB))
    assert never.told() == 0


def test_a_request_and_a_stop_end_the_wait(paced: Paced) -> None:
    """A request from when it is taken until it has ended or an operator has paused it; a stop at once."""
    paced.lands(landed(orders=30 * MB))
    paced.machine.step(inp.SignalsTaken((request("q1"),), Controls()))
    assert paced.told() == 0
    assert not paced.pacing.waits(paced.machine)
    stopping = Paced(paced.path)
    stopping.lands(landed(orders=30 * MB))
    assert stopping.told() == 31
    stopping.machine.step(inp.Draining())
    assert stopping.told() == 0


def test_a_batch_is_waited_for_until_it_is_full(tmp_path: Path) -> None:
    """By how dense events were of late."""
    paced = Paced(tmp_path, CommitInterval(batch_events=1_000))
    paced.pacing.hints.learn(500, 5.0)
    paced.lands(landed(orders=30 * MB))
    assert paced.told() == 10


@pytest.mark.parametrize(("text", "seconds"), [(None, None), ("0", 0.0), ("2500", 2.5)])
def test_how_often_landings_come(tmp_path: Path, text: str | None, seconds: float | None) -> None:
    """``engine.commit.interval.ms``: unset goes by what they cost, which is something else than 0; ``--once`` waits for
    none."""
    options = {
        "name": "shop",
        "mongodb.connection.string": "mongodb://localhost:27017/?replicaSet=rs0",
        "delta.warehouse": "/lake",
        **({} if text is None else {"engine.commit.interval.ms": text}),
    }
    config = engine_config(Settings.from_options(options, {}))
    where = config, HintsWriter(tmp_path / "hints.json"), 0.0
    pacing = partial(pacing_of, *where, fresh=False, full=lambda: False)
    assert pacing(once=False).interval == CommitInterval(seconds, 200_000)
    assert pacing(once=True).interval == CommitInterval(0.0, 200_000)


def test_the_source_knows_what_batches_had(tmp_path: Path) -> None:
    """From the first batch on, of which it cannot be told how dense it was."""
    paced = Paced(tmp_path)
    for end in (10, 20):
        paced.pacing.learn(BatchTrailer(ClusterTime(end, 1), None, 7, 700, {ORDERS: 5, ITEMS: 2}))
        assert read_hints(str(tmp_path / "hints.json")).known == tuple(sorted((ORDERS, ITEMS)))

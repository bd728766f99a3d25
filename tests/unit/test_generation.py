"""Generations of a position: a new checkpoint and a new history, in one step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.gaps import Cause as Why
from snapshotter.core.values.gaps import Gap
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.state.generation import Cause, Generation, current
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import MemoryStorage
from streaming.delta.table_identity import TableMark
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.unit.core.some import bound

ORDERS, PEOPLE = Namespace("shop", "orders"), Namespace("shop", "people")
TASK = TaskProgress(ORDERS, last=bound("9"))


def request(name: str, state: TaskState) -> RequestProgress:
    return RequestProgress(
        name, Origin.SIGNAL, (TaskProgress(ORDERS, state=state, last=bound("9")),), digest="d"
    )


def test_the_first_one_has_the_plain_names() -> None:
    """So that state of before there were generations is the first one."""
    assert current(MemoryStorage()) == Generation(1)
    assert (Generation().checkpoint, Generation().progress) == ("checkpoint", "progress")
    assert (Generation(3).checkpoint, Generation(3).progress) == ("checkpoint-3", "progress-3")


def test_a_new_one_knows_what_had_ended() -> None:
    """No batch, no position, nothing that was under way; but a signal of before is not carried out again. The old
    history stays."""
    storage = MemoryStorage()
    old = ProgressStore(storage)
    old.save(
        Progress(8, ClusterTime(9, 1), (request("done", TaskState.DONE), request("half", TaskState.RUNNING)))
    )
    new = old.next_generation()
    assert new.generation == current(storage) == Generation(2, cause=Cause.LOST)
    begun = new.load_before(0)
    assert (begun.batch_id, begun.position) == (-1, ClusterTime(0, 0))
    assert [(r.id, r.digest) for r in begun.requests] == [("done", "d")]
    new.save(Progress(0))
    assert (new.newest() or Progress()).batch_id == 0
    assert (old.newest() or Progress()).batch_id == 8
    assert new.next_generation().generation == Generation(3, cause=Cause.LOST)


@pytest.mark.parametrize(
    ("offsets", "newest"),
    [((), 8), ((3, 4, 5), 8), ((7, 8), None), ((8, 9), None)],
    ids=["removed", "an older one", "as saved", "a batch under way"],
)
def test_a_checkpoint_that_does_not_know_what_was_saved(offsets: tuple[int, ...], newest: int | None) -> None:
    """It is another one: a new generation begins, and not because the source lost the position. Its numbers begin
    anew in a folder of its own, so none of its states is taken for an old one."""
    storage = MemoryStorage()
    old = ProgressStore(storage)
    assert old.unknown_to_checkpoint() is None, "nothing is saved"
    old.save(Progress(8, requests=(request("done", TaskState.DONE),)))
    for batch in offsets:
        storage.write_text(f"checkpoint/offsets/{batch}", "v1")
    assert old.unknown_to_checkpoint() == newest
    if newest is not None:
        new = old.next_generation(removed=True)
        assert new.generation == current(storage) == Generation(2, removed=True, cause=Cause.REMOVED)
        assert (Generation(2).lost, new.generation.lost) == (True, False)
        assert new.unknown_to_checkpoint() is None
        for batch in range(25):
            new.save(Progress(batch))
        assert (new.newest() or Progress()).batch_id == 24
        assert new.load_before(24).batch_id == 23


@pytest.mark.parametrize("heals", [True, False])
def test_a_gap_is_known_to_the_generation_behind_it(heals: bool) -> None:
    """Where it is healed nothing of before is believed. Where the stream only goes on, tables and suspensions stay
    known, every table is unread, and a load that had not ended is begun anew: its collection has no mark. Gaps that are
    open stay open either way."""
    storage = MemoryStorage()
    old = ProgressStore(storage)
    loading = RequestProgress("initial", Origin.INITIAL, (replace(TASK, state=TaskState.RUNNING),))
    earlier = Gap(2, ClusterTime(1, 1), Why.HISTORY, "gone", False, 5, left=frozenset({PEOPLE}))
    old.save(
        Progress(
            8,
            ClusterTime(9, 1),
            (loading,),
            coverage=Coverage(frozenset({ORDERS, PEOPLE})),
            tables={PEOPLE: TableMark("t", 4)},
            gaps=(earlier,),
        )
    )
    gap = Gap(0, ClusterTime(9, 1), Why.HISTORY, "gone", heals, 7)
    new = old.next_generation(gap=gap)
    assert (
        new.generation
        == current(storage)
        == Generation(2, cause=Cause.LOST, heals=heals, gap=replace(gap, number=2))
    )
    assert (new.generation.lost, new.generation.heal) == (True, heals)
    begun = new.load_before(0)
    assert (begun.batch_id, begun.requests, begun.gaps) == (-1, (), (earlier,))
    if heals:
        assert (begun.coverage, begun.tables) == (None, {})
    else:
        assert begun.coverage == Coverage(unread=frozenset({PEOPLE}))
        assert begun.tables == {PEOPLE: TableMark("t", 4)}


def test_a_generation_of_an_earlier_version_heals() -> None:
    """It was begun to read everything again."""
    storage = MemoryStorage()
    storage.write_text("generation.json", '{"format": 1, "generation": 2}')
    assert current(storage) == Generation(2)
    assert current(storage).heal


def test_an_engine_finds_the_one_in_force() -> None:
    """After a restart, and for whoever else looks."""
    storage = MemoryStorage()
    ProgressStore(storage).next_generation().save(Progress(3))
    assert (ProgressStore(storage).newest() or Progress()).batch_id == 3


def test_a_file_of_somebody_else_is_refused() -> None:
    """By name, and nothing is guessed."""
    storage = MemoryStorage()
    storage.write_text("generation.json", '{"format": 9, "generation": 2}')
    with pytest.raises(ValueError, match=r"generation\.json is not of format 1"):
        current(storage)

"""`snapshotter.state.lock`: one engine to a name, with real processes and real files."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from snapshotter.state.lock import EngineLock, LockError, LockHeldError, LockLostError
from snapshotter.state.process import Owner, is_known_dead, this_process
from snapshotter.state.storage import LocalStorage, MemoryStorage, Storage, StorageError

SPAWN = multiprocessing.get_context("spawn")
ELSEWHERE = Owner("elsewhere", 7, "another machine", "1")


class Clock:
    """A clock that moves when told to; milliseconds."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def locks(storage: Storage, clock: Callable[[], int]) -> tuple[EngineLock, EngineLock]:
    """Two engines of one name, the second on another machine."""
    return (
        EngineLock(storage, "shop/orders", this_process(), clock, ttl_ms=1000),
        EngineLock(storage, "shop/orders", ELSEWHERE, clock, ttl_ms=1000),
    )


def test_a_second_engine_is_refused_with_the_address_of_the_first() -> None:
    """The message says who holds the lock, and the error carries the owner and since when."""
    clock = Clock()
    first, second = locks(MemoryStorage(), clock)
    assert first.acquire() == 1
    clock.now_ms += 500
    with pytest.raises(
        LockHeldError, match=f"process {os.getpid()}, token 1, last heard of 500 ms ago"
    ) as held:
        second.acquire()
    assert held.value.owner == this_process()
    assert held.value.since_ms == 1_000_000
    assert second.token is None
    assert first.check() == 1


def test_a_released_lock_is_free_and_its_token_is_spent() -> None:
    """Tokens only grow: whoever comes next, the same engine included, gets a larger one."""
    first, second = locks(MemoryStorage(), Clock())
    assert first.acquire() == 1
    first.release()
    assert second.acquire() == 2
    second.release()
    assert first.acquire() == 3


def test_a_silent_holder_is_replaced_and_learns_of_it() -> None:
    """After the time to live the lock is taken over; the old holder can neither renew nor go on."""
    clock = Clock()
    first, second = locks(MemoryStorage(), clock)
    second.acquire()
    clock.now_ms += 1000
    assert first.acquire() == 2
    for late in (second.check, second.renew):
        with pytest.raises(LockLostError, match=r"taken over by host .*, token 2"):
            late()
    second.release()
    assert first.check() == 2


def test_a_holder_that_renews_keeps_the_lock() -> None:
    """Renewing starts the time to live again."""
    clock = Clock()
    first, second = locks(MemoryStorage(), clock)
    second.acquire()
    for _ in range(5):
        clock.now_ms += 999
        second.renew()
        with pytest.raises(LockHeldError):
            first.acquire()


class LosingAnswers(MemoryStorage):
    """A storage whose answers to whoever makes a file are lost, once it is made: its client fails, or asks again."""

    def __init__(self, *, fails: bool) -> None:
        super().__init__()
        self._fails = fails

    def create_text(self, name: str, text: str) -> bool:
        super().create_text(name, text)
        if self._fails:
            raise StorageError(f"no answer for {name}")
        return super().create_text(name, text)


@pytest.mark.parametrize("fails", [True, False])
def test_a_lock_is_had_although_the_answer_was_lost(fails: bool) -> None:
    """Also by two engines of one process at one moment: each knows its own file, and the second is refused."""
    storage, clock = LosingAnswers(fails=fails), Clock()
    first, second = (EngineLock(storage, "shop/orders", this_process(), clock, ttl_ms=1000) for _ in range(2))
    assert first.acquire() == 1
    with pytest.raises(LockHeldError):
        second.acquire()
    first.renew()
    assert first.check() == 1
    first.release()
    assert second.acquire() == 2


def test_misuse_is_named() -> None:
    """Acquiring twice, or checking what was never acquired, is a mistake; releasing nothing is not."""
    first, _ = locks(MemoryStorage(), Clock())
    with pytest.raises(LockError, match="acquire it first"):
        first.check()
    first.release()
    first.acquire()
    with pytest.raises(LockError, match="holds the lock of"):
        first.acquire()


def test_a_deleted_lock_is_lost() -> None:
    """Someone who deletes the lock's files by hand stops the engine rather than letting two run."""
    storage = MemoryStorage()
    first, _ = locks(storage, Clock())
    first.acquire()
    storage.delete("lock/shop~2Forders/0000000001")
    with pytest.raises(LockLostError, match="deleted"):
        first.check()


def test_old_tokens_are_swept_up(tmp_path: Path) -> None:
    """The folder does not grow with restarts; the newest tokens stay."""
    storage = LocalStorage(tmp_path)
    for _ in range(6):
        lock, _ = locks(storage, Clock())
        lock.acquire()
        lock.release()
    assert storage.list_names("lock/shop~2Forders") == ["0000000004", "0000000005", "0000000006"]


def test_a_killed_holder_is_replaced_at_once(tmp_path: Path) -> None:
    """A process of this machine that was killed needs no waiting for the time to live."""
    ours, theirs = SPAWN.Pipe()
    child = SPAWN.Process(target=_hold, args=(tmp_path, theirs))
    child.start()
    assert ours.poll(60)
    assert ours.recv() == 1
    clock = Clock()
    lock = EngineLock(LocalStorage(tmp_path), "orders", this_process(), clock)
    with pytest.raises(LockHeldError, match=f"process {child.pid}"):
        lock.acquire()
    os.kill(child.pid or 0, signal.SIGKILL)
    child.join(60)
    assert lock.acquire() == 2


def test_a_process_id_used_again_is_not_taken_for_the_holder() -> None:
    """The same id with another start is another process; of another machine, nothing can be proven."""
    here = this_process()
    assert not is_known_dead(here, here)
    assert is_known_dead(replace(here, started="1"), here)
    assert not is_known_dead(ELSEWHERE, here)
    assert not is_known_dead(replace(here, started=None), here)


@pytest.mark.parametrize("round_", range(3))
def test_of_racing_processes_exactly_one_wins(tmp_path: Path, round_: int) -> None:
    """Four processes reach for a stale lock at the same moment: one gets token 2, the others are refused."""
    stale = EngineLock(LocalStorage(tmp_path), "orders", ELSEWHERE, lambda: 0)
    assert stale.acquire() == 1
    gate = SPAWN.Barrier(4)
    pipes = [SPAWN.Pipe() for _ in range(4)]
    children = [SPAWN.Process(target=_race, args=(tmp_path, gate, theirs)) for _, theirs in pipes]
    for child in children:
        child.start()
    outcomes = [ours.recv() if ours.poll(60) else "nothing" for ours, _ in pipes]
    for ours, _ in pipes:
        ours.send("end")  # the winner lives until all have tried, so that nobody finds it dead
    for child in children:
        child.join(60)
    assert sorted(map(str, outcomes)) == ["2", "held", "held", "held"]


def _hold(folder: Path, pipe: Connection) -> None:
    lock = EngineLock(LocalStorage(folder), "orders", this_process(), Clock())
    pipe.send(lock.acquire())
    pipe.recv()


def _race(folder: Path, gate: Barrier, pipe: Connection) -> None:
    lock = EngineLock(LocalStorage(folder), "orders", this_process(), lambda: 10_000_000)
    gate.wait(60)
    try:
        pipe.send(lock.acquire())
    except LockHeldError:
        pipe.send("held")
    pipe.recv()


def test_a_garbled_lock_stops_everyone() -> None:
    """A file that is no lock is not taken for a free one: the message says where it lies and what is in it."""
    storage = MemoryStorage()
    storage.write_text("lock/shop~2Forders/0000000004", "{garbled")
    first, _ = locks(storage, Clock())
    with pytest.raises(LockError, match=r"memory/lock/shop~2Forders/0000000004 is no lock.*garbled"):
        first.acquire()

"""An engine's session, while it is being made."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from snapshotter.engine.interrupts import NOT_STARTED
from snapshotter.engine.session import Session
from snapshotter.errors import Stopped


class Made:
    """In the place of a session."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()


def test_it_is_made_once_and_off_the_main_thread() -> None:
    """On the main one Spark takes Ctrl+C for itself."""
    threads: list[threading.Thread] = []

    def make() -> Any:
        threads.append(threading.current_thread())
        return Made()

    session = Session(make)
    assert not session.ours
    assert session.get() is session.get()
    (thread,) = threads
    assert thread is not threading.main_thread()
    assert session.ours
    session.stop()
    assert cast(Any, session.get()).stopped.is_set()


def test_what_keeps_it_from_being_made_is_raised() -> None:
    """To whoever waits for it, and again to the next one."""

    def make() -> SparkSession:
        raise ValueError("no memory")

    session = Session(make)
    for _ in range(2):
        with pytest.raises(ValueError, match="no memory"):
            session.get()
    session.stop()


def test_a_stop_ends_the_wait() -> None:
    """Whoever waits may leave; a session that comes too late is stopped."""
    stop, go, made = threading.Event(), threading.Event(), Made()

    def make() -> Any:
        stop.set()
        assert go.wait(60)
        return made

    with pytest.raises(Stopped, match=NOT_STARTED):
        Session(make, stop).get()
    go.set()
    assert made.stopped.wait(60)

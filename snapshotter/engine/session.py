"""The Spark session of an engine: one that was given, or one that is made when it is first needed, and is ours to stop.

Spark takes its time to start: seconds, or minutes on a busy machine. What can be done before that is done before; and
it is made on a thread of its own, so that whoever waits for it may leave. (On the main thread Spark would also put a
handler of its own in the place of ours for Ctrl+C, which cancels all that is under way.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from pyspark.sql import SparkSession

from snapshotter.engine.interrupts import NOT_STARTED
from snapshotter.errors import Stopped

_POLL_SECONDS = 0.1
Given = SparkSession | Callable[[], SparkSession]
"""A session, or what makes one."""


class Session:
    """``given``: a session, which stays its owner's; or what makes one. ``stop`` ends the wait for it."""

    def __init__(self, given: Given, stop: threading.Event | None = None) -> None:
        self._make = None if isinstance(given, SparkSession) else given
        self._spark = given if isinstance(given, SparkSession) else None
        self._stop = stop or threading.Event()
        self._one_at_a_time = threading.Lock()

    @property
    def started(self) -> bool:
        return self._spark is not None

    @property
    def ours(self) -> bool:
        """Whether it is one that was made here."""
        return self._make is not None and self.started

    def get(self) -> SparkSession:
        """The session, made if need be. Raises Stopped where the stop comes before it is there, and what keeps it from
        being made."""
        with self._one_at_a_time:
            if self._spark is None:
                assert self._make is not None
                self._spark = self._awaited(self._make)
            return self._spark

    def _awaited(self, make: Callable[[], SparkSession]) -> SparkSession:
        made: SimpleQueue[SparkSession | BaseException] = SimpleQueue()
        left = threading.Event()

        def work() -> None:
            try:
                session = make()
            except BaseException as error:  # noqa: BLE001 - raised by whoever waits
                made.put(error)
                return
            made.put(session)
            if left.is_set():
                session.stop()  # nobody will have it

        threading.Thread(target=work, name="spark-start", daemon=True).start()
        while True:
            try:
                found = made.get(timeout=_POLL_SECONDS)
            except Empty:
                if not self._stop.is_set():
                    continue
                left.set()
                raise Stopped(NOT_STARTED) from None
            if isinstance(found, BaseException):
                raise found
            return found

    def stop(self) -> None:
        """Stop the session that was made; harmless where none was."""
        if self._make is not None and self._spark is not None:
            self._spark.stop()

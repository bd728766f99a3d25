"""The Spark session of an engine: one that was given, or one that is made when it is first needed, and is ours to stop.

Spark takes its time to start: seconds, or minutes on a busy machine. What can be done before that is done before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pyspark.sql import SparkSession


class Session:
    """``given``: a session, which stays its owner's; or what makes one."""

    def __init__(self, given: SparkSession | Callable[[], SparkSession]) -> None:
        self._make = None if isinstance(given, SparkSession) else given
        self._spark = given if isinstance(given, SparkSession) else None
        self._one_at_a_time = threading.Lock()
        self.starting = False

    @property
    def started(self) -> bool:
        return self._spark is not None

    def get(self) -> SparkSession:
        """The session, made if need be."""
        with self._one_at_a_time:
            if self._spark is None:
                assert self._make is not None
                self.starting = True
                try:
                    self._spark = self._make()
                finally:
                    self.starting = False
            return self._spark

    def stop(self) -> None:
        """Stop the session that was made; harmless where none was."""
        if self._make is not None and self._spark is not None:
            self._spark.stop()

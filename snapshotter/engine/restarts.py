"""Which error that ended a run is worth another run by the same engine, and how often in a row.

What errors say of that is in `snapshotter.failures`. ``errors.max.retries`` bounds all of them; a source that is out of
reach is bounded by nothing else.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

from pyspark.sql import SparkSession

from snapshotter.errors import SESSION_LOST, GaveUp, describe
from snapshotter.failures import Fault, classify

STEADY_SECONDS = 60.0
"""A run that went on for longer, and landed something, has left the failures before it behind."""


def allowed(fault: Fault, retries_max: int) -> int | None:
    """Retries in a row; None: no bound. ``retries_max`` is the option's, -1 for none."""
    bounds = [bound for bound in (fault.retries, retries_max) if bound is not None and bound >= 0]
    return min(bounds, default=None)


@dataclass(slots=True)
class Restarts:
    """The failures in a row of one engine's runs, by fault. ``retries_max`` is ``errors.max.retries``."""

    retries_max: int
    _failed: Counter[Fault] = field(default_factory=Counter)

    def note(self, error: BaseException, fault: Fault, *, steady: bool) -> GaveUp | None:
        """Note that a run has ended with an error that may pass, of the kind ``fault``. ``steady``: it had gone well
        before, so failures are counted anew. Returns what to end the engine with once it has been tried often
        enough."""
        if steady:
            self._failed.clear()
        self._failed[fault] += 1
        bound = allowed(fault, self.retries_max)
        if bound is None or self._failed[fault] <= bound:
            return None
        return gave_up(bound, error, fault, by_option=bound == self.retries_max)


def gave_up(retries: int, error: BaseException, fault: Fault, *, by_option: bool) -> GaveUp:
    """The error that ends the engine after so many ``retries`` in a row. ``fault`` is the kind of ``error``, the last
    one; ``by_option``: ``errors.max.retries`` was the bound, which the message says then."""
    found = describe(error)
    if fault is Fault.SESSION_LOST:
        said = f"Spark's session is gone: {found.message}"
        return GaveUp(said, SESSION_LOST, condition="spark-lost")
    option = " (errors.max.retries)" if by_option else ""
    return GaveUp(f"gave up after {retries} retries{option}: {found.message}", found.next_step)


def fault_of(error: BaseException, spark: SparkSession) -> Fault:
    """What kind of error ended a run. Without a session there is no other run, whatever the error says of itself."""
    try:
        lives = not cast(Any, spark.sparkContext)._jsc.sc().isStopped()
    except Exception:  # noqa: BLE001 - the JVM can't be asked, or there is no context any more: that is the answer
        lives = False
    return classify(error) if lives else Fault.SESSION_LOST

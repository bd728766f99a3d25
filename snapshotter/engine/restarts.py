"""Which error that ended a run is worth another run, by the same engine.

What MongoDB and its driver say is classified in ``streaming.mongo_errors``. Spark has no classes for what may pass,
only words. Lost blocks always may; that a Python process did not start in time may be a machine short of time, or an
interpreter that can't start at all, so it is tried a few times.
"""

from __future__ import annotations

from snapshotter.errors import PYTHON_TOO_LATE, GaveUp, describe
from snapshotter.landing.commit import LOST_BLOCK
from streaming.mongo_errors import classify

_LATE_MAX = 3


def worth_another_run(error: BaseException, failed: int) -> bool:
    """Whether the same run, begun again, may go well; ``failed`` runs in a row did not. Never raises."""
    words = str(error)
    late = PYTHON_TOO_LATE in words and failed <= _LATE_MAX
    return classify(error).retriable or LOST_BLOCK in words or late


def gave_up(retries: int, error: BaseException) -> GaveUp:
    """The error after so many retries."""
    found = describe(error)
    return GaveUp(f"gave up after {retries} retries (errors.max.retries): {found.message}", found.next_step)

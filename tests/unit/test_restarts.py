"""Which errors of a run are worth another one, and how often."""

from __future__ import annotations

import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from snapshotter.engine.restarts import Restarts, allowed
from snapshotter.errors import EXIT_GAVE_UP, GaveUp, exit_code
from snapshotter.failures import ENVIRONMENT_RETRIES, UNKNOWN_RETRIES, Fault, classify
from snapshotter.state.storage import StorageError

AWAY = AutoReconnect("the network is down")
NOBODY_KNOWS = OperationFailure("what", code=99_999)
LATE = RuntimeError("org.apache.spark.SparkException: Python worker failed to connect back.")


def tries(restarts: Restarts, error: Exception, most: int = 100) -> int:
    """How many runs in a row may fail with the error before the engine gives up."""
    return next((n for n in range(most) if restarts.note(error, classify(error), steady=False)), most)


@pytest.mark.parametrize(
    ("fault", "option", "retries"),
    [
        (Fault.TRANSIENT, -1, None),
        (Fault.TRANSIENT, 5, 5),
        (Fault.TRANSIENT, 0, 0),
        (Fault.ENVIRONMENT, 0, 0),
        (Fault.ENVIRONMENT, -1, ENVIRONMENT_RETRIES),
        (Fault.ENVIRONMENT, 2, 2),
        (Fault.INTERRUPTED, 1_000, ENVIRONMENT_RETRIES),
        (Fault.UNKNOWN, -1, UNKNOWN_RETRIES),
        (Fault.SESSION_LOST, -1, 0),
        (Fault.DEFINITE, 7, 0),
    ],
)
def test_the_option_and_the_fault_bound_it(fault: Fault, option: int, retries: int | None) -> None:
    """The smaller bound of the two; without either there is none."""
    assert allowed(fault, option) == retries


def test_a_source_out_of_reach_is_waited_for_as_long_as_it_takes() -> None:
    """Unless errors.max.retries says otherwise."""
    assert tries(Restarts(-1), AWAY) == 100
    assert tries(Restarts(3), AWAY) == 3


def test_what_nobody_knows_is_given_up_soon() -> None:
    """With the code that says that a restart may help, and with what was wrong."""
    restarts = Restarts(-1)
    assert tries(restarts, NOBODY_KNOWS) == UNKNOWN_RETRIES
    enough = restarts.note(NOBODY_KNOWS, Fault.UNKNOWN, steady=False)
    assert isinstance(enough, GaveUp)
    assert exit_code(enough) == EXIT_GAVE_UP
    assert str(enough).startswith(f"gave up after {UNKNOWN_RETRIES} retries: ")


def test_each_fault_is_counted_by_itself() -> None:
    """A long outage does not use up the attempts of what comes after it."""
    restarts = Restarts(-1)
    tries(restarts, AWAY)
    assert tries(restarts, NOBODY_KNOWS) == UNKNOWN_RETRIES


def test_what_went_well_before_counts_anew() -> None:
    """A run that was steady leaves the failures before it behind."""
    restarts = Restarts(-1)
    tries(restarts, NOBODY_KNOWS, UNKNOWN_RETRIES)
    assert restarts.note(NOBODY_KNOWS, Fault.UNKNOWN, steady=True) is None
    assert tries(restarts, NOBODY_KNOWS) == UNKNOWN_RETRIES - 1


def test_a_python_that_never_starts_is_given_up() -> None:
    """Three times in a row it may have been the machine; then it is the interpreter, and the message says where to
    look."""
    restarts = Restarts(-1)
    assert tries(restarts, LATE) == 3
    enough = restarts.note(LATE, classify(LATE), steady=False)
    assert enough is not None
    assert "PYSPARK_PYTHON" in (enough.next_step or "")


def test_a_session_that_is_gone_ends_the_engine_at_once() -> None:
    """No run can begin on it; the message says so, and that a restart helps."""
    enough = Restarts(-1).note(StorageError("the disk"), Fault.SESSION_LOST, steady=False)
    assert enough is not None
    assert "session is gone" in str(enough)
    assert "start again" in (enough.next_step or "")

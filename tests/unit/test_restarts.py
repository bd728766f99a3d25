"""Which errors of a run are worth another one."""

from __future__ import annotations

import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from snapshotter.engine.restarts import worth_another_run
from snapshotter.errors import describe


@pytest.mark.parametrize(
    "error",
    [
        AutoReconnect("the network is down"),
        OperationFailure("interrupted", code=11602),
        RuntimeError(
            "[STREAM_FAILED] ... [CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_7_0 not found"
        ),
        RuntimeError("org.apache.spark.SparkException: Python worker failed to connect back."),
    ],
    ids=str,
)
def test_what_may_pass_is_worth_another_run(error: Exception) -> None:
    """What the driver calls transient, and what Spark says when it was short of executors or of time."""
    assert worth_another_run(error, 1)


@pytest.mark.parametrize(
    "error",
    [
        OperationFailure("not authorized on shop to execute command", code=13),
        OperationFailure("resume of change stream was not possible", code=286),
        RuntimeError("Cannot run program python9: error=2, No such file or directory"),
        ValueError("a defect"),
    ],
    ids=str,
)
def test_what_does_not_pass_ends_the_engine(error: Exception) -> None:
    """A missing privilege, a lost position, an interpreter that isn't there, and what nobody foresaw."""
    assert not worth_another_run(error, 1)


def test_a_python_that_never_starts_is_given_up() -> None:
    """Three times in a row it may have been the machine; then it is the interpreter, and the message says where to
    look."""
    late = RuntimeError("org.apache.spark.SparkException: Python worker failed to connect back.")
    assert [worth_another_run(late, failed) for failed in (1, 2, 3, 4)] == [True, True, True, False]
    assert "PYSPARK_PYTHON" in (describe(late).next_step or "")

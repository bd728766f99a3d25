"""Exceptions of every kind as messages and exit codes."""

from __future__ import annotations

import pytest
from pymongo import errors as driver

from signals.errors import MalformedSignal
from snapshotter.errors import (
    ConfigurationError,
    DefiniteError,
    GaveUp,
    Problem,
    TransientError,
    cause_of,
    describe,
    exit_code,
    redact,
)
from snapshotter.state.storage import StorageError
from streaming.mongo.errors import as_source_error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), 2),
        (MalformedSignal("x"), 2),
        (DefiniteError("x"), 3),
        (StorageError("x"), 3),
        (driver.OperationFailure("not authorized on shop", 13), 3),
        (driver.OperationFailure("Authentication failed.", 18), 3),
        (driver.OperationFailure("resume point may no longer be in the oplog", 286), 3),
        (ValueError("x"), 3),
        (TransientError("x"), 4),
        (GaveUp("x"), 4),
        (driver.ServerSelectionTimeoutError("x"), 4),
        (as_source_error(driver.AutoReconnect("x"), "cannot reach"), 4),
        (driver.ConfigurationError("x"), 2),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(error: BaseException, code: int) -> None:
    """2 for what the user wrote, 3 for what a restart cannot cure, 4 for what may pass."""
    assert exit_code(error) == code


def test_only_unforeseen_errors_are_unexpected() -> None:
    """A traceback is for errors that nobody has foreseen."""
    assert not describe(ZeroDivisionError("division by zero")).expected
    assert "unexpected ZeroDivisionError" in describe(ZeroDivisionError("division by zero")).message
    assert describe(driver.AutoReconnect("x")).expected


def test_messages_are_for_people() -> None:
    """No line for machines, no credentials, and the next step beside it."""
    found = describe(as_source_error(driver.AutoReconnect("h:1: closed"), "mongodb://u:pw@h/ is not there"))
    assert found.message == "mongodb://***:***@h/ is not there: h:1: closed (AutoReconnect)"
    assert found.next_step is not None
    assert describe(DefiniteError("a", "b")).next_step == "b"


def test_all_problems_in_one_error() -> None:
    """The message counts and lists them."""
    error = ConfigurationError.of("x.json", [Problem("a", "is wrong", "1"), Problem("b", "is required")])
    assert str(error) == "2 problems in x.json\n  - a = 1: is wrong\n  - b: is required"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mongodb://u:p@ss/w@h:1/?x=y end", "mongodb://***:***@h:1/?x=y end"),
        ("mongodb+srv://u:p@h", "mongodb+srv://***:***@h"),
        ("a mongodb://h:1/ b", "a mongodb://h:1/ b"),
        ("s3a://key:secret@bucket/x", "s3a://***:***@bucket/x"),
        (
            "abfss://container@account.dfs.core.windows.net/x",
            "abfss://container@account.dfs.core.windows.net/x",
        ),
        (
            "mongodb://h/?tlsCertificateKeyFilePassword=pw&a=b",
            "mongodb://h/?tlsCertificateKeyFilePassword=***&a=b",
        ),
    ],
)
def test_credentials_in_any_text_are_masked(text: str, expected: str) -> None:
    """Wherever an address turns up: messages of libraries, logs, print-outs."""
    assert redact(text) == expected


JAVA = (
    """An error occurred while calling o512.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 3.0 (TID 3): org.apache.spark.api.python.PythonException: \
Traceback (most recent call last):
  File "/x/pyspark/worker.py", line 1997, in main
    process()
{python}
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:645)
"""
    + "\tat org.apache.spark.rdd.RDD.iterator(RDD.scala:335)\n" * 200
)
DISK = (
    JAVA.format(python="ValueError: odd")
    + """Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 51 more
"""
)
CHAINED = """[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING] failed:
Traceback (most recent call last):
  File "/x/pymongo/pool.py", line 1, in connect
    raise
pymongo.errors.AutoReconnect: 127.0.0.1:1: connection refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/x/streaming/change_stream.py", line 327, in _explaining
    raise as_source_error(error, what) from error
streaming.mongo.errors.TransientError: cannot tell the end: mongodb://me:pw@h/ is gone
SNAPSHOTTER-ERROR {"kind":"transient"}
 SQLSTATE: XXKST
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (JAVA.format(python="ValueError: odd"), "ValueError: odd"),
        (DISK, "java.io.IOException: No space left on device"),
        (
            DISK.replace("java.io.IOException: No space left on device", "java.io.EOFException"),
            "ValueError: odd",
        ),
        (
            CHAINED,
            "streaming.mongo.errors.TransientError: cannot tell the end: mongodb://***:***@h/ is gone",
        ),
        ("two lines\n  of one message", "two lines of one message"),
        ("x" * 5_000, "x" * 499 + "…"),
        ("", "RuntimeError"),
    ],
)
def test_a_cause_is_one_line(text: str, line: str) -> None:
    """Whatever stacks of Java's and Python's an error has in its text: what was raised last, without credentials. The
    status shows it like that as well."""
    assert cause_of(RuntimeError(text)) == line
    assert len(describe(RuntimeError(text)).message.splitlines()) <= 2


def test_it_is_seen_through_a_stack_that_a_python_did_not_start_in_time() -> None:
    """What to do next is found in all of the text."""
    late = JAVA.format(python="").replace("Job aborted", "Python worker failed to connect back. Job aborted")
    assert "PYSPARK_PYTHON" in (describe(RuntimeError(late)).next_step or "")

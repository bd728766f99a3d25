"""What an error says of trying again: in Python, in Spark's words, in the JVM's chain of causes."""

from __future__ import annotations

import pytest
from pymongo import errors as driver

from signals.errors import MalformedSignal
from snapshotter.errors import DefiniteError, GaveUp, TransientError, describe
from snapshotter.failures import Fault, Link, classify, fault_in
from snapshotter.landing.table_faults import fault_of
from snapshotter.landing.targets.side_by_side import ReadBuffersLost
from snapshotter.reading.watermarks import WatermarkLost
from snapshotter.state.lock import LockLostError
from snapshotter.state.storage import StorageError
from streaming.mongo.errors import as_source_error
from streaming.mongo.server_codes import Kind
from streaming.namespaces import Namespace

STAGE = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times: "
)


class Thrown:
    """What py4j gives for something that the JVM threw."""

    def __init__(self, text: str, cause: Thrown | None = None) -> None:
        self._text, self._cause = text, cause

    def toString(self) -> str:  # noqa: N802 - the JVM's name
        return self._text

    def getCause(self) -> Thrown | None:  # noqa: N802 - the JVM's name
        return self._cause


class FromSpark(Exception):
    """As PySpark's own: its text is the outermost message, the rest stays in the JVM."""

    def __init__(self, text: str, origin: object) -> None:
        super().__init__(text)
        self._origin = origin


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (driver.AutoReconnect("gone"), Fault.TRANSIENT),
        (driver.OperationFailure("operation was interrupted", 11601), Fault.INTERRUPTED),
        (driver.OperationFailure("what", 99_999), Fault.UNKNOWN),
        (driver.OperationFailure("not authorized", 13), Fault.DEFINITE),
        (as_source_error(driver.OperationFailure("lost", 286), "cannot read"), Fault.DEFINITE),
        (RuntimeError(f"{STAGE}{as_source_error(driver.AutoReconnect('x'), 'y')}"), Fault.TRANSIENT),
        (WatermarkLost("1 of 1 open documents were gone"), Fault.INTERRUPTED),
        (StorageError("cannot write 'progress/7': No space left on device"), Fault.ENVIRONMENT),
        (ReadBuffersLost(frozenset()), Fault.ENVIRONMENT),
        (MemoryError(), Fault.ENVIRONMENT),
        (TransientError("x"), Fault.TRANSIENT),
        (DefiniteError("x"), Fault.DEFINITE),
        (GaveUp("x"), Fault.DEFINITE),
        (LockLostError("x"), Fault.DEFINITE),
        (MalformedSignal("x"), Fault.DEFINITE),
        (ValueError("a defect"), Fault.DEFINITE),
        (RuntimeError("nobody has foreseen it"), Fault.UNKNOWN),
    ],
    ids=repr,
)
def test_errors_of_python(error: Exception, fault: Fault) -> None:
    """By whose they are: MongoDB's by code, label and class, ours by class; a word for what nobody knows."""
    assert classify(error) is fault


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (
            f"{STAGE}Python worker exited unexpectedly (crashed)\\nCaused by: java.io.EOFException",
            Fault.ENVIRONMENT,
        ),
        ("Python worker failed to connect back.", Fault.UNKNOWN),
        ("[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_7_0 not found", Fault.ENVIRONMENT),
        (
            f"{STAGE}ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
            Fault.ENVIRONMENT,
        ),
        ("java.lang.OutOfMemoryError: Java heap space", Fault.ENVIRONMENT),
        ("java.nio.file.FileSystemException: /w/part-0: No space left on device", Fault.ENVIRONMENT),
        ("org.apache.hadoop.fs.s3a.AWSServiceIOException: 503 SlowDown", Fault.ENVIRONMENT),
        ("io.delta.exceptions.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] ...", Fault.ENVIRONMENT),
        (
            'java.io.IOException: Cannot run program "python9": error=2, No such file or directory',
            Fault.DEFINITE,
        ),
        (
            'java.io.IOException: Cannot run program "python3": error=12, Cannot allocate memory',
            Fault.ENVIRONMENT,
        ),
        (
            f"{STAGE}Traceback (most recent call last):\\n  File x, line 1, in y\\nKeyError: 'a'\\n",
            Fault.DEFINITE,
        ),
        (
            f"{STAGE}Traceback (most recent call last):\\n  File x, line 1, in y\\nMemoryError\\n",
            Fault.ENVIRONMENT,
        ),
        ("org.apache.spark.sql.AnalysisException: [UNRESOLVED_COLUMN] ...", Fault.DEFINITE),
        ("java.lang.NoSuchMethodError: 'void io.delta.X.y()'", Fault.DEFINITE),
        (
            "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
            Fault.SESSION_LOST,
        ),
        ("An error occurred while trying to connect to the Java server (127.0.0.1:1)", Fault.SESSION_LOST),
        ("java.lang.IllegalStateException: what", Fault.UNKNOWN),
    ],
)
def test_words_of_spark(words: str, fault: Fault) -> None:
    """They arrive in exceptions without a class that would tell."""
    assert classify(RuntimeError(words.replace("\\n", "\n"))) is fault


def test_causes_are_looked_through_in_python_and_in_the_jvm() -> None:
    """The outermost error often says only that something failed."""
    outer = RuntimeError("the batch failed")
    outer.__cause__ = StorageError("the disk is full")
    assert classify(outer) is Fault.ENVIRONMENT
    origin = Thrown("StreamingQueryException: it failed", Thrown("java.net.SocketException: reset"))
    assert classify(FromSpark("[STREAM_FAILED] Query terminated", origin)) is Fault.ENVIRONMENT


def test_a_jvm_that_cannot_be_asked_is_no_reason_to_fail() -> None:
    """It may be gone by the time that its error is looked at: then the words that are here decide."""

    class Gone(Thrown):
        def toString(self) -> str:  # noqa: N802 - the JVM's name
            raise ConnectionRefusedError("nobody listens")

    class Speechless(Exception):
        """As py4j's own: it asks the JVM for its text."""

        def __str__(self) -> str:
            raise ConnectionRefusedError("nobody listens")

    outer = FromSpark("SparkContext was shut down", Gone("", None))
    outer.__cause__ = Speechless()
    assert classify(outer) is Fault.SESSION_LOST
    assert classify(Speechless()) is Fault.UNKNOWN
    assert "Speechless" in describe(Speechless()).message
    assert fault_of(Namespace("shop", "orders"), Speechless(), suspect=False) is None
    assert classify(FromSpark("what", Gone("", None))) is Fault.UNKNOWN
    assert classify(FromSpark("SparkContext was shut down", Gone("", None))) is Fault.SESSION_LOST


def test_what_is_said_first_decides() -> None:
    """An error of ours that was raised because of another one says what it means."""
    told = [Link(classes=("DefiniteError",)), Link(source=Kind.TRANSIENT)]
    assert fault_in(told) is Fault.DEFINITE
    assert fault_in([Link(words="nothing known"), *reversed(told)]) is Fault.TRANSIENT
    assert fault_in([]) is Fault.UNKNOWN

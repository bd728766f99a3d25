"""Every error in one named state: as MongoDB, Spark, Delta, storage and Kafka say it, in recorded texts."""

from __future__ import annotations

import pytest
from pymongo import errors as driver

from signals.errors import MalformedSignal
from snapshotter.diagnosis import SUSPENDED, condition_of_text, diagnose, named
from snapshotter.errors import (
    EXIT_CONFIGURATION,
    EXIT_DEFINITE,
    EXIT_GAVE_UP,
    ConfigurationError,
    DefiniteError,
    GaveUp,
    describe,
)
from snapshotter.failure_classes import FailureClass
from snapshotter.failures import Fault
from snapshotter.landing.targets.side_by_side import ReadBuffersLost
from snapshotter.reading.watermarks import WatermarkLost
from snapshotter.state.lock import LockHeldError, LockLostError
from snapshotter.state.storage import StorageError
from streaming.delta.landing_errors import TableAltered, TableOwned
from streaming.mongo.errors import as_source_error

STAGE = (
    "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times, most "
    "recent failure: Lost task 0.0 in stage 7.0 (TID 9) (10.0.0.7 executor 1): "
)
S3_BUSY = (
    "org.apache.hadoop.fs.s3a.AWSServiceThrottledException: PUT 0-object-0 on state/shop/orders/_delta_log/"
    "00000000000000000007.json: software.amazon.awssdk.services.s3.model.S3Exception: Please reduce your request rate. "
    "(Service: S3, Status Code: 503, Request ID: 4B2A7C, Extended Request ID: x)"
)
S3_DENIED = (
    "java.nio.file.AccessDeniedException: s3a://lake/state/shop/orders: getFileStatus on s3a://lake/state/shop/orders: "
    "software.amazon.awssdk.services.s3.model.S3Exception: (Service: S3, Status Code: 403, Request ID: 4B2A7C)"
)
OF_A_WORKER = (
    f"{STAGE}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    "OSError: When uploading key 'state/shop/orders/reads-1.parquet' in bucket 'lake': AWS Error "
)
CONFLICT = (
    "[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] ConcurrentAppendException: This operation failed because the transaction "
    "read files that were concurrently modified by another operation."
)
FETCH_FAILED = (
    f"{STAGE}FetchFailed(null, shuffleId=3, mapIndex=-1, mapId=-1, reduceId=0, message=\n"
    "org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 3 partition 0\n"
)


@pytest.mark.parametrize(
    ("error", "failure", "condition", "code"),
    [
        # MongoDB
        (
            driver.ServerSelectionTimeoutError("rs0: [Errno 111] refused"),
            "connection",
            "source-unreachable",
            4,
        ),
        (driver.OperationFailure("operation was interrupted", 11601), "connection", "operation-ended", 4),
        (driver.OperationFailure("Authentication failed.", 18), "permission", "source-denied", 3),
        (driver.OperationFailure("not authorized on shop", 13), "permission", "source-denied", 3),
        (driver.OperationFailure("resume point", 286), "position-lost", "position-lost", 3),
        (as_source_error(driver.OperationFailure("x", 280), "y"), "position-lost", "position-lost", 3),
        (driver.OperationFailure("unknown stage", 40324), "configuration", "wrong-option", 2),
        (driver.OperationFailure("too large", 10334), "resource", "event-too-large", 3),
        (
            driver.OperationFailure("$sort: ExceededMemoryLimit: Sort exceeded memory limit", 292),
            "resource",
            "source-exhausted",
            4,
        ),
        # The machine, and Spark
        (
            RuntimeError(
                "java.io.IOException: No space left on device\n\tat java.base/java.io.X.write(X.java)"
            ),
            "resource",
            "disk-full",
            4,
        ),
        (
            StorageError("cannot write 'progress/7': [Errno 28] No space left on device"),
            "resource",
            "disk-full",
            4,
        ),
        (OSError(28, "No space left on device"), "resource", "disk-full", 4),
        (
            RuntimeError("org.apache.spark.SparkException: java.io.IOException: Disk quota exceeded"),
            "resource",
            "disk-full",
            4,
        ),
        (OSError(24, "Too many open files"), "resource", "files-exhausted", 4),
        (
            RuntimeError(f"{STAGE}java.lang.OutOfMemoryError: Java heap space"),
            "resource",
            "heap-too-small",
            4,
        ),
        (
            RuntimeError(
                f"{STAGE}org.apache.spark.memory.SparkOutOfMemoryError: [UNABLE_TO_ACQUIRE_MEMORY] "
                "Unable to acquire 65536 bytes of memory, got 0."
            ),
            "resource",
            "heap-too-small",
            4,
        ),
        (
            RuntimeError("java.lang.OutOfMemoryError: GC overhead limit exceeded"),
            "resource",
            "heap-too-small",
            4,
        ),
        (
            RuntimeError("[INVALID_DRIVER_MEMORY] System memory 202768384 must be at least 471859200."),
            "resource",
            "heap-too-small",
            4,
        ),
        (
            RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."),
            "configuration",
            "spark-not-started",
            3,
        ),
        (MemoryError(), "resource", "memory-short", 4),
        (
            RuntimeError(
                "java.net.BindException: bind(..) failed with error(-98): Address already in use: Service "
                "'sparkDriver' failed after 0 retries (starting from 58407)!"
            ),
            "resource",
            "ports-taken",
            4,
        ),
        (
            RuntimeError(
                f"{STAGE}ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: worker lost"
            ),
            "resource",
            "executor-lost",
            4,
        ),
        (RuntimeError(FETCH_FAILED), "resource", "executor-lost", 4),
        (ReadBuffersLost(frozenset()), "resource", "executor-lost", 4),
        (RuntimeError(f"{STAGE}Python worker exited unexpectedly (crashed)"), "resource", "worker-killed", 4),
        (RuntimeError("Python worker failed to connect back."), "resource", "worker-late", 4),
        (RuntimeError("Cannot call methods on a stopped SparkContext."), "resource", "spark-lost", 4),
        (
            RuntimeError(
                "Total size of serialized results of 9 tasks is bigger than spark.driver.maxResultSize (1024.0 MiB)"
            ),
            "resource",
            "result-too-large",
            4,
        ),
        (
            RuntimeError('java.io.IOException: Cannot run program "python9": error=2, No such file'),
            "configuration",
            "no-python",
            3,
        ),
        (
            RuntimeError("java.lang.NoSuchMethodError: 'void io.delta.X.y()'"),
            "configuration",
            "wrong-libraries",
            3,
        ),
        # Storage, and Delta
        (RuntimeError(S3_BUSY), "sink", "storage-busy", 4),
        (
            RuntimeError(f"{OF_A_WORKER}SLOW_DOWN during PutObject operation: fewer"),
            "sink",
            "storage-busy",
            4,
        ),
        (
            RuntimeError(f"{OF_A_WORKER}ACCESS_DENIED during PutObject operation: Access Denied"),
            "permission",
            "storage-denied",
            3,
        ),
        (RuntimeError("com.amazonaws.SdkClientException: 503 Slow Down"), "sink", "storage-busy", 4),
        (RuntimeError(S3_DENIED), "permission", "storage-denied", 3),
        (
            StorageError("cannot make the folder: [Errno 13] Permission denied: 'lake'"),
            "permission",
            "storage-denied",
            3,
        ),
        (StorageError("cannot write 'x': it is a folder"), "sink", "storage-failing", 3),
        (
            RuntimeError(f"io.delta.exceptions.ConcurrentAppendException: {CONFLICT}"),
            "sink",
            "commit-conflict",
            4,
        ),
        (RuntimeError(CONFLICT), "sink", "commit-conflict", 4),
        (
            RuntimeError("io.delta.exceptions.MetadataChangedException: The metadata was changed"),
            "sink",
            "commit-conflict",
            4,
        ),
        (
            RuntimeError(
                "org.apache.spark.sql.delta.DeltaAnalysisException: [DELTA_FAILED_TO_MERGE_FIELDS] "
                "Failed to merge fields 'n' and 'n'"
            ),
            "schema",
            "schema-mismatch",
            3,
        ),
        (
            RuntimeError("org.apache.spark.sql.AnalysisException: [UNRESOLVED_COLUMN] x"),
            "schema",
            "schema-mismatch",
            3,
        ),
        (
            RuntimeError("org.apache.spark.sql.delta.actions.InvalidProtocolVersionException: reader 9"),
            "sink",
            "table-unusable",
            3,
        ),
        # Kafka
        (
            RuntimeError(
                'KafkaError{code=_ALL_BROKERS_DOWN,val=-187,str="Local: All broker connections are down"}'
            ),
            "connection",
            "kafka-unreachable",
            4,
        ),
        (
            RuntimeError(
                'KafkaError{code=SASL_AUTHENTICATION_FAILED,val=58,str="Broker: SASL Authentication failed"}'
            ),
            "permission",
            "kafka-denied",
            3,
        ),
        (
            RuntimeError(
                'KafkaError{code=TOPIC_AUTHORIZATION_FAILED,val=29,str="Broker: Topic authorization failed"}'
            ),
            "permission",
            "kafka-denied",
            3,
        ),
        (
            RuntimeError('KafkaError{code=MSG_SIZE_TOO_LARGE,val=10,str="Broker: Message size too large"}'),
            "sink",
            "kafka-failing",
            4,
        ),
        # Ours
        (ConfigurationError("x"), "configuration", "wrong-option", 2),
        (MalformedSignal("x"), "configuration", "wrong-signal", 2),
        (LockHeldError("x", None, None), "configuration", "name-taken", 3),
        (LockLostError("x"), "configuration", "name-taken", 3),
        (WatermarkLost("gone"), "configuration", "watermark-lost", 3),
        (TableAltered("missing", "is gone", "read it again"), "sink", "table-altered", 3),
        (TableOwned("other", "is another's", "take it over"), "sink", "table-owned", 3),
        (DefiniteError("the user lacks find", condition="source-denied"), "permission", "source-denied", 3),
        (KeyboardInterrupt(), "internal", "interrupted", 130),
    ],
    ids=lambda value: str(value)[:60],
)
def test_each_is_a_named_state(error: BaseException, failure: str, condition: str, code: int) -> None:
    """With its class, its exit code and what to do; none of them is unexpected."""
    found = describe(error)
    assert (found.failure.value, found.condition, found.exit_code) == (failure, condition, code)
    assert found.expected
    assert not found.message.startswith("unexpected")
    assert found.next_step


@pytest.mark.parametrize(
    ("error", "condition"), [(ZeroDivisionError("x"), "defect"), (RuntimeError("what"), "unforeseen")]
)
def test_what_nobody_has_foreseen_is_said_to_be(error: Exception, condition: str) -> None:
    """It has a class and a next step all the same."""
    found = describe(error)
    assert (found.failure, found.condition, found.expected) == (FailureClass.INTERNAL, condition, False)
    assert "report it" in found.next_step


def test_an_error_that_was_tried_often_enough_is_what_its_cause_is() -> None:
    """Giving up says how, and not what: that is in the cause, or in the words that were taken from it."""
    cause = RuntimeError(S3_BUSY)
    error = GaveUp("gave up after 30 retries: it failed", "wait")
    error.__cause__ = cause
    found = diagnose(error)
    assert (found.condition.name, found.fault, found.retriable) == ("storage-busy", Fault.ENVIRONMENT, True)
    assert describe(error).next_step == "wait"
    assert diagnose(GaveUp(f"gave up after 30 retries: {S3_BUSY}")).condition.name == "storage-busy"


def test_what_the_class_tells_gives_way_to_what_the_words_tell() -> None:
    """A storage error is a full disk where it says so; a permission is one where it says so."""
    assert diagnose(StorageError("cannot write: No space left on device")).condition.name == "disk-full"
    outer = RuntimeError("the batch failed")
    outer.__cause__ = StorageError("cannot write: No space left on device")
    assert diagnose(outer).condition.name == "disk-full"


def test_exit_codes_go_with_the_classes() -> None:
    """What is for a person to cure never ends with the code that says that another start may help, when it is raised at
    a start: an option is 2, a privilege 3."""
    assert describe(driver.ConfigurationError("x")).exit_code == EXIT_CONFIGURATION
    assert describe(driver.OperationFailure("x", 13)).exit_code == EXIT_DEFINITE
    assert describe(driver.AutoReconnect("x")).exit_code == EXIT_GAVE_UP


def test_a_text_that_was_kept_tells_as_much() -> None:
    """Progress keeps one line of what failed a request, or suspended a collection."""
    assert condition_of_text("OperationFailure: not authorized on shop to execute").name == "source-denied"
    assert condition_of_text("IOException: No space left on device").name == "disk-full"
    assert condition_of_text("somebody has changed its rows", SUSPENDED).name == "table-altered"
    assert condition_of_text("somebody has changed its rows").name == "unforeseen"


@pytest.mark.parametrize(
    ("trouble", "condition"),
    [
        ("Kafka at k1:9092: no answer yet", "kafka-unreachable"),
        ("Kafka at k1:9092: Local: All broker connections are down", "kafka-unreachable"),
        ("NotSent: topic t: 3 not delivered: Local: Message timed out", "kafka-unreachable"),
        ("Kafka at k1:9092: Broker: Topic authorization failed", "kafka-denied"),
        ("Kafka at k1:9092: Broker: Unknown topic or partition", "kafka-failing"),
        ("OSError: [Errno 28] No space left on device", "disk-full"),
    ],
)
def test_what_keeps_a_channel_from_working_is_a_named_state(trouble: str, condition: str) -> None:
    """As the status reports it of channels of signals and of notifications; where all is well there is none."""
    assert named(trouble)["condition"] == condition
    assert named(None) == {}

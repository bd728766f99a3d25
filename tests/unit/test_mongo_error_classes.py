"""Errors keep their class on the way from an executor to the driver, where they arrive as text."""

from __future__ import annotations

import pickle

import pytest
from pymongo import errors as driver

from streaming.mongo.errors import (
    ConfigurationError,
    PositionLostError,
    SourceError,
    TransientError,
    as_source_error,
    classify,
)
from streaming.mongo.server_codes import Kind


def failure(code: int, text: str = "", labels: tuple[str, ...] = ()) -> driver.OperationFailure:
    return driver.OperationFailure(text, code, {"errmsg": text, "code": code, "errorLabels": list(labels)})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (failure(286), Kind.POSITION_LOST),
        (failure(280), Kind.POSITION_LOST),
        (failure(136), Kind.POSITION_LOST),
        (failure(13), Kind.PERMISSION),
        (failure(18), Kind.PERMISSION),
        (failure(10334), Kind.EVENT_TOO_LARGE),
        (failure(260), Kind.CONFIGURATION),
        (failure(43), Kind.INTERRUPTED),
        (failure(11601), Kind.INTERRUPTED),
        (failure(11602), Kind.TRANSIENT),
        (driver.CursorNotFound("gone", 43), Kind.INTERRUPTED),
        (driver.ExecutionTimeout("too long", 50), Kind.INTERRUPTED),
        (driver.WTimeoutError("no majority", 64), Kind.TRANSIENT),
        (driver.BulkWriteError({"writeErrors": [{"code": 11601}]}), Kind.INTERRUPTED),
        (driver.BulkWriteError({"writeErrors": [{"code": 13}]}), Kind.PERMISSION),
        (failure(10107), Kind.TRANSIENT),
        (failure(99999, labels=("ResumableChangeStreamError",)), Kind.TRANSIENT),
        (failure(99999), Kind.UNKNOWN),
        (failure(72, "unknown option"), Kind.CONFIGURATION),
        (failure(72, "readConcern afterClusterTime value must not be greater"), Kind.TRANSIENT),
        (driver.ServerSelectionTimeoutError("nobody"), Kind.TRANSIENT),
        (driver.AutoReconnect("gone"), Kind.TRANSIENT),
        (driver.InvalidURI("what"), Kind.CONFIGURATION),
        (ValueError("ours"), Kind.UNKNOWN),
    ],
)
def test_kinds(error: Exception, kind: Kind) -> None:
    """Server codes, labels and classes of the driver, each to what can be done about it."""
    assert classify(error).kind is kind
    assert classify(error).retriable is (kind in (Kind.TRANSIENT, Kind.INTERRUPTED))


def test_the_marker_survives_a_traceback() -> None:
    """Spark wraps the text of an error in tracebacks and JVM exceptions: the class is found in it again."""
    error = as_source_error(failure(286, "gone", ("NonResumableChangeStreamError",)), "cannot read (1, 2]")
    text = f"PythonException: Traceback\n  File x\nstreaming.PositionLostError: {error}\n\tat org.apache...\n"
    found = classify(text)
    assert found == classify(error)
    assert (found.kind, found.code, found.name) == (Kind.POSITION_LOST, 286, "OperationFailure")
    assert found.labels == ("NonResumableChangeStreamError",)


def test_the_marker_is_one_line() -> None:
    """Whatever the message holds."""
    error = ConfigurationError("a\nb")
    assert (
        str(error)
        .splitlines()[-1]
        .startswith('SNAPSHOTTER-ERROR {"class": "ConfigurationError", "code": null')
    )


def test_text_without_a_marker_is_recognised_by_the_servers_words() -> None:
    """An error that did not pass through this source, a chunk reader's for instance."""
    assert classify("... (ChangeStreamHistoryLost) ...").kind is Kind.POSITION_LOST
    assert classify("not authorized on shop to execute command").kind is Kind.PERMISSION
    assert classify("java.lang.OutOfMemoryError").kind is Kind.UNKNOWN


def test_a_broken_marker_is_not_trusted() -> None:
    """Text that only looks like a marker is passed over."""
    assert classify('SNAPSHOTTER-ERROR {"kind": "nonsense"}').kind is Kind.UNKNOWN
    assert classify("SNAPSHOTTER-ERROR {}").kind is Kind.UNKNOWN


def test_the_class_of_our_error_says_the_kind() -> None:
    """as_source_error picks it, keeps the driver's words, and leaves our own errors as they are."""
    error = as_source_error(failure(280, "resume point"), "cannot read")
    assert isinstance(error, PositionLostError)
    assert error.message == "cannot read: resume point (OperationFailure, code 280)"
    assert as_source_error(error, "again") is error


def test_causes_are_looked_through() -> None:
    """An error raised from one of ours has its class."""
    outer = RuntimeError("batch failed")
    outer.__cause__ = TransientError("election")
    assert classify(outer).kind is Kind.TRANSIENT


def test_errors_can_be_pickled() -> None:
    """Spark's workers pickle what they raise."""
    error: SourceError = pickle.loads(pickle.dumps(as_source_error(failure(286, "gone"), "cannot read")))
    assert isinstance(error, PositionLostError)
    assert classify(error).code == 286

"""What went wrong at MongoDB, whose fault it is, and whether trying again can help.

An error of an executor reaches the driver only as text, wrapped in tracebacks. So every error that leaves
the change stream carries one line that a machine can read, and ``classify`` finds it again:

    SNAPSHOTTER-ERROR {"class": "OperationFailure", "code": 286, "kind": "position-lost", "labels": [...]}

    SourceError ─┬─ TransientError              try again: elections, networks, a server that is starting
                 └─ DefiniteError ─┬─ PositionLostError        the oplog no longer holds the position
                                   ├─ AccessDeniedError        credentials or privileges
                                   ├─ ConfigurationError       an option, or the deployment, has to change
                                   ├─ EventTooLargeError       an event above 16 MB
                                   └─ UnexpectedError          none of these: a bug, or an unknown server
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pymongo import errors as driver

MARKER = "SNAPSHOTTER-ERROR"
_LINE = re.compile(rf"{MARKER} (\{{.*?\}})\s*$", re.MULTILINE)


class Kind(StrEnum):
    """What can be done about it."""

    TRANSIENT = "transient"
    POSITION_LOST = "position-lost"
    PERMISSION = "permission"
    CONFIGURATION = "configuration"
    EVENT_TOO_LARGE = "event-too-large"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """``code`` is the server's, if it was the server; ``name`` the class of the error that was raised."""

    kind: Kind
    name: str
    code: int | None = None
    labels: tuple[str, ...] = ()

    @property
    def retriable(self) -> bool:
        return self.kind is Kind.TRANSIENT

    def to_line(self) -> str:
        """One line, without a line feed: the marker and JSON."""
        fields = {"class": self.name, "code": self.code, "kind": str(self.kind), "labels": list(self.labels)}
        return f"{MARKER} {json.dumps(fields, sort_keys=True)}"


class SourceError(Exception):
    """What a person should read, then the line for the machine."""

    kind = Kind.UNKNOWN

    def __init__(self, message: str, found: ErrorClass | None = None) -> None:
        super().__init__(message, found)
        self.message = message
        self.found = found or ErrorClass(self.kind, type(self).__name__)

    def __str__(self) -> str:
        return f"{self.message}\n{self.found.to_line()}"


class TransientError(SourceError):
    kind = Kind.TRANSIENT


class DefiniteError(SourceError):
    """Trying again without changing anything fails again."""


class PositionLostError(DefiniteError):
    kind = Kind.POSITION_LOST


class AccessDeniedError(DefiniteError):
    kind = Kind.PERMISSION


class ConfigurationError(DefiniteError):
    kind = Kind.CONFIGURATION


class EventTooLargeError(DefiniteError):
    kind = Kind.EVENT_TOO_LARGE


class UnexpectedError(DefiniteError):
    kind = Kind.UNKNOWN


_ERRORS: dict[Kind, type[SourceError]] = {
    Kind.TRANSIENT: TransientError,
    Kind.POSITION_LOST: PositionLostError,
    Kind.PERMISSION: AccessDeniedError,
    Kind.CONFIGURATION: ConfigurationError,
    Kind.EVENT_TOO_LARGE: EventTooLargeError,
    Kind.UNKNOWN: UnexpectedError,
}

_CODES: dict[Kind, frozenset[int]] = {
    # ChangeStreamHistoryLost, ChangeStreamFatalError, CappedPositionLost
    Kind.POSITION_LOST: frozenset({286, 280, 136}),
    # UserNotFound, Unauthorized, AuthenticationFailed, AuthenticationRestrictionUnmet, Atlas
    Kind.PERMISSION: frozenset({11, 13, 18, 337, 8000}),
    # BadValue, FailedToParse, TypeMismatch, InvalidOptions, InvalidNamespace, InvalidResumeToken,
    # CommandNotSupportedOnView, $changeStream on a standalone, an unknown stage or option, a bad regular
    # expression, a bad resume token
    Kind.CONFIGURATION: frozenset(
        {2, 9, 14, 72, 73, 166, 260, 40573, 40324, 40415, 40647, 51091, 51108, 51111}
    ),
    Kind.EVENT_TOO_LARGE: frozenset({10334}),
    # HostUnreachable, HostNotFound, CursorNotFound, MaxTimeMSExpired, StaleShardVersion, NetworkTimeout,
    # ShutdownInProgress, FailedToSatisfyReadPreference, WriteConflict, ReadConcernMajorityNotAvailableYet,
    # StaleEpoch, CursorKilled, RetryChangeStream, SnapshotTooOld, SnapshotUnavailable, ExceededTimeLimit,
    # SocketException, NotWritablePrimary, interruptions by a change of state, NotPrimaryNoSecondaryOk,
    # NotPrimaryOrSecondary, QueryPlanKilled (the collection was dropped or renamed under a cursor)
    Kind.TRANSIENT: frozenset(
        {6, 7, 43, 50, 63, 89, 91, 112, 133, 134, 150, 175, 189, 202, 211, 234, 237, 239, 246, 262}
        | {9001, 10107, 11600, 11602, 13388, 13435, 13436, 317, 384}
    ),
}
_CLASSES: tuple[tuple[type[BaseException], Kind], ...] = (
    (driver.ConfigurationError, Kind.CONFIGURATION),
    (driver.InvalidURI, Kind.CONFIGURATION),
    (driver.ConnectionFailure, Kind.TRANSIENT),
    (driver.WaitQueueTimeoutError, Kind.TRANSIENT),
    (driver.CursorNotFound, Kind.TRANSIENT),
    (driver.DocumentTooLarge, Kind.EVENT_TOO_LARGE),
)
_TEXTS = (
    (re.compile(r"ChangeStream(HistoryLost|FatalError)|may no longer be in the oplog"), Kind.POSITION_LOST),
    (re.compile(r"not authorized on|requires authentication|AuthenticationFailed"), Kind.PERMISSION),
    (re.compile(r"ServerSelectionTimeoutError|AutoReconnect|NotPrimaryError|NetworkTimeout"), Kind.TRANSIENT),
)


def classify(error: BaseException | str) -> ErrorClass:
    """The class of an error of ours, of the driver's, or of whatever text one arrived in.

    Looks through the causes of an exception, and takes the last marker of a text (the outermost error of
    ours); where there is none it recognises MongoDB's own words. Never raises.
    """
    if isinstance(error, str):
        return _of_text(error)
    for link in _causes(error):
        if isinstance(link, SourceError):
            return link.found
        if isinstance(link, driver.PyMongoError):
            return _of_driver(link)
    return _of_text(f"{type(error).__name__}: {error}")


def as_source_error(error: BaseException, message: str) -> SourceError:
    """The error of ours that says the same, to raise ``from`` it. The driver's own words are appended."""
    if isinstance(error, SourceError):
        return error
    found = classify(error)
    return _ERRORS[found.kind](f"{message}: {_words(error)}", found)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _of_driver(error: driver.PyMongoError) -> ErrorClass:
    code = error.code if isinstance(error, driver.OperationFailure) else None
    details: Any = getattr(error, "details", None)
    labels = tuple(sorted(details.get("errorLabels", ()))) if isinstance(details, Mapping) else ()
    return ErrorClass(_kind(error, code, labels), type(error).__name__, code, labels)


def _kind(error: driver.PyMongoError, code: int | None, labels: tuple[str, ...]) -> Kind:
    text = str(error)
    if code == 72 and "lusterTime" in text:  # a node that has not heard of afterClusterTime yet
        return Kind.TRANSIENT
    for kind, codes in _CODES.items():
        if code in codes:
            return kind
    if "ResumableChangeStreamError" in labels:
        return Kind.TRANSIENT
    for family, kind in _CLASSES:
        if isinstance(error, family):
            return kind
    return Kind.UNKNOWN


def _of_text(text: str) -> ErrorClass:
    for line in reversed(_LINE.findall(text)):
        try:
            fields = json.loads(line)
            return ErrorClass(Kind(fields["kind"]), fields["class"], fields["code"], tuple(fields["labels"]))
        except (ValueError, KeyError, TypeError):
            continue  # some other line that begins like ours
    for pattern, kind in _TEXTS:
        match = pattern.search(text)
        if match:
            return ErrorClass(kind, match.group())
    return ErrorClass(Kind.UNKNOWN, "")


def _words(error: BaseException) -> str:
    details: Any = getattr(error, "details", None)
    if isinstance(details, Mapping) and "errmsg" in details:
        name = details.get("codeName", type(error).__name__)
        return f"{details['errmsg']} ({name}, code {details.get('code')})"
    return f"{error} ({type(error).__name__})"

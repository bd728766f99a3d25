"""What went wrong at MongoDB, whose fault it is, and whether trying again can help.

An error of an executor reaches the driver only as text, wrapped in tracebacks. So every error that leaves
the change stream carries one line that a machine can read, and ``classify`` finds it again:

    SNAPSHOTTER-ERROR {"class": "OperationFailure", "code": 286, "kind": "position-lost", "labels": [...]}

    SourceError ─┬─ TransientError              try again: elections, networks, an operation that was killed
                 ├─ UnexpectedError             nobody knows: try again, but not for long
                 └─ DefiniteError ─┬─ PositionLostError        the oplog no longer holds the position
                                   ├─ AccessDeniedError        credentials or privileges
                                   ├─ ConfigurationError       an option, or the deployment, has to change
                                   └─ EventTooLargeError       an event above 16 MB

What the server's codes and labels mean is in `streaming.mongo.server_codes`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pymongo import errors as driver

from streaming.error_text import said_by
from streaming.mongo.server_codes import Kind, kind_of

MARKER = "SNAPSHOTTER-ERROR"
_LINE = re.compile(rf"{MARKER} (\{{.*?\}})\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """``code`` is the server's, if it was the server; ``name`` the class of the error that was raised."""

    kind: Kind
    name: str
    code: int | None = None
    labels: tuple[str, ...] = ()

    @property
    def retriable(self) -> bool:
        return self.kind.retriable

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
    """Sent again, the same request may go well."""

    kind = Kind.TRANSIENT


class UnexpectedError(SourceError):
    """A code, or an error of the driver's, that nobody has foreseen."""

    kind = Kind.UNKNOWN


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


_ERRORS: dict[Kind, type[SourceError]] = {
    Kind.TRANSIENT: TransientError,
    Kind.INTERRUPTED: TransientError,
    Kind.POSITION_LOST: PositionLostError,
    Kind.PERMISSION: AccessDeniedError,
    Kind.CONFIGURATION: ConfigurationError,
    Kind.EVENT_TOO_LARGE: EventTooLargeError,
    Kind.UNKNOWN: UnexpectedError,
}

# What the driver raises without a code of the server's, by class.
_CLASSES: tuple[tuple[type[BaseException], Kind], ...] = (
    (driver.ConfigurationError, Kind.CONFIGURATION),
    (driver.InvalidURI, Kind.CONFIGURATION),
    (driver.ConnectionFailure, Kind.TRANSIENT),
    (driver.WaitQueueTimeoutError, Kind.TRANSIENT),
    (driver.WTimeoutError, Kind.TRANSIENT),
    (driver.CursorNotFound, Kind.INTERRUPTED),
    (driver.ExecutionTimeout, Kind.INTERRUPTED),
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
    for link in causes(error):
        if isinstance(link, SourceError):
            return link.found
        if isinstance(link, driver.PyMongoError):
            return _of_driver(link)
    return _of_text(f"{type(error).__name__}: {said_by(error)}")


def as_source_error(error: BaseException, message: str) -> SourceError:
    """The error of ours that says the same, to raise ``from`` it. The driver's own words are appended."""
    if isinstance(error, SourceError):
        return error
    found = classify(error)
    return _ERRORS[found.kind](f"{message}: {_words(error)}", found)


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from or while, the outermost first."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _of_driver(error: driver.PyMongoError) -> ErrorClass:
    code = error.code if isinstance(error, driver.OperationFailure) else None
    details: Any = getattr(error, "details", None)
    given: Mapping[str, Any] = details if isinstance(details, Mapping) else {}
    if isinstance(error, driver.BulkWriteError):  # of the writes, the first that failed says why
        failed = [*given.get("writeErrors", ()), *given.get("writeConcernErrors", ())]
        code = failed[0].get("code", code) if failed else code
    labels = tuple(sorted({*given.get("errorLabels", ()), *error._error_labels}))
    return ErrorClass(_kind(error, code, labels), type(error).__name__, code, labels)


def _kind(error: driver.PyMongoError, code: int | None, labels: tuple[str, ...]) -> Kind:
    if code == 72 and "lusterTime" in str(error):  # a node that has not heard of afterClusterTime yet
        return Kind.TRANSIENT
    kind = kind_of(code, labels)
    if kind is not Kind.UNKNOWN:
        return kind
    return next((kind for family, kind in _CLASSES if isinstance(error, family)), Kind.UNKNOWN)


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
    return f"{said_by(error)} ({type(error).__name__})"

"""Errors by whose fault they are and what helps, and the exit code of each.

    SnapshotterError
    ├── ConfigurationError   2  an option or an argument is wrong; nothing was started
    ├── DefiniteError        3  a restart cannot cure it: a missing privilege, a table out of reach
    ├── TransientError       4  it may pass by itself: a connection lost, a primary stepping down
    ├── GaveUp               4  it was retried as often as the options allow
    └── Stopped              0  somebody asked for it, before anything was started

``describe`` and ``exit_code`` are the one place where an exception of any kind becomes a class, a message, a next step
and an exit code; the command line, the status, notifications and the log have them from here. Which condition an error
is in is for `snapshotter.diagnosis`. Nothing heavy is imported for it before there is an error.

Exit codes: 0 done, 1 different (``verify``) or warnings (``doctor``), 2 configuration or usage, 3 and 4 as above, 130
interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapshotter.failure_classes import CONDITIONS, FailureClass
from streaming.error_text import said_by

if TYPE_CHECKING:
    from snapshotter.diagnosis import Diagnosis

SESSION_LOST = CONDITIONS["spark-lost"].next_step
EXIT_OK = 0
EXIT_DIFFERENT = 1
EXIT_WARNINGS = 1
EXIT_CONFIGURATION = 2
EXIT_DEFINITE = 3
EXIT_GAVE_UP = 4
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a configuration. ``value`` is masked where it is a secret, None where there is
    none.
    """

    option: str
    message: str
    value: str | None = None

    def __str__(self) -> str:
        where = self.option if self.value is None else f"{self.option} = {self.value}"
        return f"{where}: {self.message}"


class SnapshotterError(Exception):
    """``message`` says what is wrong with which value; ``next_step`` what to do about it."""

    code = EXIT_DEFINITE

    def __init__(self, message: str, next_step: str | None = None, *, condition: str | None = None) -> None:
        """``condition`` names a state of `snapshotter.failure_classes` where the class of the error alone does not tell
        it."""
        super().__init__(message)
        self.message = message
        self.next_step = next_step
        self.condition = condition


class ConfigurationError(SnapshotterError):
    """An option or an argument is wrong. ``message`` and ``next_step`` as in `SnapshotterError`; ``problems`` are all
    that a file has, where one was read, and ``message`` lists them already."""

    code = EXIT_CONFIGURATION

    def __init__(self, message: str, next_step: str | None = None, problems: Iterable[Problem] = ()) -> None:
        super().__init__(message, next_step)
        self.problems = tuple(problems)

    @classmethod
    def of(cls, source: str, problems: Iterable[Problem]) -> ConfigurationError:
        """All problems of one source in one error; ``source`` names it, as a file's path does."""
        found = tuple(problems)
        count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
        return cls("\n".join([f"{count} in {source}", *(f"  - {p}" for p in found)]), problems=found)


class DefiniteError(SnapshotterError):
    """A restart cannot cure it."""

    code = EXIT_DEFINITE


class TransientError(SnapshotterError):
    """It may pass by itself, and is worth a retry."""

    code = EXIT_GAVE_UP


class GaveUp(SnapshotterError):
    """Retried as often as ``errors.max.retries`` allows; the last error is the cause (``__cause__``)."""

    code = EXIT_GAVE_UP


class Stopped(SnapshotterError):
    """Somebody asked for a stop before there was anything to end. It is no failure."""

    code = EXIT_OK

    def __init__(self, message: str) -> None:
        super().__init__(message, condition="interrupted")


@dataclass(frozen=True, slots=True)
class Description:
    """An error for a person, for the status, for notifications and for the log. ``failure`` is its class and
    ``condition`` the named state in that class (`snapshotter.failure_classes`); ``kind`` is the name of the exception.
    ``retriable``: the same may go well later, so it is worth another attempt, or another start."""

    kind: str
    message: str
    next_step: str
    exit_code: int
    expected: bool
    """False for an error nobody has foreseen: a traceback is worth showing."""
    failure: FailureClass
    condition: str
    retriable: bool

    def fields(self) -> dict[str, str]:
        """As log lines and notifications have them, beside the error itself."""
        retry = "true" if self.retriable else "false"
        return {
            "failure": self.failure.value,
            "condition": self.condition,
            "retriable": retry,
            "next_step": self.next_step,
        }


_DEFINITE_AT_SOURCE = frozenset({"position-lost", "source-denied", "event-too-large"})


def exit_code(error: BaseException) -> int:
    """The exit code that an error means."""
    return describe(error).exit_code


def describe(error: BaseException) -> Description:
    """Any exception for a person: its class, message without credentials, next step, exit code. Never raises."""
    # This needs the MongoDB driver, and only errors do.
    from snapshotter.diagnosis import diagnose

    found, kind = diagnose(error), type(error).__name__
    text = _without_marker(_text_of(error))
    message = cause_of(error) if _STACK.search(text) else redact(text)
    ours = isinstance(error, SnapshotterError)
    if isinstance(error, KeyboardInterrupt):
        message = "interrupted"
    elif not (ours or found.expected):
        message = f"unexpected {kind}: {message}"
    return Description(
        kind=kind if ours else found.source_name or kind,
        message=message,
        next_step=str(getattr(error, "next_step", None) or found.condition.next_step),
        exit_code=_code_of(error, found),
        expected=ours or found.expected,
        failure=found.failure,
        condition=found.condition.name,
        retriable=found.retriable,
    )


def _code_of(error: BaseException, found: Diagnosis) -> int:
    """Exit codes are about the process: whether another one, started as this one was, may go well."""
    if isinstance(error, SnapshotterError):
        return error.code
    match found.condition.name:
        case "interrupted":
            return EXIT_INTERRUPTED
        case "wrong-option" | "wrong-signal":
            return EXIT_CONFIGURATION
        case "storage-failing" if "StorageError" in {c.__name__ for c in type(error).__mro__}:
            return EXIT_DEFINITE  # at a start, before anything was tried again: the place is wrong
        case name if name in _DEFINITE_AT_SOURCE:
            return EXIT_DEFINITE
        case "source-unreachable" | "operation-ended":
            return EXIT_GAVE_UP
    return EXIT_GAVE_UP if found.retriable and found.expected else EXIT_DEFINITE


def cause_of(error: BaseException) -> str:
    """What went wrong, on one line and without credentials. Where an error brings the stacks of Java and Python along
    in its text, the last line that names an exception and says more than its class: that is the deepest cause, or what
    was made of it on the way here."""
    text = _without_marker(_text_of(error))
    if _STACK.search(text):
        found = _RAISED.findall(text)
        informative = [raised for raised in found if ": " in raised] or found
        text = informative[-1] if informative else _STACK.split(text)[0]
    line = " ".join(redact(text).split())
    return line if len(line) <= _CAUSE_MAX else f"{line[: _CAUSE_MAX - 1]}…"


def _text_of(error: BaseException) -> str:
    return str(getattr(error, "message", "")) or said_by(error) or type(error).__name__


def _without_marker(text: str) -> str:
    """Without the lines that are for machines."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("SNAPSHOTTER-ERROR "))


_CAUSE_MAX = 500
_STACK = re.compile(r"^\s+at [\w$.]+\(|Traceback \(most recent call last\)|^JVM stacktrace:", re.MULTILINE)
# A line that names what was raised: by its class, with its package or by how such classes are called.
_RAISED = re.compile(
    r"^(?:Caused by: |: )?((?:(?:[\w$]+\.)+[A-Z][\w$]*|\w+(?:Error|Exception))(?:: (?!.*Traceback \(most).*)?)$",
    re.MULTILINE,
)

_MONGODB_CREDENTIALS = re.compile(r"(mongodb(?:\+srv)?://)[^\s\"'<>]*@")
_CREDENTIALS = re.compile(r"(\w+://)[^\s/:@\"'<>]*:[^\s/@\"'<>]*@")
_URI_SECRETS = re.compile(
    r"\b(token=|AWS_SESSION_TOKEN:|tlsCertificateKeyFilePassword=|proxyPassword=|snapshotterIdentity=)[^\s&,\"'<>]*",
    re.IGNORECASE,
)
MASK = "***"


def redact(text: str) -> str:
    """The text with the credentials of every address in it masked."""
    text = _MONGODB_CREDENTIALS.sub(rf"\1{MASK}:{MASK}@", text)
    text = _CREDENTIALS.sub(rf"\1{MASK}:{MASK}@", text)
    return _URI_SECRETS.sub(rf"\1{MASK}", text)

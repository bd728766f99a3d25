"""Errors by whose fault they are and what helps, and the exit code of each.

    SnapshotterError
    ├── ConfigurationError   2  an option or an argument is wrong; nothing was started
    ├── DefiniteError        3  a restart cannot cure it: a missing privilege, a table out of reach
    ├── TransientError       4  it may pass by itself: a connection lost, a primary stepping down
    └── GaveUp               4  it was retried as often as the options allow

``describe`` and ``exit_code`` are the one place where an exception of any kind becomes a message and an
exit code; the command line uses them, and so does the engine's status. Nothing heavy is imported for it
before there is an error.

Exit codes: 0 done, 1 different (``verify``), 2 configuration or usage, 3 and 4 as above, 130 interrupted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

EXIT_OK = 0
EXIT_DIFFERENT = 1
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

    def __init__(self, message: str, next_step: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


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


@dataclass(frozen=True, slots=True)
class Description:
    """An error for a person, and for the status: its class, one message, and what to do next."""

    kind: str
    message: str
    next_step: str | None
    exit_code: int
    expected: bool
    """False for an error nobody has foreseen: a traceback is worth showing."""


# By kind of error at MongoDB (``streaming.mongo.errors.Kind``): exit code, and what to do next.
_AT_MONGODB: dict[str, tuple[int, str | None]] = {
    "transient": (
        EXIT_GAVE_UP,
        "check that the addresses in mongodb.connection.string can be reached from here, and start again",
    ),
    "interrupted": (
        EXIT_GAVE_UP,
        "see who ends operations at the server (killOp), or what limits their time there, and start again",
    ),
    "position-lost": (
        EXIT_DEFINITE,
        "start with engine.position.lost=heal: a new position, and each captured collection is compared with its table",
    ),
    "permission": (
        EXIT_DEFINITE,
        "check mongodb.user, mongodb.password, mongodb.authsource, and the privileges of that user",
    ),
    "configuration": (EXIT_CONFIGURATION, None),
    "event-too-large": (EXIT_DEFINITE, "the change stream cannot deliver an event above 16 MB"),
}

# What Spark, the system or the storage say of what may pass, and what helps.
_AROUND: tuple[tuple[str, str], ...] = (
    # Spark gives a Python process ten seconds, fixed, to start and call back; half of one is usual.
    (
        "Python worker failed to connect back",
        "check that the Python of PYSPARK_PYTHON can import pyspark, and that the machine has time to spare",
    ),
    (
        "Python worker exited unexpectedly",
        "where memory was short, give the machine more or lower engine.batch.max.events, and start again",
    ),
    (
        "OutOfMemoryError",
        "give Spark more memory (spark.driver.memory, spark.executor.memory), and start again",
    ),
    ("No space left on device", "make room on the disk, and start again"),
)
_AROUND_ELSE = "see that delta.warehouse can be written to and that Spark's executors live, and start again"
SESSION_LOST = (
    "Spark's JVM has ended, or its session was stopped: see why (memory, most often), and start again"
)


def exit_code(error: BaseException) -> int:
    """The exit code that an error means."""
    return describe(error).exit_code


_SAID_WHOLE = {"LockError", "MongoUnavailableError", "KafkaUnavailableError", "ServerStartError"}
"""Errors that say themselves what to do: of the lock, and of the servers that the demo and the sandbox start."""
_OF_A_TABLE = {"TableAltered", "TableOwned"}
"""Errors of a table that is not what it was, or another engine's: they bring their next step."""


def describe(error: BaseException) -> Description:
    """Any exception for a person: class, message without credentials, next step, exit code."""
    kind = type(error).__name__
    text = _without_marker(_text_of(error))
    message = cause_of(error) if _STACK.search(text) else redact(text)
    if isinstance(error, KeyboardInterrupt):
        return Description(kind, "interrupted", None, EXIT_INTERRUPTED, True)
    if isinstance(error, SnapshotterError):
        return Description(kind, message, error.next_step, error.code, True)
    # Their modules are loaded wherever their errors are raised, and only there.
    names = {c.__name__ for c in type(error).__mro__}
    if "SignalError" in names:
        return Description(kind, message, None, EXIT_CONFIGURATION, True)
    if names & _OF_A_TABLE:
        return Description(kind, message, str(getattr(error, "next_step", "")) or None, EXIT_DEFINITE, True)
    if names & _SAID_WHOLE:
        return Description(kind, message, None, EXIT_DEFINITE, True)
    if "StorageError" in names:
        next_step = "check delta.warehouse, and the permission to read and write there"
        return Description(kind, message, next_step, EXIT_DEFINITE, True)
    # These need the MongoDB driver, and only errors do.
    from snapshotter import failures
    from streaming.mongo.errors import classify

    found = classify(error)
    if found.kind.value in _AT_MONGODB:
        code, next_step_there = _AT_MONGODB[found.kind.value]
        return Description(found.name or kind, message, next_step_there, code, True)
    fault = failures.classify(error)
    if fault is failures.Fault.SESSION_LOST:
        return Description(kind, message, SESSION_LOST, EXIT_GAVE_UP, True)
    around = next((helps for words, helps in _AROUND if words in text), None)
    if around is not None or fault is failures.Fault.ENVIRONMENT:
        return Description(kind, message, around or _AROUND_ELSE, EXIT_GAVE_UP, True)
    return Description(kind, f"unexpected {kind}: {message}", None, EXIT_DEFINITE, False)


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
    return str(getattr(error, "message", "")) or str(error) or type(error).__name__


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
    r"\b(AWS_SESSION_TOKEN:|tlsCertificateKeyFilePassword=|proxyPassword=)[^\s&,\"'<>]*", re.IGNORECASE
)
MASK = "***"


def redact(text: str) -> str:
    """The text with the credentials of every address in it masked."""
    text = _MONGODB_CREDENTIALS.sub(rf"\1{MASK}:{MASK}@", text)
    text = _CREDENTIALS.sub(rf"\1{MASK}:{MASK}@", text)
    return _URI_SECRETS.sub(rf"\1{MASK}", text)

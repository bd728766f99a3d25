"""Whether an error of any kind (MongoDB's, Spark's, the storage's, or our own) is worth another attempt.

    transient     MongoDB is out of reach, or has no primary: tried again as often as errors.max.retries allows
    interrupted   somebody ended an operation, or its time was up                   } tried again a number of times
    environment   Spark, an executor, a worker that was killed, the storage         } (``Fault.retries``), and then
    unknown       nobody has foreseen it                                            } the engine gives up: exit code 4
    session-lost  Spark's JVM has ended, or its session was stopped: only a new process can go on; exit code 4
    definite      it fails again until somebody changes something: exit code 3

``fault_in`` decides, over values alone; ``classify`` gathers them from an exception and what caused it, in Python and
in the JVM. Only a *definite* fault may be held against one collection or one request at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pymongo.errors import PyMongoError

from streaming.error_text import said_by
from streaming.mongo import errors as mongo_errors
from streaming.mongo.server_codes import Kind

ENVIRONMENT_RETRIES = 30
"""Five minutes at the default pause: room is made on a disk, or an executor is replaced, in less."""
UNKNOWN_RETRIES = 3
_WORDS_MAX = 200_000
_DEPTH_MAX = 20


class Fault(StrEnum):
    """See the text of this module."""

    TRANSIENT = "transient"
    INTERRUPTED = "interrupted"
    ENVIRONMENT = "environment"
    UNKNOWN = "unknown"
    SESSION_LOST = "session-lost"
    DEFINITE = "definite"

    @property
    def retries(self) -> int | None:
        """How many attempts in a row it is worth; None: as many as ``errors.max.retries`` allows."""
        return _RETRIES[self]

    @property
    def may_pass(self) -> bool:
        """Whether another attempt in this process may go well."""
        return self.retries != 0


_RETRIES: dict[Fault, int | None] = {
    Fault.TRANSIENT: None,
    Fault.INTERRUPTED: ENVIRONMENT_RETRIES,
    Fault.ENVIRONMENT: ENVIRONMENT_RETRIES,
    Fault.UNKNOWN: UNKNOWN_RETRIES,
    Fault.SESSION_LOST: 0,
    Fault.DEFINITE: 0,
}


@dataclass(frozen=True, slots=True)
class Link:
    """One error of a chain of causes: what MongoDB said, if it was MongoDB; its classes, the most special one first;
    its words."""

    source: Kind | None = None
    classes: tuple[str, ...] = ()
    words: str = ""


_AT_SOURCE = {
    Kind.TRANSIENT: Fault.TRANSIENT,
    Kind.INTERRUPTED: Fault.INTERRUPTED,
    Kind.UNKNOWN: Fault.UNKNOWN,
}

# Words of Spark and of the system. The first pattern that fits decides: what names a cause stands before what any
# cause may lead to.
_WORDS: tuple[tuple[str, Fault], ...] = (
    (
        r"Answer from Java side is empty|error occurred while trying to connect to the Java server",
        Fault.SESSION_LOST,
    ),
    (r"SparkContext (?:was|has been) (?:shut ?down|stopped)|stopped SparkContext", Fault.SESSION_LOST),
    # A machine short of time, or an interpreter that can't start at all.
    (r"Python worker failed to connect back", Fault.UNKNOWN),
    (r"Cannot run program .*error=(?:11|12),", Fault.ENVIRONMENT),
    (r"Cannot run program", Fault.DEFINITE),
    (r"Python worker exited unexpectedly", Fault.ENVIRONMENT),
    (r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block rdd_\S+ not found", Fault.ENVIRONMENT),
    (
        r"ExecutorLostFailure|Executor heartbeat timed out|Unable to acquire \d+ bytes of memory",
        Fault.ENVIRONMENT,
    ),
    (r"No space left on device|Disk quota exceeded|Too many open files|File too large", Fault.ENVIRONMENT),
    (r"Read-only file system|Input/output error|Stale file handle", Fault.ENVIRONMENT),
    (r"cancelled because SparkContext|Job \d+ cancelled|\bSlow ?Down\b", Fault.ENVIRONMENT),
    (
        r"(?i)\bslow_down\b|throttl|too ?many ?requests|service[ _]?unavailable|status code:? ?(?:429|503)\b",
        Fault.ENVIRONMENT,
    ),
    (r"KafkaError\{code=_(?:ALL_BROKERS_DOWN|TRANSPORT|RESOLVE|TIMED_OUT|MSG_TIMED_OUT)", Fault.ENVIRONMENT),
)

_ENVIRONMENT = """
StorageError ReadBuffersLost MemoryError OSError
IOException UncheckedIOException EOFException FileNotFoundException FileSystemException NoSuchFileException
AccessDeniedException ClosedByInterruptException ClosedChannelException InterruptedIOException
ConnectException NoRouteToHostException SocketException SocketTimeoutException UnknownHostException SSLException
BindException TimeoutException RpcTimeoutException RpcAbortException RpcEndpointNotFoundException
OutOfMemoryError SparkOutOfMemoryError FetchFailedException MetadataFetchFailedException BlockNotFoundException
BlockFetchException TaskKilledException TaskResultLost ShuffleBlockFetcherIterator
ConcurrentAppendException ConcurrentDeleteDeleteException ConcurrentDeleteReadException
ConcurrentTransactionException ConcurrentWriteException MetadataChangedException ProtocolChangedException
CommitFailedException FileAlreadyExistsException
AWSClientIOException AWSServiceIOException AWSServiceThrottledException AWSStatus500Exception AWSS3IOException
SdkClientException AmazonClientException S3Exception AbfsRestOperationException StorageException
"""
_DEFINITE = """
ConfigurationError DefiniteError GaveUp SignalError LockError LandingError
ValueError TypeError LookupError AttributeError NameError AssertionError ArithmeticError NotImplementedError ImportError
ModuleNotFoundError KeyError IndexError UnicodeDecodeError ZeroDivisionError OverflowError PicklingError
AnalysisException DeltaAnalysisException DeltaIllegalArgumentException ParseException
DeltaUnsupportedOperationException InvariantViolationException DeltaInvariantViolationException
SchemaColumnConvertNotSupportedException InvalidProtocolVersionException DeltaTableFeatureException
ClassNotFoundException NoClassDefFoundError NoSuchMethodError NoSuchFieldError AbstractMethodError
ExceptionInInitializerError NotSerializableException
"""
_CLASSES: dict[str, Fault] = {
    **dict.fromkeys(_ENVIRONMENT.split(), Fault.ENVIRONMENT),
    **dict.fromkeys(_DEFINITE.split(), Fault.DEFINITE),
    "Py4JNetworkError": Fault.SESSION_LOST,
    "TransientError": Fault.TRANSIENT,
    "WatermarkLost": Fault.INTERRUPTED,
    "WindowError": Fault.INTERRUPTED,
}
_CLASS_IN_WORDS = re.compile(
    r"\b(?:[a-z]\w*\.)+(?P<java>[A-Z]\w*(?:Exception|Error|Failure))\b"  # java.io.IOException
    r"|^(?:\w+\.)*(?P<python>[A-Z]\w*(?:Error|Exception))(?=:|\s*$)",  # the last line of a traceback
    re.MULTILINE,
)


def classify(error: BaseException) -> Fault:
    """Whether an error is worth another attempt. Never raises."""
    return fault_in(links(error))


def fault_in(chain: Iterable[Link]) -> Fault:
    """The fault of the first link that has one, in a chain of causes with the outermost first; unknown if none has.
    Pure."""
    return next((fault for link in chain if (fault := _of_link(link)) is not None), Fault.UNKNOWN)


def _of_link(link: Link) -> Fault | None:
    if (fault := next((_CLASSES[name] for name in link.classes if name in _CLASSES), None)) is not None:
        return fault
    if link.source is not None:
        return _AT_SOURCE.get(link.source, Fault.DEFINITE)
    for pattern, fault in _WORDS:
        if re.search(pattern, link.words):
            return fault
    faults = [_CLASSES[name] for name in named_in(link.words) if name in _CLASSES]
    # Spark reports a failed stage together with what the failure led to: a definite cause counts for more.
    return Fault.DEFINITE if Fault.DEFINITE in faults else next(iter(faults), None)


def named_in(words: str) -> list[str]:
    """The classes of errors that a text names, in its order."""
    return [match["java"] or match["python"] for match in _CLASS_IN_WORDS.finditer(words)]


def links(error: BaseException) -> Iterator[Link]:
    """The error and its causes. Text that came from an executor may hold a line of ours about MongoDB."""
    for link in mongo_errors.causes(error):
        if isinstance(link, mongo_errors.SourceError | PyMongoError):
            yield Link(mongo_errors.classify(link).kind, words=said_by(link)[:_WORDS_MAX])
            continue
        words = "\n".join([said_by(link), *_in_the_jvm(link)])[:_WORDS_MAX]
        said = mongo_errors.classify(words)
        source = said.kind if said.name else None
        yield Link(source, tuple(kind.__name__ for kind in type(link).__mro__), words)


def _in_the_jvm(error: BaseException) -> Iterator[str]:
    """Class and message of what the JVM threw, and of its causes: PySpark shows the outermost one's only."""
    thrown: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    try:
        for _ in range(_DEPTH_MAX):
            if thrown is None or not hasattr(thrown, "getCause"):
                return
            yield str(thrown.toString())
            thrown = thrown.getCause()
    except Exception as gone:  # noqa: BLE001 - whatever it is: the JVM that threw it can't be asked any more
        yield f"{type(gone).__name__}: {gone}"

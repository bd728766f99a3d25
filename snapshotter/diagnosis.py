"""Which condition an error is in (`snapshotter.failure_classes`): for MongoDB, Spark, Delta, storage and Kafka alike.

``diagnose`` gathers an exception and its causes, in Python and in the JVM (`snapshotter.failures.links`), and
``condition_in`` decides over these values alone. What names a cause counts for more than what any cause may lead to: a
storage error that says "No space left on device" is a full disk. So each link is looked at for something *telling*
first, the outermost first, and only then for what its classes mean in general.

Total: whatever it is given, it answers with a condition, and never raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from snapshotter.failure_classes import CONDITIONS, UNEXPECTED, Condition, FailureClass
from snapshotter.failures import Fault, Link, fault_in, links, named_in
from streaming.mongo.errors import classify
from streaming.mongo.server_codes import Kind

_AT_SOURCE = {
    Kind.TRANSIENT: "source-unreachable",
    Kind.INTERRUPTED: "operation-ended",
    Kind.POSITION_LOST: "position-lost",
    Kind.PERMISSION: "source-denied",
    Kind.CONFIGURATION: "wrong-option",
    Kind.EVENT_TOO_LARGE: "event-too-large",
}

# Classes that say themselves what is wrong, whatever their words.
_TELLING = """
KeyboardInterrupt | interrupted
ConfigurationError InvalidURI ScopeError ChannelOptionsRefused | wrong-option
SignalError | wrong-signal
LockError | name-taken
TableAltered | table-altered
TableOwned | table-owned
LandingOvertaken | name-taken
ReadBuffersLost | executor-lost
WatermarkLost WindowError | watermark-lost
PositionLostError | position-lost
AccessDeniedError | source-denied
EventTooLargeError | event-too-large
DocumentError | unprocessable-document
MalformedBson UnkeyableId MissingId UnreadableRescuedData | malformed-document
Py4JNetworkError | spark-lost
MongoUnavailableError KafkaUnavailableError ServerStartError | server-not-started
"""

# What these classes mean where nothing more telling is there.
_GENERAL = """
StorageError OSError IOException UncheckedIOException FileSystemException | storage-failing
NoSuchFileException FileNotFoundException | storage-failing
EOFException ClosedByInterruptException ClosedChannelException InterruptedIOException | storage-failing
AWSServiceIOException AWSClientIOException AWSStatus500Exception AWSS3IOException SdkClientException | storage-failing
AmazonClientException S3Exception AbfsRestOperationException StorageException | storage-failing
AWSServiceThrottledException | storage-busy
PermissionError AccessDeniedException AccessControlException | storage-denied
ConnectException NoRouteToHostException SocketException SocketTimeoutException UnknownHostException | network-failing
SSLException TimeoutException RpcTimeoutException ConnectionError | network-failing
OutOfMemoryError SparkOutOfMemoryError | heap-too-small
MemoryError | memory-short
FetchFailedException MetadataFetchFailedException BlockNotFoundException BlockFetchException | executor-lost
TaskKilledException TaskResultLost ShuffleBlockFetcherIterator RpcAbortException | executor-lost
RpcEndpointNotFoundException | executor-lost
ConcurrentAppendException ConcurrentDeleteDeleteException ConcurrentDeleteReadException | commit-conflict
ConcurrentTransactionException ConcurrentWriteException MetadataChangedException | commit-conflict
ProtocolChangedException CommitFailedException FileAlreadyExistsException Altered | commit-conflict
DeltaUnsupportedOperationException InvalidProtocolVersionException DeltaTableFeatureException | table-unusable
LandingError | table-unusable
AnalysisException DeltaAnalysisException ParseException InvariantViolationException | schema-mismatch
DeltaInvariantViolationException SchemaColumnConvertNotSupportedException | schema-mismatch
DeltaIllegalArgumentException Unsupported | schema-mismatch
ClassNotFoundException NoClassDefFoundError NoSuchMethodError NoSuchFieldError AbstractMethodError | wrong-libraries
ImportError ModuleNotFoundError | wrong-libraries
KafkaException NotSent TopicUnusable | kafka-failing
TransientError | source-unreachable
DefiniteError GaveUp | refused
"""


def _read(table: str) -> dict[str, str]:
    rows = (line.split("|") for line in table.strip().splitlines())
    return {name: condition.strip() for names, condition in rows for name in names.split()}


_TELLING_CLASSES, _GENERAL_CLASSES = _read(_TELLING), _read(_GENERAL)

_KAFKA = r"KafkaError\{code="
# The first pattern that fits decides.
_WORDS = tuple(
    (re.compile(pattern), condition)
    for pattern, condition in (
        (r"OutOfDiskSpace|ExceededMemoryLimit|QueryExceededMemoryLimit", "source-exhausted"),
        (r"Answer from Java side is empty|trying to connect to the Java server", "spark-lost"),
        (r"SparkContext (?:was|has been) (?:shut ?down|stopped)|stopped SparkContext", "spark-lost"),
        (r"No space left on device|Disk quota exceeded|File too large|DiskOutOfSpace", "disk-full"),
        (r"not enough space on the disk|QuotaExceededException|ENOSPC", "disk-full"),
        (r"Too many open files", "files-exhausted"),
        (r"Cannot run program .*error=(?:11|12),|Cannot allocate memory", "memory-short"),
        (r"Cannot run program", "no-python"),
        (r"Python worker failed to connect back", "worker-late"),
        (r"maxResultSize", "result-too-large"),
        (
            r"OutOfMemoryError|Unable to acquire \d+ bytes of memory|UNABLE_TO_ACQUIRE_MEMORY",
            "heap-too-small",
        ),
        (r"Java heap space|GC overhead limit|INVALID_(?:DRIVER|EXECUTOR)_MEMORY", "heap-too-small"),
        (r"BindException|Address already in use", "ports-taken"),
        (r"JAVA_GATEWAY_EXITED|Java gateway process exited", "spark-not-started"),
        (r"spark\.\S+ should be \w+, but was|INVALID_CONF_VALUE", "wrong-option"),
        (r"Python worker exited unexpectedly", "worker-killed"),
        (
            r"ExecutorLostFailure|Executor heartbeat timed out|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND",
            "executor-lost",
        ),
        (
            r"Checkpoint block rdd_\S+ not found|cancelled because SparkContext|Job \d+ cancelled",
            "executor-lost",
        ),
        (r"(?i)\bslow[ _]?down\b|throttl|too ?many ?requests|service[ _]?unavailable", "storage-busy"),
        (r"(?i)status code:? ?(?:429|503)\b|\b503\b.{0,20}(?:error|response)", "storage-busy"),
        (r"DELTA_(?:CONCURRENT_|METADATA_CHANGED|PROTOCOL_CHANGED|MAX_COMMIT_RETRIES)", "commit-conflict"),
        (
            r"DELTA_(?:FAILED_TO_MERGE|SCHEMA_|MERGE_UNEXPECTED|CAST_OVERFLOW|NOT_NULL_CONSTRAINT)",
            "schema-mismatch",
        ),
        (r"DELTA_(?:UNSUPPORTED|INVALID_PROTOCOL|FEATURE)", "table-unusable"),
        (
            _KAFKA + r"(?:_ALL_BROKERS_DOWN|_TRANSPORT|_RESOLVE|_TIMED_OUT|_MSG_TIMED_OUT)",
            "kafka-unreachable",
        ),
        (_KAFKA + r"(?:BROKER_|LEADER_|COORDINATOR_|NETWORK_|REQUEST_TIMED_OUT|NOT_)", "kafka-unreachable"),
        (_KAFKA + r"\w*(?:SASL|AUTHENTICATION|AUTHORIZATION|_SSL|CREDENTIAL)", "kafka-denied"),
        (_KAFKA, "kafka-failing"),
        # As librdkafka says them in words: of the client itself, or of the broker.
        (r"(?:Local|Broker): .*(?i:authenti|authori|sasl|ssl)", "kafka-denied"),
        (
            r"(?:Local|Broker): .*(?i:are down|transport|resolution|timed out|not available)",
            "kafka-unreachable",
        ),
        (r"\b(?:Local|Broker): [A-Z]", "kafka-failing"),
        (r"kafka\.common\.errors\.(?:Sasl|Ssl)?(?:\w*Authentication|\w*Authorization)", "kafka-denied"),
        (r"kafka\.common\.errors\.\w*(?:Timeout|Disconnect|Network|NotAvailable)", "kafka-unreachable"),
        (r"kafka\.common\.errors\.", "kafka-failing"),
        (r"Permission denied|Access Denied|AccessDenied\b|\b403\b.{0,20}Forbidden", "storage-denied"),
        (r"Read-only file system|Input/output error|Stale file handle", "storage-failing"),
        (r"Kafka at \S+: ", "kafka-unreachable"),
        (r"not authorized on|requires authentication|AuthenticationFailed", "source-denied"),
    )
)


SUSPENDED = "table-altered"
"""The condition of a suspended collection whose error says no more than how its table was altered."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What an error is: its condition, and what it says of trying again."""

    condition: Condition
    fault: Fault
    source_name: str = ""
    """The class of the error at MongoDB, where it was one that is known."""

    @property
    def failure(self) -> FailureClass:
        return self.condition.failure

    @property
    def retriable(self) -> bool:
        """Whether the same thing may go well later, in this process or in the next one, and nobody has to do anything
        for it. (Runs try some of the rest a few times all the same: `Fault.retries`.)"""
        return self.failure.curable and (self.fault.may_pass or self.fault is Fault.SESSION_LOST)

    @property
    def expected(self) -> bool:
        """False for an error that nobody has foreseen: a traceback is worth showing."""
        return self.condition.name not in UNEXPECTED


def diagnose(error: BaseException) -> Diagnosis:
    """The condition of an error, and its fault. An error that says that it was tried often enough is what its cause
    is."""
    chain = list(links(error))
    while len(chain) > 1 and _gave_up(chain):
        chain = chain[1:]
    found = diagnosis_of(chain)
    told = CONDITIONS.get(str(getattr(error, "condition", None)))
    if told is not None and told.name == _BY_FAULT[Fault.SESSION_LOST]:
        found = replace(found, fault=Fault.SESSION_LOST)
    said = classify(error)
    at_source = told is None and _AT_SOURCE.get(said.kind) == found.condition.name
    return replace(found, condition=told or found.condition, source_name=said.name if at_source else "")


def diagnosis_of(chain: Iterable[Link]) -> Diagnosis:
    """As `diagnose`, over values. Pure."""
    chain = tuple(chain)
    fault = Fault.UNKNOWN if _gave_up(chain) else fault_in(chain)
    return Diagnosis(CONDITIONS[condition_in(chain, fault)], fault)


def condition_of_text(text: str, otherwise: str | None = None) -> Condition:
    """The condition of an error of which only its ``text`` was kept, as progress does for requests and suspensions.
    ``otherwise`` names the one where the text does not tell."""
    found = diagnosis_of([Link(words=text)]).condition
    return CONDITIONS[otherwise] if otherwise is not None and found.name in UNEXPECTED else found


def named(trouble: str | None) -> dict[str, str]:
    """Class and named state of what keeps a channel from working, as reports have them; {} where nothing does."""
    if trouble is None:
        return {}
    found = condition_of_text(trouble)
    return {"failure": found.failure.value, "condition": found.name}


def condition_in(chain: Iterable[Link], fault: Fault) -> str:
    """The name of the condition that a chain of causes is in, the outermost first; ``fault`` is what it says of trying
    again. Pure."""
    chain = tuple(chain)
    for look in (_telling, _general):
        if (found := next((name for link in chain if (name := look(link)) is not None), None)) is not None:
            return found
    return _BY_FAULT[fault]


_BY_FAULT = {
    Fault.TRANSIENT: "source-unreachable",
    Fault.INTERRUPTED: "operation-ended",
    Fault.ENVIRONMENT: "storage-failing",
    Fault.UNKNOWN: "unforeseen",
    Fault.SESSION_LOST: "spark-lost",
    Fault.DEFINITE: "defect",
}


def _gave_up(chain: Sequence[Link]) -> bool:
    return bool(chain) and "GaveUp" in chain[0].classes


def _telling(link: Link) -> str | None:
    told = next((_TELLING_CLASSES[name] for name in link.classes if name in _TELLING_CLASSES), None)
    if told is None and link.source is not None:
        told = _AT_SOURCE.get(link.source)
    if told is None:
        told = next((condition for pattern, condition in _WORDS if pattern.search(link.words)), None)
    if told is None:
        told = next((_TELLING_CLASSES[n] for n in named_in(link.words) if n in _TELLING_CLASSES), None)
    return told


def _general(link: Link) -> str | None:
    told = next((_GENERAL_CLASSES[name] for name in link.classes if name in _GENERAL_CLASSES), None)
    if told is None:
        told = next((_GENERAL_CLASSES[n] for n in named_in(link.words) if n in _GENERAL_CLASSES), None)
    return told

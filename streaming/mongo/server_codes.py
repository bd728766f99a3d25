"""What a MongoDB server's error codes say about trying again. Pure: values in, values out.

The numbers, names and categories are the server's own, as it documents them (``error_codes.yml``). A category says what
kind of trouble a code is part of, so most codes need no word of ours: what is over when the node, the primary or the
network is back, and what somebody ended on purpose. The few whose category does not tell stand in ``_KINDS``. A code
that is in neither is *unknown*: it may pass, so it is tried again, but not for long.

Labels come from the server that met the error. Where one says that trying again may help, that counts for more than a
table that is older than the server.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum


class Kind(StrEnum):
    """What can be done about an error at MongoDB."""

    TRANSIENT = "transient"
    INTERRUPTED = "interrupted"
    POSITION_LOST = "position-lost"
    PERMISSION = "permission"
    CONFIGURATION = "configuration"
    EVENT_TOO_LARGE = "event-too-large"
    UNKNOWN = "unknown"

    @property
    def retriable(self) -> bool:
        """Whether the same request may go well if it is sent again."""
        return self in (Kind.TRANSIENT, Kind.INTERRUPTED)

    @property
    def definite(self) -> bool:
        """Whether it will fail again until somebody changes something."""
        return not self.retriable and self is not Kind.UNKNOWN


_PASSING = frozenset(
    {
        "NetworkError",
        "NetworkTimeoutError",
        "NotPrimaryError",
        "ShutdownError",
        "RetriableError",
        "StaleShardVersionError",
        "NeedRetargettingError",
        "SnapshotError",
        "CloseConnectionError",
        "SystemOverloadedError",
    }
)
_ENDED = frozenset({"Interruption", "CursorInvalidatedError", "ExceededTimeLimitError", "CancellationError"})

# code | name | the server's categories that decide here
_CATEGORIES = """
6       | HostUnreachable                         | NetworkError RetriableError
7       | HostNotFound                            | NetworkError RetriableError
24      | LockTimeout                             | Interruption
43      | CursorNotFound                          | CursorInvalidatedError
50      | MaxTimeMSExpired                        | Interruption ExceededTimeLimitError
89      | NetworkTimeout                          | NetworkError RetriableError NetworkTimeoutError
90      | CallbackCanceled                        | CancellationError
91      | ShutdownInProgress                      | ShutdownError CancellationError RetriableError
96      | OperationFailed                         | CursorInvalidatedError
134     | ReadConcernMajorityNotAvailableYet      | RetriableError
150     | StaleEpoch                              | StaleShardVersionError NeedRetargettingError
175     | QueryPlanKilled                         | CursorInvalidatedError
189     | PrimarySteppedDown                      | NotPrimaryError RetriableError
202     | NetworkInterfaceExceededTimeLimit       | ExceededTimeLimitError NetworkTimeoutError
237     | CursorKilled                            | Interruption CursorInvalidatedError
239     | SnapshotTooOld                          | SnapshotError
246     | SnapshotUnavailable                     | SnapshotError
250     | StaleChunkHistory                       | SnapshotError
262     | ExceededTimeLimit                       | Interruption ExceededTimeLimitError RetriableError
272     | MigrationConflict                       | SnapshotError
279     | ClientDisconnect                        | Interruption
280     | ChangeStreamFatalError                  | NonResumableChangeStreamError
281     | TransactionCoordinatorSteppingDown      | Interruption
282     | TransactionCoordinatorReachedAbortDecision | Interruption
286     | ChangeStreamHistoryLost                 | NonResumableChangeStreamError
290     | TransactionExceededLifetimeLimitSeconds | Interruption ExceededTimeLimitError
303     | SplitHorizonChange                      | CloseConnectionError
310     | PeriodicJobIsStopped                    | CancellationError
312     | OperationIsKilledAndDelisted            | CancellationError
314     | ObjectIsBusy                            | CursorInvalidatedError
317     | ConnectionPoolExpired                   | NetworkError RetriableError
322     | APIVersionError                         | VersionedAPIError
323     | APIStrictError                          | VersionedAPIError
324     | APIDeprecationError                     | VersionedAPIError
333     | ServiceExecutorInShutdown               | ShutdownError CancellationError
347     | APIMismatchError                        | VersionedAPIError
355     | InterruptedDueToStorageChange           | Interruption CancellationError
358     | InternalTransactionNotSupported         | RetriableError
372     | CloseConnectionForShutdownCommand       | CloseConnectionError
384     | ConnectionError                         | NetworkError RetriableError
398     | StreamTerminated                        | CloseConnectionError
402     | ResourceExhausted                       | RetriableError
406     | MigrationBlockingOperationCoordinatorCleaningUp | RetriableError
407     | PooledConnectionAcquisitionExceededTimeLimit | ExceededTimeLimitError RetriableError
412     | UpdatesStillPending                     | RetriableError
433     | AdmissionQueueOverflow                  | SystemOverloadedError
449     | RateLimitExceeded                       | SystemOverloadedError
450     | PooledConnectionAcquisitionRejected     | SystemOverloadedError
453     | InterruptedDueToReshardingCriticalSection | Interruption RetriableError
462     | IngressRequestRateLimitExceeded         | SystemOverloadedError RetriableError
9001    | SocketException                         | NetworkError RetriableError
10107   | NotWritablePrimary                      | NotPrimaryError RetriableError
11600   | InterruptedAtShutdown                   | Interruption ShutdownError CancellationError RetriableError
11601   | Interrupted                             | Interruption
11602   | InterruptedDueToReplStateChange         | Interruption NotPrimaryError RetriableError
13388   | StaleConfig                             | StaleShardVersionError NeedRetargettingError
13435   | NotPrimaryNoSecondaryOk                 | NotPrimaryError RetriableError
13436   | NotPrimaryOrSecondary                   | NotPrimaryError RetriableError
40413   | IDLDuplicateField                       | IDLParseError
40414   | IDLFailedToParse                        | IDLParseError
40415   | IDLUnknownField                         | IDLParseError
46841   | ClientMarkedKilled                      | Interruption CancellationError
50915   | BackupCursorOpenConflictWithCheckpoint  | RetriableError
91331   | RetriableRemoteCommandFailure           | Interruption RetriableError
10045600 | InterruptedDueToFCVChange              | Interruption RetriableError
"""

# kind | code, name; … : what no category tells
_KINDS = """
position-lost   | 136 CappedPositionLost
event-too-large | 10334 BSONObjectTooLarge
permission      | 11 UserNotFound; 13 Unauthorized; 18 AuthenticationFailed; 31 RoleNotFound
permission      | 214 AuthenticationRestrictionUnmet; 392 InvalidJWT; 8000 AtlasError
configuration   | 2 BadValue; 9 FailedToParse; 14 TypeMismatch; 59 CommandNotFound; 72 InvalidOptions
configuration   | 73 InvalidNamespace; 115 CommandNotSupported; 121 DocumentValidationFailure; 123 NotAReplicaSet
configuration   | 148 ReadConcernMajorityNotEnabled; 166 CommandNotSupportedOnView; 167 OptionNotSupportedOnView
configuration   | 168 InvalidPipelineOperator; 188 IncompatibleServerVersion; 224 QueryFeatureNotAllowed
configuration   | 238 NotImplemented; 260 InvalidResumeToken; 334 MechanismUnavailable
configuration   | 352 UnsupportedOpQueryCommand; 376 ChangeStreamNotEnabled; 411 QueryRejectedBySettings
configuration   | 40573 $changeStream on a standalone server; 40324 an unknown stage; 40647 a bad resume token
configuration   | 51091 a bad regular expression; 51108 the same; 51111 the same
transient       | 46 LockBusy; 63 StaleShardVersion (before 7.0); 64 WriteConcernTimeout; 94 NotYetInitialized
transient       | 112 WriteConflict; 117 ConflictingOperationInProgress; 133 FailedToSatisfyReadPreference
transient       | 143 CursorInUse; 145 PooledConnectionsDropped; 203 ShardingStateNotInitialized; 206 NoSuchSession
transient       | 209 StaleClusterTime; 211 KeyNotFound; 215 DatabaseDropPending; 216 ElectionInProgress
transient       | 234 RetryChangeStream; 249 StaleDbVersion; 264 TooManyFilesOpen; 308 CurrentConfigNotCommittedYet
transient       | 319 MovePrimaryInProgress; 338 ReshardCollectionInProgress; 365 TemporarilyUnavailable
transient       | 371 UserWritesBlocked; 391 ReauthenticationRequired; 10058 LegacyNotPrimary
"""

_RETRY_LABELS = frozenset(
    {
        "ResumableChangeStreamError",
        "RetryableError",
        "RetryableWriteError",
        "SystemOverloadedError",
        "TransientTransactionError",
    }
)
_LOST_LABEL = "NonResumableChangeStreamError"


def of_categories(categories: Collection[str]) -> Kind:
    """The kind of a code that the server puts into these categories."""
    held = frozenset(categories)
    if _LOST_LABEL in held:
        return Kind.POSITION_LOST
    if held & _PASSING:
        return Kind.TRANSIENT
    if held & _ENDED:
        return Kind.INTERRUPTED
    if held & {"VersionedAPIError", "IDLParseError"}:
        return Kind.CONFIGURATION
    return Kind.UNKNOWN


def _read() -> Mapping[int, Kind]:
    found: dict[int, Kind] = {}
    for line in _CATEGORIES.strip().splitlines():
        code, _, categories = line.split("|")
        found[int(code)] = of_categories(categories.split())
    for line in _KINDS.strip().splitlines():
        kind, codes = line.split("|")
        found |= {int(entry.split()[0]): Kind(kind.strip()) for entry in codes.split(";")}
    return found


CODES: Mapping[int, Kind] = _read()
"""What each code that is known here means."""


def kind_of(code: int | None, labels: Collection[str] = ()) -> Kind:
    """What an error with this code (None: it has none) and these labels means. Never raises."""
    known = Kind.UNKNOWN if code is None else CODES.get(code, Kind.UNKNOWN)
    if known in (Kind.POSITION_LOST, Kind.EVENT_TOO_LARGE) or known.retriable:
        return known
    if _LOST_LABEL in labels:
        return Kind.POSITION_LOST
    return Kind.TRANSIENT if _RETRY_LABELS.intersection(labels) else known

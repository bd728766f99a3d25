"""The catalogue: every figure of an engine, one entry each.

This is the only place that says what there is. `measured` makes the value that ``status.json`` holds under ``metrics``
and that the endpoint shows Prometheus; docs/metrics.md is held against it. A figure that is counted is counted in a
`snapshotter.metrics.tally.Tally` under the name that stands here.

Debezium's come under its own names (`debezium`). Those that mean nothing here are in `ABSENT`, each with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from snapshotter.metrics import snapshots
from snapshotter.metrics.figures import (
    Context,
    Counted,
    Figure,
    Kind,
    Lag,
    Look,
    Noted,
    Number,
    Parts,
    Read,
    SinceNoted,
    Value,
    snake_case,
)
from snapshotter.reporting.status import EngineState, Metrics, RequestState, TopicsReport

SNAPSHOT, STREAMING, ENGINE = Context
_WINDOWS = ("registered", "open", "read", "closing")


def debezium(context: Context, attribute: str, meaning: str, of: Read, label: str = "") -> Figure:
    """A figure of Debezium's, by its ``attribute``; ``context``, ``meaning``, ``of`` and ``label`` as for `Figure`."""
    kind = Kind.UNTYPED if "NumberOf" in attribute else Kind.GAUGE
    return Figure(context, snake_case(attribute), kind, meaning, of, label, attribute)


def ours(name: str, meaning: str, of: Read, label: str = "") -> Figure:
    """A figure of our own, by its ``name``; ``meaning``, ``of`` and ``label`` as for `Figure`."""
    kind = Kind.COUNTER if name.endswith("_total") else Kind.GAUGE
    return Figure(ENGINE, name, kind, meaning, of, label)


def _lag(number: Callable[[Lag], Number]) -> Read:
    return lambda look: None if look.lag is None else number(look.lag)


def _topics(number: Callable[[TopicsReport], Number]) -> Read:
    return lambda look: None if look.status.topics is None else number(look.status.topics)


def _behind(look: Look) -> Number | None:
    lag = look.status.lag_seconds
    return None if lag is None else round(1000 * lag)


def _position(look: Look) -> Mapping[str, Number] | None:
    position = look.status.position
    return None if position is None else {"sec": position.t, "ord": position.i}


def _states(look: Look) -> Mapping[str, Number]:
    return {state.value: int(state is look.status.state) for state in EngineState}


def _requests(look: Look) -> Mapping[str, Number]:
    found = Counter(request.state for request in look.status.requests)
    return {state.value: found[state] for state in RequestState}


def _windows(look: Look) -> Mapping[str, Number]:
    return {**dict.fromkeys(_WINDOWS, 0), **Counter(window.state for window in look.status.windows)}


def _suspended(look: Look) -> Number:
    return sum(suspension.restored_by is None for suspension in look.status.suspended)


def _gaps(look: Look) -> Number:
    return len(look.status.gaps)


def _gap_collections(look: Look) -> Number:
    return len({name for gap in look.status.gaps for name in gap.left})


def _runway(look: Look) -> Number | None:
    hours = None if look.status.oplog is None else look.status.oplog.runway_hours
    return None if hours is None else 3_600 * hours


def _dead_letters(look: Look) -> Number:
    return 0 if look.status.dead_letters is None else look.status.dead_letters.waiting


def _erroneous(look: Look) -> Number:
    counted = look.counts.get("dead_letters", {})
    return counted.get("stream", 0) + counted.get("lookup", 0)


def _restarts(look: Look) -> Number | None:
    return None if look.status.restarts is None else look.status.restarts.count


def _waiting(look: Look) -> Mapping[str, Number]:
    return {channel.name: channel.waiting for channel in look.status.notifications}


def _dropped(look: Look) -> Mapping[str, Number]:
    return {channel.name: channel.dropped for channel in look.status.notifications}


def _in_trouble(look: Look) -> Mapping[str, Number]:
    return {channel.name: int(channel.trouble is not None) for channel in look.status.channels}


_LOST = "Servers that were known and got lost, since the start: as the engine's own client saw it."
_TABLES = "How many collections have a table."
_BYTES_MAX = "`engine.batch.max.bytes` in force, which Debezium calls `max.queue.size.in.bytes`."

_SNAPSHOT = (
    debezium(
        SNAPSHOT,
        "TotalNumberOfEventsSeen",
        "Documents that snapshots have read since the start.",
        Counted("documents_read"),
    ),
    debezium(
        SNAPSHOT, "MilliSecondsSinceLastEvent", "Since a snapshot has read a chunk.", SinceNoted("last_read")
    ),
    debezium(
        SNAPSHOT,
        "NumberOfErroneousEvents",
        "Documents of snapshots that could not be processed, and went to the dead letters, since the start.",
        Counted("dead_letters", "read"),
    ),
    debezium(SNAPSHOT, "CapturedTables", _TABLES, lambda look: look.tables),
    debezium(
        SNAPSHOT,
        "TotalTableCount",
        "Collections that the snapshot reads.",
        snapshots.how_many(lambda _: True),
    ),
    debezium(
        SNAPSHOT,
        "RemainingTableCount",
        "Those of them that are not read to their end.",
        snapshots.how_many(lambda collection: not collection.state.ended),
    ),
    debezium(
        SNAPSHOT,
        "SnapshotRunning",
        "1 while a snapshot is being read, else 0.",
        snapshots.any_in(RequestState.RUNNING),
    ),
    debezium(
        SNAPSHOT,
        "SnapshotPaused",
        "1 while a snapshot is paused, else 0.",
        snapshots.any_in(RequestState.PAUSED),
    ),
    debezium(
        SNAPSHOT,
        "SnapshotAborted",
        "1 if the snapshot was stopped or has failed, else 0.",
        snapshots.any_in(RequestState.STOPPED, RequestState.FAILED),
    ),
    debezium(SNAPSHOT, "SnapshotCompleted", "1 if the snapshot has completed, else 0.", snapshots.completed),
    debezium(
        SNAPSHOT, "SnapshotSkipped", "1 if this start had nothing to read, else 0.", Counted("loads_skipped")
    ),
    debezium(
        SNAPSHOT,
        "SnapshotDurationInSeconds",
        "From the snapshot's signal up to its end, pauses included.",
        snapshots.duration,
    ),
    debezium(
        SNAPSHOT,
        "SnapshotPausedDurationInSeconds",
        "How long the snapshot has been paused since the start.",
        snapshots.paused,
    ),
    debezium(
        SNAPSHOT,
        "RowsScanned",
        "Documents of a collection whose chunks have landed.",
        snapshots.by_collection(lambda collection: collection.rows + collection.dropped),
        "collection",
    ),
    debezium(
        SNAPSHOT,
        "TableChunksCompletedCounts",
        "Chunks of a collection that have landed.",
        snapshots.by_collection(lambda collection: collection.chunks_done),
        "collection",
    ),
    debezium(SNAPSHOT, "NumberOfDisconnects", _LOST, lambda look: look.connection.disconnects),
    debezium(SNAPSHOT, "MaxQueueSizeInBytes", _BYTES_MAX, Noted("bytes_max")),
    debezium(
        SNAPSHOT, "CurrentQueueSizeInBytes", "BSON of READs that wait for a batch.", Noted("bytes_read")
    ),
)

_STREAMING = (
    debezium(
        STREAMING,
        "Connected",
        "1 while a server can be read from, else 0.",
        lambda look: int(look.connection.connected),
    ),
    debezium(STREAMING, "MilliSecondsBehindSource", "The lag: how far what has landed is behind.", _behind),
    debezium(
        STREAMING,
        "MilliSecondsBehindSourceMinValue",
        "The least lag of the last looks.",
        _lag(lambda lag: lag.least),
    ),
    debezium(
        STREAMING,
        "MilliSecondsBehindSourceMaxValue",
        "The greatest lag of the last looks.",
        _lag(lambda lag: lag.most),
    ),
    debezium(
        STREAMING,
        "MilliSecondsBehindSourceAverageValue",
        "The mean lag of the last looks.",
        _lag(lambda lag: lag.average),
    ),
    debezium(
        STREAMING,
        "MilliSecondsBehindSourceP50",
        "The lag that half of the looks do not exceed.",
        _lag(lambda lag: lag.p50),
    ),
    debezium(
        STREAMING,
        "MilliSecondsBehindSourceP95",
        "The lag that 95 % of the looks do not exceed.",
        _lag(lambda lag: lag.p95),
    ),
    debezium(
        STREAMING,
        "MilliSecondsBehindSourceP99",
        "The lag that 99 % of the looks do not exceed.",
        _lag(lambda lag: lag.p99),
    ),
    debezium(
        STREAMING,
        "MilliSecondsSinceLastEvent",
        "Since a batch with events has landed.",
        SinceNoted("last_landed"),
    ),
    debezium(
        STREAMING,
        "TotalNumberOfEventsSeen",
        "Inserts, updates and deletes since the start.",
        Counted("events_seen"),
    ),
    debezium(
        STREAMING, "TotalNumberOfCreateEventsSeen", "Inserts since the start.", Counted("events_seen", "c")
    ),
    debezium(
        STREAMING,
        "TotalNumberOfUpdateEventsSeen",
        "Updates and replacements since the start.",
        Counted("events_seen", "u"),
    ),
    debezium(
        STREAMING, "TotalNumberOfDeleteEventsSeen", "Deletes since the start.", Counted("events_seen", "d")
    ),
    debezium(
        STREAMING,
        "NumberOfErroneousEvents",
        "Events that could not be processed, and went to the dead letters, since the start.",
        _erroneous,
    ),
    debezium(STREAMING, "CapturedTables", _TABLES, lambda look: look.tables),
    debezium(
        STREAMING,
        "SourceEventPosition",
        "The position: the seconds of its cluster time (`sec`), and the increment within them (`ord`).",
        _position,
        "part",
    ),
    debezium(
        STREAMING,
        "NumberOfCommittedTransactions",
        "Transactions in the table of transactions since the start, with `provide.transaction.metadata`.",
        Noted("transactions"),
    ),
    debezium(STREAMING, "NumberOfDisconnects", _LOST, lambda look: look.connection.disconnects),
    debezium(
        STREAMING,
        "NumberOfPrimaryElections",
        "How often another primary took over, or the same one in another term, since the start.",
        lambda look: look.connection.elections,
    ),
    debezium(
        STREAMING,
        "LastSourceEventPollTime",
        "Milliseconds that it took to read the newest batch with events.",
        Noted("poll_ms"),
    ),
    debezium(
        STREAMING,
        "LastEmptyPollTime",
        "Milliseconds that it took to read the newest batch without events.",
        Noted("empty_poll_ms"),
    ),
    debezium(
        STREAMING, "NumberOfEmptyPolls", "Batches without events since the start.", Counted("empty_polls")
    ),
    debezium(STREAMING, "MaxQueueSizeInBytes", _BYTES_MAX, Noted("bytes_max")),
    debezium(
        STREAMING, "CurrentQueueSizeInBytes", "BSON of the batch that is landing.", Noted("bytes_landing")
    ),
)

_ENGINE = (
    ours("state", "1 for the state that the engine is in, else 0.", _states, "state"),
    ours("failing", "1 while there is an error, else 0.", lambda look: int(look.status.error is not None)),
    ours(
        "updated_timestamp_seconds",
        "When these figures were made (since the epoch).",
        lambda look: look.seconds,
    ),
    ours("batches_total", "Batches that have landed.", Counted("batches")),
    ours(
        "batch_seconds_total",
        "How long batches took: to be read from the source (`read`), for signals and a look at the tables (`survey`), "
        "to land in all tables (`land`), to save progress (`save`).",
        Parts("batch_seconds", ("read", "survey", "land", "save")),
        "phase",
    ),
    ours("commits_total", "Landings of state tables that wrote something.", Counted("commits")),
    ours("copied_bytes_total", "Bytes of unchanged rows that landings wrote again.", Counted("copied_bytes")),
    ours(
        "commit_seconds_total",
        "How long landings took, added up over tables that land side by side: to make rows of events (`decode`), to "
        "write and commit them (`write`).",
        Parts("commit_seconds", ("decode", "write")),
        "phase",
    ),
    ours(
        "rows_landed_total",
        "Rows written for an event (`change`) or a READ (`read`); deleted for an event (`delete`), or because they are "
        "missing at source (`missing`).",
        Parts("rows_landed", ("change", "read", "delete", "missing")),
        "cause",
    ),
    ours("reads_superseded_total", "READs that an event has superseded.", Counted("reads_superseded")),
    ours(
        "reads_unchanged_total",
        "READs that equal their rows, so they are not written.",
        Counted("reads_unchanged"),
    ),
    ours("changelog_events_total", "Events put into a changelog.", Parts("changelog_events"), "collection"),
    ours("changelog_reads_total", "READs put into a changelog.", Parts("changelog_reads"), "collection"),
    ours("upkeep_total", "What was done to files of tables, and what failed.", Parts("upkeep"), "what"),
    ours("upkeep_bytes_total", "Bytes of files that upkeep has written.", Counted("upkeep_bytes")),
    ours("windows_in_flight", "Snapshot windows that are open.", _windows, "state"),
    ours(
        "windows_total",
        "Windows that have landed (`landed`), or were given up: most of them are read again (`given_up`).",
        Parts("windows", ("landed", "given_up")),
        "outcome",
    ),
    ours("chunks_read_total", "Chunks that were read.", Counted("chunks_read")),
    ours(
        "chunk_read_seconds_total",
        "How long it took to read chunks, added up.",
        Counted("chunk_read_seconds"),
    ),
    ours(
        "retries_total",
        "Errors that may pass, after which it is tried again: of a run (`run`), of a window (`window`).",
        Parts("retries", ("run", "window")),
        "what",
    ),
    ours("requests", "Snapshot requests that are known.", _requests, "state"),
    ours(
        "rows_estimated",
        "Documents of a collection that a snapshot reads, as MongoDB estimates them; without a filter.",
        snapshots.by_collection(lambda collection: collection.estimated_total),
        "collection",
    ),
    ours(
        "dead_letters_total",
        "What could not be processed: an event (`stream`), the document looked up for one (`lookup`), a READ (`read`).",
        Parts("dead_letters", ("stream", "lookup", "read")),
        "stage",
    ),
    ours("dead_letters_waiting", "Dead letters that have not been replayed.", _dead_letters),
    ours("suspended_collections", "Collections of which nothing lands.", _suspended),
    ours("gaps_open", "Stretches of the stream that were not seen, and are not healed.", _gaps),
    ours("gap_collections", "Collections that are still to be compared because of a gap.", _gap_collections),
    ours("oplog_runway_seconds", "For how long the oplog still holds the position.", _runway),
    ours("restarts", "Automatic restarts since the engine was last healthy for long enough.", _restarts),
    ours("notifications_waiting", "Notifications that wait for a channel.", _waiting, "channel"),
    ours("notifications_dropped_total", "Notifications that a channel has lost.", _dropped, "channel"),
    ours("topics_records_waiting", "Records that wait for Kafka.", _topics(lambda t: t.records_waiting)),
    ours("topics_bytes_waiting", "What they take in the outbox.", _topics(lambda t: t.bytes_waiting)),
    ours("topics_lag_seconds", "For how long the oldest of them waits.", _topics(lambda t: t.lag_seconds)),
    ours("topics_records_total", "Records that Kafka has taken.", _topics(lambda t: t.records_sent)),
    ours("topics_full", "1 while the stream waits for Kafka, else 0.", _topics(lambda t: int(t.full))),
    ours("channels_in_trouble", "1 for a signal channel that does not work, else 0.", _in_trouble, "channel"),
)

CATALOGUE: tuple[Figure, ...] = (*_SNAPSHOT, *_STREAMING, *_ENGINE)
COUNTED = frozenset(f.counted for f in CATALOGUE if f.counted is not None)
"""What a tally may count."""

_TEXT = "a text that changes with every event would be a new time series each time"
ABSENT: Mapping[str, str] = {
    "LastEvent": _TEXT,
    "LastTransactionId": f"{_TEXT}; transactions stand in their table",
    "NumberOfEventsFiltered": "what is not captured is left out by the server, and nobody counts it",
    "QueueTotalCapacity": "there is no queue of events: Spark asks for a batch when the one before it has landed",
    "QueueRemainingCapacity": "as QueueTotalCapacity; what waits at the source shows as the lag",
    "TableChunkCounts": "chunks are planned as the scan goes on, so there is no number of them beforehand",
    "ChunkId": "several windows are open at a time; status names them",
    "ChunkFrom": "an id is no number; notifications carry it (last_processed_key)",
    "ChunkTo": "as ChunkFrom",
    "TableFrom": "as ChunkFrom",
    "TableTo": "as ChunkFrom; notifications call it maximum_key",
    "NumberOfUnchangedEventsSkipped": "Debezium itself counts none for MongoDB, and says -1",
}
"""Attributes of Debezium's metrics for MongoDB that are not shown, and why."""


def measured(look: Look) -> Metrics:
    """All figures that are known, by context and name. Whoever shows them shows this."""
    found: Metrics = {context.value: {} for context in Context}
    for figure in CATALOGUE:
        if (value := figure.of(look)) is not None:
            found[figure.context][figure.name] = _plain(value)
    return found


def _plain(value: Value) -> Number | dict[str, Number]:
    return dict(value) if isinstance(value, Mapping) else value

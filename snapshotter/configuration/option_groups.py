"""The options that work, one field each: name, default, range, and one line of what it does.

This is the only place that says so. Parsing, the error messages, the masked print-out and the catalogue are
all derived from these fields.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import model_validator

from snapshotter.configuration.deletes_options import DeletesOptions
from snapshotter.configuration.event_options import EventOptions
from snapshotter.configuration.failure_options import FailureOptions
from snapshotter.configuration.guardrail_options import GuardrailOptions
from snapshotter.configuration.heartbeat_options import HeartbeatOptions
from snapshotter.configuration.metrics_options import MetricsOptions
from snapshotter.configuration.mongodb_options import MongodbOptions
from snapshotter.configuration.option_values import (
    CaptureMode,
    Flag,
    FullUpdate,
    Group,
    Layout,
    MatchMode,
    Names,
    NewCollections,
    Passed,
    SnapshotMode,
    TableAltered,
    Text,
    WholeNumber,
    choice,
    option,
)
from snapshotter.configuration.page_options import PageOptions
from snapshotter.configuration.position_options import PositionOptions
from snapshotter.configuration.retry_options import RetryOptions
from snapshotter.configuration.table_options import TableOptions
from snapshotter.configuration.topic_options import TopicOptions
from snapshotter.configuration.upkeep_options import UpkeepOptions
from snapshotter.core.values.watermark_ids import Strategy
from streaming.fields.rules import OPTIONS as FIELD_OPTIONS
from streaming.scope.scope import Level
from streaming.source.change_options import BATCH_BYTES

BATCH_BYTES_MIN = 1 << 20
_BASED = "snapshot.mode.configuration.based"


class NamingOptions(Group):
    """What the engine is called: one of the two is enough."""

    name: Text = option("name", "names the position and the state; unset is topic.prefix", "")
    topic_prefix: Text = option("topic.prefix", "names the source in events; unset is name", "")
    partition_name: Text = option(
        "offset.partition.name",
        "the name of the position; another name is a new position, as at a first start",
        "",
    )


class ProviderOptions(Group):
    """Where values come from that are not in the configuration itself (`config_providers`)."""

    names: Names = option(
        "config.providers",
        "names of providers of values, besides file, dir and env, which there always are",
        (),
    )
    each: Passed = option(
        "config.providers.*", "the class of one, and what it may read (.class, .param.*)", {}
    )


class CaptureOptions(Group):
    """What is captured, and how."""

    @model_validator(mode="before")
    @classmethod
    def _split_names(cls, values: Any) -> Any:
        """Names that are taken literally are split at every comma: their brackets mean nothing."""
        if str(values.get("filters.match.mode", "")).strip().lower() != MatchMode.LITERAL:
            return values
        lists = {
            name: text
            for name, text in values.items()
            if name.startswith(("database.", "collection.")) and name.endswith(".list")
        }
        split = {
            n: tuple(part.strip() for part in str(t).split(",") if part.strip()) for n, t in lists.items()
        }
        return {**values, **split}

    database_include: Names = option("database.include.list", "databases to capture; empty is all", ())
    database_exclude: Names = option("database.exclude.list", "databases not to capture", ())
    collection_include: Names = option(
        "collection.include.list", "collections to capture (db.coll); empty is all", ()
    )
    collection_exclude: Names = option("collection.exclude.list", "collections not to capture (db.coll)", ())
    match_mode: Annotated[MatchMode, choice(MatchMode)] = option(
        "filters.match.mode", "how include and exclude lists are read: regex or literal", MatchMode.REGEX
    )
    mode: Annotated[CaptureMode, choice(CaptureMode)] = option(
        "capture.mode", "what change events carry", CaptureMode.FULL
    )
    full_update: Annotated[FullUpdate, choice(FullUpdate)] = option(
        "capture.mode.full.update.type",
        "where updated documents come from: lookup or post_image",
        FullUpdate.LOOKUP,
    )
    scope: Annotated[Level, choice(Level)] = option(
        "capture.scope", "what the change stream is opened on", Level.DEPLOYMENT
    )
    target: Text | None = option("capture.target", "the database or collection of a narrower scope", None)
    start_op_time: WholeNumber = option(
        "capture.start.op.time",
        "where a first start begins: a 64-bit BSON timestamp; -1 is now",
        -1,
        ge=-1,
        lt=1 << 63,
    )
    transactions: Flag = option(
        "provide.transaction.metadata",
        "tell the begin and the end of transactions in the Delta table transactions, beside the engine's state",
        False,
    )
    field_exclude: Text = option(
        "field.exclude.list", "fields left out, each as database.collection.path (docs/fields.md)", ""
    )
    field_renames: Text = option("field.renames", "fields renamed, each as database.collection.path:new", "")
    field_hash: Text = option(
        "engine.field.hash.list", "fields of which only a hash is kept, each as database.collection.path", ""
    )
    field_hash_salt: str | None = option(
        "engine.field.hash.salt", "the secret that hashes are made with (HMAC-SHA-256)", None, secret=True
    )
    cursor_max_await_time_ms: WholeNumber = option(
        "cursor.max.await.time.ms", "how long the server waits for changes; 0 is its own default", 0, ge=0
    )

    @property
    def field_options(self) -> dict[str, str]:
        """Those about fields, by their names."""
        values = self.field_exclude, self.field_renames, self.field_hash, self.field_hash_salt or ""
        return dict(zip(FIELD_OPTIONS, values, strict=True))


class SnapshotOptions(Group):
    """What is read when, and in what pieces."""

    mode: Annotated[SnapshotMode, choice(SnapshotMode, never=SnapshotMode.NO_DATA)] = option(
        "snapshot.mode", "what a start reads, and whether changes stream", SnapshotMode.INITIAL
    )
    custom_name: Text | None = option(
        "snapshot.mode.custom.name",
        "with custom: the entry point of a snapshot mode of one's own, or what its class says to name()",
        None,
    )
    based_data: Flag = option(f"{_BASED}.snapshot.data", "with configuration_based: every start reads", False)
    based_stream: Flag = option(f"{_BASED}.start.stream", "with configuration_based: changes stream", False)
    based_on_data_error: Flag = option(
        f"{_BASED}.snapshot.on.data.error",
        "with configuration_based: a lost position leads to a new one, and all is read again",
        False,
    )
    based_schema: Flag = option(
        f"{_BASED}.snapshot.schema",
        "with configuration_based: a start makes missing tables before it reads, also those of empty collections",
        False,
    )
    based_on_schema_error: Flag = option(
        f"{_BASED}.snapshot.on.schema.error",
        "with configuration_based: a table that somebody else has changed, or removed, is read again at once",
        False,
    )
    include: Names = option(
        "snapshot.include.collection.list",
        "collections that an initial load reads; empty is all captured",
        (),
    )
    filtered: Names = option(
        "snapshot.collection.filter.overrides",
        "collections (db.coll) of which an initial load reads only what a filter matches",
        (),
    )
    filters: Passed = option(
        "snapshot.collection.filter.overrides.*", "the filter of one such collection, a query document", {}
    )
    fetch_size: WholeNumber = option(
        "snapshot.fetch.size", "documents in a reply of a snapshot's cursor; 0 is 8,000", 0, ge=0
    )
    max_threads: WholeNumber | None = option(
        "snapshot.max.threads",
        "collections read side by side, and jobs that read; unset is 4 and 2",
        None,
        ge=1,
        le=64,
    )
    delay_ms: WholeNumber = option(
        "snapshot.delay.ms", "pause before a start that reads; changes stream after it", 0, ge=0
    )
    streaming_delay_ms: WholeNumber = option(
        "streaming.delay.ms",
        "pause at a start before changes stream; none of them is lost, and no window closes meanwhile",
        0,
        ge=0,
    )
    chunk_size: WholeNumber | None = option(
        "incremental.snapshot.chunk.size",
        "documents in a window, exactly; unset adapts to bytes and time",
        None,
        ge=1,
    )
    watermarking: Annotated[Strategy, choice(Strategy)] | None = option(
        "incremental.snapshot.watermarking.strategy",
        "how windows are marked; unset is insert_insert with a signal collection, else cluster_time",
        None,
    )


class SignalOptions(Group):
    """Where signals come from."""

    collection: Names = option(
        "signal.data.collection", "collection (db.coll) that signals are inserted into", ()
    )
    channels: Names = option("signal.enabled.channels", "channels that signals come by", ("source",))
    poll_interval_ms: WholeNumber = option(
        "signal.poll.interval.ms",
        "how often channels other than the collection are looked at; every second at least",
        5_000,
        ge=1,
    )
    file: Text = option(
        "signal.file", "the file of JSON lines of the channel file", "file-signals.txt", min_length=1
    )
    kafka: Passed = option("signal.kafka.*", "brokers, topic and group of the channel kafka", {})
    consumer: Passed = option(
        "signal.consumer.*",
        "Kafka's client of the channel kafka (Java's or librdkafka's names)",
        {},
        secret=True,
    )
    custom: Passed = option("signal.custom.*", "what custom channels are given", {}, secret=True)


class NotificationOptions(Group):
    """Where operators are notified."""

    channels: Names = option(
        "notification.enabled.channels", "where notifications go: log, sink, delta, or custom ones", ()
    )
    topic: Text | None = option("notification.sink.topic.name", "the Kafka topic of the channel sink", None)
    bootstrap_servers: Text | None = option(
        "notification.sink.bootstrap.servers", "Kafka's brokers for the channel sink: host:port,…", None
    )
    producer: Passed = option(
        "notification.producer.*", "Kafka's client of the channel sink (librdkafka's names)", {}, secret=True
    )
    custom: Passed = option("notification.custom.*", "what custom channels are given", {}, secret=True)


class DeltaOptions(Group):
    """Where tables lie, and in what form."""

    warehouse: Text = option(
        "delta.warehouse",
        "folder or URI under which all tables and all state lie; for a file without it, the environment variable "
        "SNAPSHOTTER_DELTA_WAREHOUSE",
        min_length=1,
    )
    layout: Annotated[Layout, choice(Layout, planned=("document", "json"))] = option(
        "delta.table.layout", "how documents lie in tables", Layout.COLUMNS
    )


class EngineOptions(Group):
    """How much at once, and what requests may do."""

    batch_max_events: WholeNumber = option(
        "engine.batch.max.events",
        "change events in a micro-batch, at most; a quarter more where that ends a backlog",
        200_000,
        ge=1,
    )
    batch_max_bytes: WholeNumber | None = option(
        "engine.batch.max.bytes",
        "bytes of documents that a micro-batch of changes aims at, and that READs of a backfill may have at a time; "
        "unset is max.queue.size.in.bytes",
        None,
        ge=BATCH_BYTES_MIN,
    )
    queue_max_bytes: WholeNumber = option(
        "max.queue.size.in.bytes", "Debezium's name of engine.batch.max.bytes; 0 is 512 MiB", 0, ge=0
    )
    stream_readers: WholeNumber = option(
        "engine.stream.readers",
        "change streams that read a large batch side by side, as far as Spark has cores",
        4,
        ge=1,
        le=64,
    )
    windows_in_flight: WholeNumber = option(
        "engine.windows.in.flight",
        "snapshot windows open at a time, at least, unless changes stream",
        6,
        ge=1,
        le=64,
    )
    files_min_documents: WholeNumber = option(
        "engine.read.files.min.documents",
        "chunks of a size that is set and smaller are held as rows until they land; others are written as files of "
        "their table when they are read",
        10_000,
        ge=0,
    )
    chunk_target_bytes: WholeNumber = option(
        "engine.chunk.target.bytes", "BSON bytes that an adaptive chunk aims at", 16 << 20, ge=1
    )
    trigger_interval_ms: WholeNumber = option(
        "engine.trigger.interval.ms",
        "shortest time between micro-batches; 0 is as soon as possible",
        200,
        ge=0,
    )
    keys_memory_bytes: WholeNumber | None = option(
        "engine.keys.memory.bytes",
        "memory of the engine's own process for keys of tables' files, among which it finds old rows without Spark; 0 "
        "leaves that to Spark; unset is a 32nd part of what there is, from 96 MiB to 1 GiB",
        None,
        ge=0,
    )
    commit_interval_ms: WholeNumber | None = option(
        "engine.commit.interval.ms",
        "least time from one landing of changes to the next; 0 is none; unset goes by what landings copy: up to 60 "
        "seconds where they write files again",
        None,
        ge=0,
        le=3_600_000,
    )
    commit_target_rows: WholeNumber = option(
        "engine.commit.target.rows", "rows that one commit of a backfill aims at", 600_000, ge=1
    )
    filters_allow_code: Flag = option(
        "engine.filters.allow.code",
        "let filters run JavaScript on the server: $where, $function, $accumulator",
        False,
    )
    snapshot_new_collections: Annotated[NewCollections, choice(NewCollections)] = option(
        "engine.snapshot.new.collections",
        "what a later start does with collections that are captured since: auto (as a first start would), read, warn",
        NewCollections.AUTO,
    )
    batch_wait_ms: WholeNumber = option(
        "engine.batch.wait.ms",
        "how long a batch of changes waits for snapshot windows that are about to be ready; whole seconds count",
        4_000,
        ge=0,
        le=60_000,
    )
    yield_ms: WholeNumber = option(
        "engine.yield.ms",
        "next to no chunks are read while a batch with changes lands that spans as long as this; 0 is never; "
        "whole seconds count",
        2_000,
        ge=0,
        le=60_000,
    )
    target_lag_ms: WholeNumber = option(
        "engine.target.lag.ms",
        "a backfill reads less at a time, down to three eighths, where changes beside it take longer than this until a "
        "table shows them; 0 is never",
        7_000,
        ge=0,
        le=600_000,
    )
    table_altered: Annotated[TableAltered, choice(TableAltered)] = option(
        "engine.table.altered",
        "where somebody else has changed a table's rows, or it is gone: suspend its collection until it is read again, "
        "or repair it by reading it again at once",
        TableAltered.SUSPEND,
    )
    status_collection: Flag = option(
        "engine.status.collection",
        "write what becomes of each signal into the collection <signal.data.collection>_status",
        True,
    )
    requests_max: WholeNumber = option(
        "engine.requests.max",
        "snapshot requests that may wait or run; what comes beyond is refused",
        1_000,
        ge=1,
    )
    signals_remember_ms: WholeNumber = option(
        "engine.signals.remember.ms",
        "how long the id of a signal that was handled, or whose snapshot has ended, is known at least; the newest ones "
        "are known for longer",
        86_400_000,
        ge=1_000,
    )
    watermarks_keep: Flag = option(
        "engine.watermarks.keep",
        "with insert_insert, leave the documents of windows in the signal collection when they have ended",
        False,
    )
    post_images_enable: Flag = option(
        "engine.post.images.enable",
        "switch pre- and post-images on (collMod) where a collection that they are counted on for keeps none",
        False,
    )

    @property
    def bytes_at_once(self) -> int:
        """``engine.batch.max.bytes`` in force."""
        return self.batch_max_bytes or self.queue_max_bytes or BATCH_BYTES


GROUPS: dict[str, type[Group]] = {
    "naming": NamingOptions,
    "providers": ProviderOptions,
    "mongodb": MongodbOptions,
    "capture": CaptureOptions,
    "guardrail": GuardrailOptions,
    "snapshot": SnapshotOptions,
    "signal": SignalOptions,
    "notification": NotificationOptions,
    "metrics": MetricsOptions,
    "page": PageOptions,
    "heartbeat": HeartbeatOptions,
    "events": EventOptions,
    "position": PositionOptions,
    "retry": RetryOptions,
    "failures": FailureOptions,
    "delta": DeltaOptions,
    "deletes": DeletesOptions,
    "tables": TableOptions,
    "upkeep": UpkeepOptions,
    "topics": TopicOptions,
    "engine": EngineOptions,
}
"""The groups of ``Settings``, by attribute."""

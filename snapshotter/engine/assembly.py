"""The composition root: from settings to an engine. The only place where configuration meets the engine's own types."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.metadata import version

import structlog
from pyspark.sql import SparkSession

from signals.notifications.kafka import KafkaNotificationOptions
from snapshotter.configuration.channel_checks import channel_config
from snapshotter.configuration.channel_config import check_options
from snapshotter.configuration.engine_config import EngineConfig, layout_of
from snapshotter.configuration.metrics_config import NAME, SERVER, MetricsConfig, tags_of
from snapshotter.configuration.notification_config import SINK, NotificationConfig
from snapshotter.configuration.option_values import LimitAction, TableAltered
from snapshotter.configuration.settings import Settings
from snapshotter.configuration.snapshot_decisions import by_mode, policy
from snapshotter.engine.engine import Engine
from snapshotter.machine_memory import memory_bytes
from snapshotter.reading.chunk_reader import FETCH_SIZE
from snapshotter.reporting.views import View
from snapshotter.spark_session import LOCAL_CHECKPOINTS, spark_builder
from snapshotter.state.storages import needs_spark
from streaming.delta.file_keys import KEPT_BYTES
from streaming.events.envelope import Envelope
from streaming.fields.rules import FieldRules
from streaming.namespaces import Namespace
from streaming.scope.scope import CaptureScope, NameList

_log = structlog.get_logger("snapshotter.configuration")
_STATE_OPTIONS = {"columns": "state", "events": "latest", "failures": "rows"}
"""What a state table needs of the source, and an engine that decides itself what becomes of failures."""
_EVENT_OPTIONS = {"columns": "full", "events": "all", "failures": "rows"}
"""What targets of events need of it."""
_KEYS_MOST = 1 << 30


def _names(settings: Settings, entries: tuple[str, ...]) -> NameList | None:
    """Collections that are listed; None where none are."""
    return NameList(entries, excludes=False, mode=settings.capture.match_mode) if entries else None


def engine_config(settings: Settings) -> EngineConfig:
    """What the engine needs of the settings."""
    return replace(
        _config(settings),
        topic_prefix=settings.topic_prefix,
        envelope=envelope(settings) if settings.events.targets else None,
        changelog=settings.events.changelog,
        notifications=notification_config(settings),
        channels=channel_config(settings.signal, settings.topic_prefix),
        metrics=metrics_config(settings),
        page=settings.page.config(),
        topics=settings.topics_config(),
    )


def _config(settings: Settings) -> EngineConfig:
    """The same, but for whom it tells of events and of itself."""
    options, decides, engine = settings.source_options(), policy(settings.snapshot), settings.engine
    return EngineConfig(
        name=settings.name,
        uri=settings.connection_uri(),
        warehouse=settings.warehouse(),
        source_options={**options, **(_EVENT_OPTIONS if settings.events.targets else _STATE_OPTIONS)},
        scope=CaptureScope.parse(options),
        strategy=settings.watermark_strategy,
        signals=_signals(settings),
        fields=replace(FieldRules.parse(options), shape=settings.unwrap.shape.text),
        layout=layout_of(settings.unwrap.shape),
        further=settings.further_columns,
        form=replace(settings.tables.form, own_checkpoints=settings.upkeep.enabled),
        serialization=settings.events.serialization,
        policy=decides,
        collections_max=settings.guardrail.collections_max,
        collections_fail=settings.guardrail.limit_action is LimitAction.FAIL,
        initial_collections=_names(settings, settings.snapshot.include),
        new_collections=engine.snapshot_new_collections,
        initial_filters=settings.snapshot.filters,
        snapshot_delay_ms=settings.snapshot.delay_ms,
        streaming_delay_ms=settings.snapshot.streaming_delay_ms,
        limits=settings.limits(),
        fetch_size=settings.snapshot.fetch_size or FETCH_SIZE,
        wait_seconds=engine.batch_wait_ms // 1_000,
        commit_seconds=_seconds(engine.commit_interval_ms),
        trigger_ms=engine.trigger_interval_ms,
        poll_ms=min(settings.signal.poll_interval_ms, 1_000),
        retries_max=settings.retry.max_retries,
        retry_wait_ms=settings.retry.wait_ms,
        reconnects=settings.retry.reconnects,
        restart_policy=settings.retry.restart_policy,
        failures=settings.failures.mode,
        allow_code=engine.filters_allow_code,
        status_collection=engine.status_collection,
        requests_max=engine.requests_max,
        remember_seconds=engine.signals_remember_ms // 1_000,
        watermarks_keep=engine.watermarks_keep,
        repairs_tables=_repairs_tables(settings),
        heal_first=_names(settings, settings.position.heal_first),
        position_lost=settings.position.lost or by_mode(decides),
        post_images_enable=engine.post_images_enable,
        position_start=settings.position_start,
        fields_confirmed=settings.events.confirmed,
        filtered=settings.events.filtered_text,
        partition=settings.naming.partition_name,
        oplog_warning_hours=settings.position.oplog_warning_hours,
        heartbeat_ms=settings.heartbeat.interval_ms,
        upkeep=settings.upkeep.thresholds,
        keys_bytes=_keys_bytes(engine.keys_memory_bytes),
    )


def _keys_bytes(given: int | None) -> int:
    return max(KEPT_BYTES, min(memory_bytes() // 32, _KEYS_MOST)) if given is None else given


def _signals(settings: Settings) -> Namespace | None:
    named = settings.signal_collection if settings.signals_reach_stream else None
    return Namespace.parse(named) if named else None


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1_000


def _repairs_tables(settings: Settings) -> bool:
    asked = settings.engine.table_altered is TableAltered.REPAIR
    return asked or policy(settings.snapshot).should_snapshot_on_schema_error()


def envelope(settings: Settings) -> Envelope:
    """How events are told, in whichever target."""
    given = settings.events
    return Envelope(
        settings.topic_prefix,
        version("snapshotter"),
        given.serialization,
        settings.capture.transactions,
        given.skips,
        given.skips_unchanged,
    )


def notification_config(settings: Settings) -> NotificationConfig:
    """Where notifications go. They carry ``topic.prefix`` as the connector's name, as Debezium's do."""
    given = settings.notification
    sink = None
    if SINK in given.channels and given.topic and given.bootstrap_servers:
        client = f"{settings.name}-notifications"
        sink = KafkaNotificationOptions(given.topic, given.bootstrap_servers, client, given.producer)
    return NotificationConfig(settings.topic_prefix, given.channels, sink, given.custom)


def metrics_config(settings: Settings) -> MetricsConfig:
    """Where metrics are shown. Every series says which engine's it is, and has the tags that were given."""
    given = settings.metrics
    labels = {NAME: settings.name, SERVER: settings.topic_prefix, **tags_of(given.tags)}
    return MetricsConfig(given.host, given.port, labels)


def spark_session(settings: Settings, *, brief: bool = False) -> SparkSession:
    """The session that ``spark.*`` options describe; on this machine's cores unless ``spark.master`` says otherwise.
    ``brief``: for a process that ends by itself before long."""
    master = None if "spark.master" in settings.spark else "local[*]"
    given = {**({} if needs_spark(settings.warehouse()) else LOCAL_CHECKPOINTS), **settings.spark}
    return spark_builder(
        f"snapshotter {settings.name}", given, master, kafka=settings.events.topics, brief=brief
    )


def check(settings: Settings) -> None:
    """What only a client can say of its options, before Spark is started for nothing. Raises ConfigurationError."""
    check_options(channel_config(settings.signal, settings.topic_prefix))


def assemble(settings: Settings, spark: SparkSession | None = None, view: View | None = None) -> Engine:
    """An engine ready to run. Without ``spark`` it makes a session of its own when it needs one; a session
    that is given stays the caller's. ``view`` is shown every status. Raises what is wrong with the settings, before
    anything is touched."""
    config = engine_config(settings)
    for warning in settings.warnings:
        _log.warning(warning)
    if spark is None:
        check(settings)
    return Engine(spark or partial(spark_session, settings), config, view)

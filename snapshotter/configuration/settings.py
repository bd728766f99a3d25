"""The configuration of one engine: read, checked as a whole, frozen.

From text to values in six steps: the file's form (``config_files``), references to what stands elsewhere
(``config_providers``), old names (``old_names``), names (``options``: unknown ones are errors, unsupported ones too
unless they ask for nothing, meaningless ones are warnings), values (``option_groups``), and rules that span options
(``settings_checks``). The problems of all steps are reported together, in one ConfigurationError.

Secrets are in the values, since clients need them. ``masked`` and the messages never show them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from snapshotter.configuration import (
    channel_checks,
    event_checks,
    metrics_checks,
    notification_checks,
    page_options,
    position_checks,
    table_options,
    topic_checks,
    upkeep_options,
)
from snapshotter.configuration import settings_checks as checks
from snapshotter.configuration.config_files import DEBEZIUM_SERVER_PREFIX, as_text, read_file
from snapshotter.configuration.config_providers import Resolved, resolve
from snapshotter.configuration.connection_uri import connection_uri
from snapshotter.configuration.deletes_options import DELETES, DeletesMode, DeletesOptions
from snapshotter.configuration.event_options import EventOptions
from snapshotter.configuration.failure_options import HANDLING, FailureOptions
from snapshotter.configuration.guardrail_options import GuardrailOptions
from snapshotter.configuration.heartbeat_options import HeartbeatOptions
from snapshotter.configuration.metrics_options import MetricsOptions
from snapshotter.configuration.mongodb_options import MongodbOptions
from snapshotter.configuration.notification_config import installed
from snapshotter.configuration.old_names import renamed
from snapshotter.configuration.option_groups import (
    GROUPS,
    CaptureOptions,
    DeltaOptions,
    EngineOptions,
    NamingOptions,
    NotificationOptions,
    ProviderOptions,
    SignalOptions,
    SnapshotOptions,
)
from snapshotter.configuration.option_values import Group
from snapshotter.configuration.options import as_option_text, catalogue
from snapshotter.configuration.page_options import PageOptions
from snapshotter.configuration.position_options import POSITION_LOST, PositionOptions
from snapshotter.configuration.retry_options import RetryOptions
from snapshotter.configuration.settings_reading import read_group, shown, sorted_out
from snapshotter.configuration.snapshot_decisions import by_mode, policy
from snapshotter.configuration.table_options import TableOptions
from snapshotter.configuration.topic_options import TopicOptions
from snapshotter.configuration.unwrap import Unwrap, unwrap_of
from snapshotter.configuration.upkeep_options import UpkeepOptions
from snapshotter.core.values.limits import Limits
from snapshotter.core.values.watermark_ids import Strategy
from snapshotter.errors import MASK, ConfigurationError, Problem, redact
from snapshotter.outbox.topics_config import TopicsConfig
from snapshotter.position.own_file import read_start
from snapshotter.position.starts import Start
from streaming.delta.further_columns import FurtherColumns
from streaming.delta.table_paths import encode_name, engine_path, under

WAREHOUSE = "delta.warehouse"
WAREHOUSE_VARIABLE = "SNAPSHOTTER_DELTA_WAREHOUSE"
"""Says where tables lie for a file that does not: the one option that is required and that no configuration of
Debezium has."""


class Settings(BaseModel):
    """All options of one engine. Make one with ``load`` or ``from_options``.

    ``name`` names the position and the state; ``warnings`` are for the operator, one sentence each. ``out_of_sight``:
    options that were read from files of secrets, and that nobody else says whether to show.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    topic_prefix: str
    naming: NamingOptions
    providers: ProviderOptions
    mongodb: MongodbOptions
    capture: CaptureOptions
    guardrail: GuardrailOptions
    snapshot: SnapshotOptions
    signal: SignalOptions
    notification: NotificationOptions
    metrics: MetricsOptions
    page: PageOptions
    heartbeat: HeartbeatOptions
    events: EventOptions
    position: PositionOptions
    retry: RetryOptions
    failures: FailureOptions
    delta: DeltaOptions
    deletes: DeletesOptions
    tables: TableOptions
    upkeep: UpkeepOptions
    topics: TopicOptions
    engine: EngineOptions
    spark: dict[str, str]
    unwrap: Unwrap = Unwrap()
    warnings: tuple[str, ...] = ()
    out_of_sight: frozenset[str] = frozenset()

    @classmethod
    def load(cls, path: Path | str, environ: Mapping[str, str] | None = None) -> Settings:
        """Settings from a file (.json, .properties, .toml, .yaml). Raises ConfigurationError with all problems."""
        file, variables = read_file(Path(path)), os.environ if environ is None else environ
        options = file.options
        if WAREHOUSE not in options and (where := variables.get(WAREHOUSE_VARIABLE)):
            options = {**options, WAREHOUSE: where}
        return cls.from_options(options, variables, source=str(path), expressions=file.expressions)

    @classmethod
    def from_options(
        cls,
        options: Mapping[str, object],
        environ: Mapping[str, str] | None = None,
        source: str = "the options",
        *,
        expressions: bool = False,
    ) -> Settings:
        """Settings from dotted names and values (text, numbers, booleans, lists). ``environ`` is the
        process's if None. ``expressions``: whether ``${NAME}`` is a reference, as in files of Debezium Server.

        Raises ConfigurationError with all problems; ``source`` says in it where the options came from.
        """
        try:
            texts = as_text({k.removeprefix(DEBEZIUM_SERVER_PREFIX): v for k, v in options.items()})
        except ValueError as error:
            raise ConfigurationError(f"{source}: {error}") from error
        resolved = resolve(texts, os.environ if environ is None else environ, expressions=expressions)
        old, problems = renamed(resolved), resolved.problems
        broken = {problem.option for problem in problems}
        known, spark, warnings = sorted_out(resolved.values, problems)
        groups = {attribute: read_group(kind, known, broken, problems) for attribute, kind in GROUPS.items()}
        problems.extend(_spanning(groups))
        unwrap = unwrap_of(resolved.values, known.get("topic.prefix") or known.get("name") or "")
        problems.extend(unwrap.problems)
        if problems:
            raise ConfigurationError.of(source, [old.told(resolved.told(problem)) for problem in problems])
        whole: dict[str, Any] = groups
        naming: NamingOptions = whole["naming"]
        of_unwrap = [*unwrap.warnings, *unwrap.overruled(whole["deletes"].mode)]
        said = [*resolved.warnings, *old.warnings, *warnings, *of_unwrap, *_warnings(whole)]
        return cls(
            name=naming.name or naming.topic_prefix,
            topic_prefix=_prefix(naming),
            **whole,
            spark=spark,
            unwrap=unwrap,
            warnings=tuple(resolved.hidden(warning) for warning in said),
            out_of_sight=_out_of_sight(resolved),
        )

    @property
    def watermark_strategy(self) -> Strategy:
        """How windows are marked: as set, else insert_insert with a signal collection and cluster_time
        without.
        """
        return checks.watermark_strategy(self.snapshot, self.signal)

    @property
    def signal_collection(self) -> str | None:
        """The signal collection's full name, if there is one."""
        return self.signal.collection[0] if self.signal.collection else None

    @property
    def signals_reach_stream(self) -> bool:
        """Whether a signal inserted into the signal collection is handled; otherwise the inbox is the way."""
        return checks.signals_reach_stream(self.signal, self.capture)

    @property
    def position_start(self) -> Start | None:
        """Where a first start begins, if that is set. Raises ValueError where it names a file that is gone."""
        text = self.position.start
        return None if text is None else read_start(text)

    @property
    def deletes_mode(self) -> DeletesMode:
        """What becomes of rows of deleted documents: as set, else as a transform asks."""
        return self.unwrap.deletes_in_force(self.deletes.mode)

    @property
    def further_columns(self) -> FurtherColumns:
        """What tables have beside the documents' columns and ours."""
        return FurtherColumns(self.deletes_mode is DeletesMode.SOFT, self.unwrap.added)

    def warehouse(self) -> str:
        """The folder or URI of all tables and state; a local path is made absolute."""
        location = self.delta.warehouse.rstrip("/") or "/"
        return location if urlsplit(location).scheme else str(Path(location).expanduser().absolute())

    def state_location(self) -> str:
        """``<delta.warehouse>/_snapshotter/<name>``: the checkpoint, the journal, the status, the inbox."""
        return under(self.warehouse(), engine_path(self.name))

    def topics_config(self) -> TopicsConfig | None:
        """Which topics are fed, and how; None while there are none."""
        if not self.events.topics:
            return None
        transactions = self.capture.transactions
        return topic_checks.topics_config(
            self.topics, self.topic_prefix, self.heartbeat.interval_ms, transactions=transactions
        )

    def limits(self) -> Limits:
        """The sizes that the core works with."""
        return Limits(
            chunk_docs=self.snapshot.chunk_size,
            chunk_bytes_target=self.engine.chunk_target_bytes,
            windows_in_flight=self.engine.windows_in_flight,
            commit_rows_target=self.engine.commit_target_rows,
            bytes_in_flight=self.engine.bytes_at_once,
            file_docs_min=self.engine.files_min_documents,
            yield_seconds=-(-self.engine.yield_ms // 1_000) or None,
            target_lag_seconds=self.engine.target_lag_ms / 1_000 or None,
            readers=self.snapshot.max_threads or Limits().readers,
            tasks_ahead=self.snapshot.max_threads or Limits().tasks_ahead,
        )

    def connection_uri(self) -> str:
        """The connection string with the other ``mongodb.*`` options in it. It holds secrets."""
        return connection_uri(self.mongodb)

    def source_options(self) -> dict[str, str]:
        """Options of the Spark source ``mongodb-changes``; all of ``mongodb.*`` is in the address."""
        capture = self.capture
        values: dict[str, object] = {
            "mongodb.connection.string": self.connection_uri(),
            "engine.batch.max.events": self.engine.batch_max_events,
            "engine.batch.max.bytes": self.engine.bytes_at_once,
            "engine.stream.readers": self.engine.stream_readers,
        }
        values |= {alias: value for _, alias, value in _fields(capture)} | self.failures.source_options
        values |= self.events.source_options
        values["details"] = ",".join(self.further_columns.details)
        if self.signal_collection and self.signals_reach_stream:
            values["signal.data.collection"] = self.signal_collection
        texts = {name: as_option_text(value) for name, value in values.items()}
        return {name: text for name, text in texts.items() if text}

    def masked(self) -> dict[str, str | None]:
        """Every option that works with its value in force, fit to be shown; None where it is not set."""
        result: dict[str, str | None] = {}
        for attribute in GROUPS:
            for _, alias, value in _fields(getattr(self, attribute)):
                under = value if isinstance(value, dict) else {}
                named = {f"{alias[:-1]}{name}": text for name, text in under.items()} or {alias: value}
                result |= {name: shown(name, as_option_text(item)) for name, item in named.items()}
        result |= {
            "name": self.name,
            "topic.prefix": self.topic_prefix,
            "delta.warehouse": redact(self.warehouse()),
        }
        result[checks.STRATEGY] = self.watermark_strategy.value
        result[HANDLING] = self.failures.mode.value
        result[POSITION_LOST] = (self.position.lost or by_mode(policy(self.snapshot))).value
        result[DELETES] = self.deletes_mode.value
        result |= {name: shown(name, value) for name, value in sorted(self.spark.items())}
        return result | {name: MASK for name in self.out_of_sight if name in result}


def _fields(group: Group) -> Iterator[tuple[str, str, object]]:
    """(attribute, option, value) of every field of a group."""
    for attribute, field in type(group).model_fields.items():
        yield attribute, field.alias or attribute, getattr(group, attribute)


def _out_of_sight(resolved: Resolved) -> frozenset[str]:
    """Options that are passed on as they are, with values from files: nobody here knows which of them are secrets."""
    own = catalogue()
    return frozenset(name for name, drawn in resolved.drawn.items() if drawn.secret and name not in own)


def _warnings(groups: Mapping[str, Any]) -> Iterator[str]:
    """What works, but perhaps not as it was meant; and what changes nothing."""
    yield from checks.warnings(groups["signal"], groups["capture"])
    asked = (groups[group] for group in ("mongodb", "capture", "snapshot", "signal", "engine"))
    yield from checks.without_effect(*asked)
    yield from event_checks.warnings(groups["events"], groups["capture"])
    yield from channel_checks.warnings(groups["signal"], _prefix(groups["naming"]))
    yield from notification_checks.warnings(groups["notification"])
    yield from metrics_checks.warnings(groups["metrics"])
    yield from page_options.warnings(groups["page"])
    yield from table_options.warnings(groups["tables"])
    topics, beats = groups["topics"], groups["heartbeat"].interval_ms
    yield from topic_checks.warnings(topics, beats, enabled=groups["events"].topics)


def _spanning(groups: Mapping[str, Group | None]) -> Iterator[Problem]:
    """Problems between options, as far as their groups could be read."""
    match groups["naming"]:
        case NamingOptions() as naming:
            yield from _check_name(naming)
    named = groups["naming"]
    match groups["signal"]:
        case SignalOptions() as signal:
            yield from channel_checks.check(
                signal, _prefix(named) if isinstance(named, NamingOptions) else ""
            )
    match groups["mongodb"]:
        case MongodbOptions() as mongodb:
            yield from checks.check_mongodb(mongodb)
    match groups["notification"]:
        case NotificationOptions() as notification:
            yield from notification_checks.check(notification, installed())
    match groups["events"]:
        case EventOptions() as events:
            yield from event_checks.check(events)
    match groups["upkeep"]:
        case UpkeepOptions() as upkeep:
            yield from upkeep_options.check(upkeep)
    match groups["tables"]:
        case TableOptions() as tables:
            yield from table_options.check(tables)
    match groups["metrics"]:
        case MetricsOptions() as metrics:
            yield from metrics_checks.check(metrics)
    match groups["page"]:
        case PageOptions() as page:
            beside = groups["metrics"]
            yield from page_options.check(page, beside if isinstance(beside, MetricsOptions) else None)
    match groups["events"], groups["topics"], groups["naming"]:
        case EventOptions(topics=True), TopicOptions() as topics, NamingOptions() as naming:
            yield from topic_checks.check(topics, _prefix(naming))
    match groups["snapshot"], groups["engine"]:
        case SnapshotOptions() as snapshot, EngineOptions() as engine:
            yield from checks.check_bytes(engine)
            yield from checks.check_snapshot(snapshot, allow_code=engine.filters_allow_code)
    match groups["capture"], groups["engine"], groups["events"]:
        case CaptureOptions() as capture, EngineOptions() as engine, EventOptions() as events:
            yield from checks.check_images(capture, enable=engine.post_images_enable, told=events.targets)
    match groups["capture"], groups["position"]:
        case CaptureOptions() as capture, PositionOptions() as position:
            yield from position_checks.check(capture, position)
    match groups["capture"], groups["snapshot"], groups["signal"]:
        case CaptureOptions() as capture, SnapshotOptions() as snapshot, SignalOptions() as signal:
            yield from checks.check_capture(capture)
            yield from checks.check_signals(snapshot, signal, capture)


def _prefix(naming: NamingOptions) -> str:
    return naming.topic_prefix or naming.name


def _check_name(naming: NamingOptions) -> Iterator[Problem]:
    name = naming.name or naming.topic_prefix
    if not name:
        yield Problem(
            "name", "is required (it names the position and the state), or topic.prefix in its place"
        )
        return
    try:
        encode_name(name)
    except ValueError as error:
        yield Problem("name", str(error), name)

"""What must be true before an engine starts, asked before anything is touched.

Nothing is written to find out. A start asks one after the other, and stops at the first that is wrong (`check`);
``snapshotter doctor`` asks each by itself (`checks`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from signals.parsing.filters import refuse_code
from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.configuration.settings_checks import FILTERS
from snapshotter.core.values.watermark_ids import Strategy
from snapshotter.engine.guardrail import Guardrail
from snapshotter.engine.privileges import check_privileges, needed
from snapshotter.errors import ConfigurationError
from snapshotter.metrics.endpoint import check_port
from snapshotter.reading.catalogue import captured_collections, why_refused
from snapshotter.reading.name_checks import Readings
from snapshotter.state.storage import StorageError
from snapshotter.state.storages import local_path, needs_spark
from streaming.delta.table_paths import STATE
from streaming.disk import nearest, why_closed
from streaming.fields.rules import FieldRuleError
from streaming.keys.shard_keys import shard_keys
from streaming.mongo.deployment import check_deployment
from streaming.mongo.errors import as_source_error
from streaming.namespaces import Namespace
from streaming.source.change_options import OVERSIZE
from streaming.source.split_events import refuse_split

_log = structlog.get_logger("snapshotter.configuration")
PIN_THREAD = "PYSPARK_PIN_THREAD"
_SIGNALS = "signal.data.collection"


DEPLOYMENT = "deployment"
PRIVILEGES = "privileges"
PORT = "metrics.port"
PAGE_PORT = "engine.http.port"
PORTS = (PORT, PAGE_PORT)
WAREHOUSE = "delta.warehouse"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that must be true. ``look`` raises what is wrong, with the option that it is about; ``subject`` is what
    it looks at."""

    subject: str
    look: Callable[[], object]


def check(client: MongoClient[Any], config: EngineConfig) -> None:
    """Raises the first thing that is wrong, with the option that it is about."""
    for one in checks(client, config):
        one.look()


def checks(client: MongoClient[Any], config: EngineConfig) -> tuple[Check, ...]:
    """All that a start asks, in its order. What comes behind `DEPLOYMENT` needs a server that has passed it."""
    steps: tuple[tuple[str, Callable[[MongoClient[Any], EngineConfig], object]], ...] = (
        (_SIGNALS, _check_signals),
        (PRIVILEGES, _check_privileges),
        (FILTERS, _check_filters),
        ("rules about fields", _check_fields),
        ("the shape of rows", _check_shape),
        ("what is captured", _check_captured),
    )
    return (
        Check(PIN_THREAD, _check_threads),
        Check(PORT, partial(check_port, config.metrics)),
        Check(PAGE_PORT, partial(check_port, config.page)),
        Check(WAREHOUSE, partial(_check_warehouse, config)),
        Check(DEPLOYMENT, partial(check_deployment, client)),
        Check(OVERSIZE, partial(_check_split, client, config)),
        *(Check(subject, partial(look, client, config)) for subject, look in steps),
    )


def _check_threads() -> None:
    if (given := os.environ.get(PIN_THREAD, "true")).lower() != "true":
        raise ConfigurationError(
            f"{PIN_THREAD} = {given}: a thread of Python's would work in any of the JVM's, and one "
            f"table's landing with the settings of another's",
            f"unset {PIN_THREAD}",
        )


def _check_warehouse(config: EngineConfig) -> None:
    """Tables and state can be written, where they are on a disk. What only Spark reaches is tried by Spark."""
    if needs_spark(config.warehouse):
        return
    warehouse = local_path(config.warehouse)
    for folder in (warehouse / STATE, local_path(config.state_location)):
        if (why := why_closed(folder)) is not None:
            raise StorageError(
                f"{WAREHOUSE} = {warehouse}: nothing can be written to {nearest(folder)}: {why}"
            )


def _check_split(client: MongoClient[Any], config: EngineConfig) -> None:
    if config.source_options.get(OVERSIZE) == "split":
        refuse_split(client)


def _check_signals(_: MongoClient[Any], config: EngineConfig) -> None:
    if config.signals is not None and not config.scope.captures(config.signals):
        raise ConfigurationError(
            f"{_SIGNALS} = {config.signals} lies outside the captured scope (capture.scope, capture.target): its "
            f"changes never reach the stream, so no signal is seen and no window closes",
            f"choose a collection within the scope, or set incremental.snapshot.watermarking.strategy to "
            f"{Strategy.CLUSTER_TIME} and send signals from the command line",
        )


def _check_privileges(client: MongoClient[Any], config: EngineConfig) -> None:
    check_privileges(client, needed(config, sharded=client.is_mongos))


def _check_filters(client: MongoClient[Any], config: EngineConfig) -> None:
    for name, query in config.initial_filters.items():
        _check_filter(client, name, query, f"{FILTERS}.{name}")


def _check_captured(client: MongoClient[Any], config: EngineConfig) -> None:
    """Lists are read here as by the server, not too much is captured, and queries of a mode of one's own are sound."""
    try:
        there = Readings(client, config.scope).check()
    except PyMongoError as error:
        raise as_source_error(
            error, "cannot ask MongoDB how it reads the lists of what is captured"
        ) from error
    Guardrail(config).check(there)
    for namespace in filter(config.captures_data, there):
        _check_query(client, config, namespace)


def _check_shape(client: MongoClient[Any], config: EngineConfig) -> None:
    """Rows of every captured collection can have the shape that they are to have."""
    if not config.shape:
        return
    try:
        keys = shard_keys(client)
        for namespace in captured_collections(client, config.captures_data):
            config.shape.check(keys.get(namespace, ()))
    except PyMongoError as error:
        raise as_source_error(error, "cannot ask MongoDB for the shard keys of what is captured") from error


def _check_fields(client: MongoClient[Any], config: EngineConfig) -> None:
    """Each rule about fields can be carried out where it applies; one that applies nowhere is said."""
    if not config.fields.rules:
        return
    unused = dict.fromkeys(config.fields.rules)
    try:
        keys = shard_keys(client)
        for namespace in captured_collections(client, config.captures_data):
            if (rules := config.fields.of(namespace)) is not None:
                rules.check(keys.get(namespace, ()))
                for rule in rules.rules:
                    unused.pop(rule, None)
    except FieldRuleError as error:
        raise ConfigurationError(str(error), f"correct {error.option}") from error
    except PyMongoError as error:
        raise as_source_error(
            error, "cannot ask MongoDB which collections the rules about fields are for"
        ) from error
    for rule in unused:
        _log.warning(
            "a rule about fields is for no collection that is captured by now",
            option=rule.option,
            rule=str(rule),
        )


def _check_filter(client: MongoClient[Any], name: str, query: str, whose: str) -> None:
    try:
        why = why_refused(client, Namespace.parse(name), query)
    except PyMongoError as error:
        raise as_source_error(error, "cannot ask MongoDB whether it understands a filter") from error
    if why:
        raise ConfigurationError(f"{whose} = {query}: MongoDB refuses it: {why}", "correct the filter")


def _check_query(client: MongoClient[Any], config: EngineConfig, namespace: Namespace) -> None:
    """What a mode of one's own would have read of a collection."""
    name = str(namespace)
    query = None if name in config.initial_filters else config.initial_filter(namespace)
    if query is not None:
        whose = f"the query of the snapshot mode {config.policy.name()} for {name}"
        refuse_code(query, allowed=config.allow_code, where=whose)
        _check_filter(client, name, query, whose)

"""Rules that span options: which go together, and which exclude each other.

Each check looks at the values read so far and yields problems; none stops another, so that a file's
problems are reported all at once. Pure, apart from the value types it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from signals.errors import SignalError
from signals.parsing.filters import query_document, refuse_code
from snapshotter.configuration.connection_uri import KEYSTORE, TRUSTSTORE, overruled, uses_tls
from snapshotter.configuration.mongodb_options import AUTHENTICATION, MongodbOptions
from snapshotter.configuration.option_groups import (
    BATCH_BYTES_MIN,
    CaptureOptions,
    EngineOptions,
    SignalOptions,
    SnapshotOptions,
)
from snapshotter.configuration.option_values import CaptureMode, FullUpdate, MatchMode, SnapshotMode
from snapshotter.configuration.snapshot_modes import custom
from snapshotter.core.values.watermark_ids import Strategy
from snapshotter.errors import Problem
from streaming.fields.rules import EXCLUDE, HASH, SALT, FieldRuleError, FieldRules
from streaming.fields.server import GROUPS_MAX, left_to_us
from streaming.scope.list_entries import difference
from streaming.scope.scope import Level

STRATEGY = "incremental.snapshot.watermarking.strategy"
SIGNALS = "signal.data.collection"
FILTERS = "snapshot.collection.filter.overrides"
_CUSTOM = "snapshot.mode.custom.name"
_BASED = "snapshot.mode.configuration.based"
_WITH_FULL = "change_streams_update_full"
_AUTHSOURCE = MongodbOptions.model_fields["authsource"].default
_JMX = "jmx"
_SHOWN = 5
_SCHEMES = ("mongodb", "mongodb+srv")


def watermark_strategy(snapshot: SnapshotOptions, signal: SignalOptions) -> Strategy:
    """The strategy in force: the one that is set, else the one that fits."""
    if snapshot.watermarking is not None:
        return snapshot.watermarking
    return Strategy.INSERT_INSERT if signal.collection else Strategy.CLUSTER_TIME


def check_channels(
    option: str, names: Sequence[str], known: Sequence[str], group: str, instead_of_jmx: str
) -> Iterator[Problem]:
    """The ``names`` that ``option`` lists: each once, and each one of the ``known`` channels. ``group``: the entry
    points by which channels of one's own are found. ``instead_of_jmx``: what to advise where ``jmx`` is named."""
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield Problem(option, "stands there twice", name)
        if name == _JMX:
            why = f"is for Java's monitoring, which there is none of here: {instead_of_jmx}"
            yield Problem(option, why, name)
        elif name not in known:
            there = ", ".join(known)
            why = f"is no channel; there are {there}; your own is an entry point of the group {group}"
            yield Problem(option, why, name)


def check_mongodb(mongodb: MongodbOptions) -> Iterator[Problem]:
    """An address that is one, and credentials that are whole."""
    uri = mongodb.connection_string
    try:
        parts = urlsplit(uri)
        if parts.scheme not in _SCHEMES or not parts.netloc.rpartition("@")[2]:
            yield Problem(
                "mongodb.connection.string", "must be mongodb://host… or mongodb+srv://host…", "***"
            )
    except ValueError as error:
        yield Problem("mongodb.connection.string", f"is no address: {error}", "***")
    if mongodb.password is not None and mongodb.user is None:
        yield Problem("mongodb.password", "is set, but mongodb.user is not")
    if mongodb.user is not None and mongodb.password is None and "authmechanism=" not in uri.lower():
        yield Problem("mongodb.user", "is set, but mongodb.password is not", mongodb.user)
    given = mongodb.authentication_class
    if given and given.rpartition(".")[2] != AUTHENTICATION.rpartition(".")[2]:
        why = (
            "is a class of Java's, which cannot run here: leave it out, and set mongodb.user and mongodb.password "
            "(${env:NAME} takes them from the environment), or authMechanism in mongodb.connection.string"
        )
        yield Problem("mongodb.authentication.class", why, given)


def check_capture(capture: CaptureOptions) -> Iterator[Problem]:
    """Include and exclude lists, and the target that a scope needs."""
    for kind, included, excluded in (
        ("database", capture.database_include, capture.database_exclude),
        ("collection", capture.collection_include, capture.collection_exclude),
    ):
        if included and excluded:
            name = f"{kind}.exclude.list"
            yield Problem(name, f"cannot be set together with {kind}.include.list", ",".join(excluded))
    if capture.match_mode is MatchMode.REGEX:
        yield from regexes("database.include.list", capture.database_include)
        yield from regexes("database.exclude.list", capture.database_exclude)
        yield from regexes("collection.include.list", capture.collection_include)
        yield from regexes("collection.exclude.list", capture.collection_exclude)
    target = capture.target or ""
    if capture.scope is Level.DEPLOYMENT and target:
        yield Problem(
            "capture.target", "has no meaning with capture.scope=deployment: set another scope", target
        )
    if capture.scope is Level.DATABASE and (not target or "." in target):
        yield Problem("capture.target", "must name a database, for capture.scope=database", target)
    if capture.scope is Level.COLLECTION and not _is_full_name(target):
        yield Problem("capture.target", "must be database.collection, for capture.scope=collection", target)
    if capture.start_op_time == 0:
        yield Problem("capture.start.op.time", "must be a 64-bit BSON timestamp, or -1 for now", "0")
    try:
        FieldRules.parse(capture.field_options)
    except FieldRuleError as error:
        yield Problem(error.option, error.why, error.entry)


def check_images(capture: CaptureOptions, *, enable: bool, told: bool) -> Iterator[Problem]:
    """Pre- and post-images are switched on (``enable``) only where they are used: by what ``capture`` asks for, and a
    target that tells events (``told``)."""
    full = capture.mode in (CaptureMode.FULL, CaptureMode.FULL_PRE_IMAGE)
    after = full and capture.full_update is FullUpdate.POST_IMAGE
    before = told and capture.mode in (CaptureMode.PRE_IMAGE, CaptureMode.FULL_PRE_IMAGE)
    if enable and not (before or after):
        yield Problem(
            "engine.post.images.enable",
            "has no effect without capture.mode.full.update.type=post_image (and a capture.mode of full updates), or a "
            "capture.mode with pre-images (and a target that tells events)",
            "true",
        )


def check_snapshot(snapshot: SnapshotOptions, *, allow_code: bool = False) -> Iterator[Problem]:
    """What a start reads."""
    yield from regexes("snapshot.include.collection.list", snapshot.include)
    yield from _check_mode(snapshot)
    for name in snapshot.filtered:
        if not _is_full_name(name):
            yield Problem(FILTERS, "must be database.collection: names are taken literally", name)
        elif name not in snapshot.filters:
            yield Problem(FILTERS, f"names a collection without a filter: set {FILTERS}.{name}", name)
    for name, query in snapshot.filters.items():
        option = f"{FILTERS}.{name}"
        if name not in snapshot.filtered:
            yield Problem(option, f"has no effect: {FILTERS} does not name this collection", query)
        try:
            query_document(query)
        except ValueError as error:
            yield Problem(option, f"is no query document: {error}", query)
            continue
        try:
            refuse_code(query, allowed=allow_code, where="the filter")
        except SignalError as error:
            yield Problem(option, str(error), query)


def check_bytes(engine: EngineOptions) -> Iterator[Problem]:
    """Two names of one option, which cannot say different things."""
    ours, debeziums = engine.batch_max_bytes, engine.queue_max_bytes
    if 0 < debeziums < BATCH_BYTES_MIN:
        why = f"must be at least {BATCH_BYTES_MIN} (1 MiB), or 0 for what fits most"
        yield Problem("max.queue.size.in.bytes", why, str(debeziums))
    if ours is not None and debeziums not in (0, ours):
        why = f"says otherwise than engine.batch.max.bytes={ours}, which is the same option: leave one out"
        yield Problem("max.queue.size.in.bytes", why, str(debeziums))


def _check_mode(snapshot: SnapshotOptions) -> Iterator[Problem]:
    mode, name = snapshot.mode, snapshot.custom_name
    if mode is SnapshotMode.CUSTOM and not name:
        yield Problem(_CUSTOM, "is required with snapshot.mode=custom")
    if mode is not SnapshotMode.CUSTOM and name:
        yield Problem(_CUSTOM, "has no meaning without snapshot.mode=custom", name)
    if mode is SnapshotMode.CUSTOM and name:
        try:
            custom(name)
        except ValueError as error:
            yield Problem(_CUSTOM, str(error), name)
    if mode is SnapshotMode.CONFIGURATION_BASED and not (snapshot.based_data or snapshot.based_stream):
        why = "does nothing: set snapshot.mode.configuration.based.snapshot.data or .start.stream to true"
        yield Problem("snapshot.mode", why, mode)


def check_signals(
    snapshot: SnapshotOptions, signal: SignalOptions, capture: CaptureOptions
) -> Iterator[Problem]:
    """The collection of ``signal``: set where the watermark strategy of ``snapshot`` writes to it, and where a change
    stream on the target of ``capture`` shows it."""
    strategy = watermark_strategy(snapshot, signal)
    name = ",".join(signal.collection)
    if not signal.collection:
        if strategy.in_stream:
            message = f"writes to a signal collection: set {SIGNALS}, or use cluster_time, which needs none"
            yield Problem(STRATEGY, message, strategy)
        return
    if len(signal.collection) > 1 or not _is_full_name(name):
        yield Problem(SIGNALS, "must be the name of one collection, database.collection", name)
        return
    target = capture.target or ""
    if capture.scope is Level.DATABASE and target and name.partition(".")[0] != target:
        message = f"must lie in the database {target!r} (capture.target), or the change stream never shows it"
        yield Problem(SIGNALS, message, name)
    if capture.scope is Level.COLLECTION and strategy.in_stream:
        message = (
            f"is never shown by a change stream on one collection (capture.scope=collection), so {strategy} "
            f"cannot work: remove {SIGNALS} and use {STRATEGY}=cluster_time, or widen capture.scope"
        )
        yield Problem(SIGNALS, message, name)


def warnings(signal: SignalOptions, capture: CaptureOptions) -> Iterator[str]:
    """What works, but perhaps not as it was meant."""
    if signal.collection and capture.scope is Level.COLLECTION:
        yield (
            f"{SIGNALS}={signal.collection[0]}: signals inserted there are not seen with "
            "capture.scope=collection; send them with snapshotter execute-snapshot"
        )
    elif signal.collection and "source" not in signal.channels:
        yield f"{SIGNALS}={signal.collection[0]}: signals inserted there are not read; source is no channel"


def without_effect(
    mongodb: MongodbOptions,
    capture: CaptureOptions,
    snapshot: SnapshotOptions,
    signal: SignalOptions,
    engine: EngineOptions,
) -> Iterator[str]:
    """Options that were given in the groups ``mongodb``, ``capture``, ``snapshot``, ``signal`` and ``engine`` and that
    change nothing, because of another option or because nothing uses them yet."""
    yield from _without_effect_at_mongodb(mongodb)
    if capture.full_update is not FullUpdate.LOOKUP and not capture.mode.value.startswith(_WITH_FULL):
        yield f"capture.mode.full.update.type has no effect with capture.mode={capture.mode}: updates come bare"
    if capture.field_hash_salt and not capture.field_hash:
        yield f"{SALT} has no effect: {HASH} names no field"
    yield from _left_to_us(capture)
    if capture.cursor_max_await_time_ms:
        yield (
            "cursor.max.await.time.ms has an effect through mongos only: a replica set is asked for what is there "
            "already"
        )
    if snapshot.mode is not SnapshotMode.CONFIGURATION_BASED:
        for option, given in (
            ("snapshot.data", snapshot.based_data),
            ("start.stream", snapshot.based_stream),
            ("snapshot.on.data.error", snapshot.based_on_data_error),
            ("snapshot.schema", snapshot.based_schema),
            ("snapshot.on.schema.error", snapshot.based_on_schema_error),
        ):
            if given:
                yield f"{_BASED}.{option} has no effect: snapshot.mode is not configuration_based"
    if engine.watermarks_keep and watermark_strategy(snapshot, signal) is not Strategy.INSERT_INSERT:
        yield f"engine.watermarks.keep has no effect: {STRATEGY} is not {Strategy.INSERT_INSERT}"


def _left_to_us(capture: CaptureOptions) -> Iterator[str]:
    """Fields to leave out that MongoDB sends all the same."""
    if left := left_to_us(FieldRules.parse(capture.field_options)):
        yield (
            f"{EXCLUDE}: {', '.join(map(str, left[:_SHOWN]))}{', …' if len(left) > _SHOWN else ''}: changes leave "
            "MongoDB with these fields, and they are dropped here; the server can do it for names that do not begin "
            f"with $, and for {GROUPS_MAX} different sets of fields (use * for collections that share one)"
        )


def _without_effect_at_mongodb(mongodb: MongodbOptions) -> Iterator[str]:
    has_user = "@" in urlsplit(mongodb.connection_string).netloc
    for option, given in (("mongodb.user", mongodb.user), ("mongodb.password", mongodb.password)):
        if given is not None and has_user:
            yield f"{option} has no effect: mongodb.connection.string names a user already"
    if mongodb.authsource != _AUTHSOURCE and (has_user or mongodb.user is None):
        where = "it is part of mongodb.connection.string" if has_user else "mongodb.user is not set"
        yield f"mongodb.authsource has no effect: {where}"
    if mongodb.ssl_invalid_hostname_allowed and not uses_tls(mongodb):
        yield "mongodb.ssl.invalid.hostname.allowed has no effect: mongodb.ssl.enabled is not true"
    for option, store, password in (
        (KEYSTORE, mongodb.ssl_keystore, mongodb.ssl_keystore_password),
        (TRUSTSTORE, mongodb.ssl_truststore, mongodb.ssl_truststore_password),
    ):
        if store and (why := overruled(mongodb, option)):
            yield f"{option} has no effect: {why}"
        if password is not None and not store:
            yield f"{option}.password has no effect: {option} is not set"


def signals_reach_stream(signal: SignalOptions, capture: CaptureOptions) -> bool:
    """Whether a document inserted into the signal collection is seen and handled."""
    if not signal.collection or "source" not in signal.channels:
        return False
    return capture.scope is not Level.COLLECTION


def regexes(option: str, patterns: tuple[str, ...]) -> Iterator[Problem]:
    for pattern in patterns:
        if found := difference(pattern):
            yield Problem(option, f"has {found}", pattern)
            continue
        try:
            re.compile(pattern)
        except re.error as error:
            yield Problem(option, f"is no regular expression: {error}", pattern)


def _is_full_name(text: str) -> bool:
    database, dot, collection = text.partition(".")
    return bool(database and dot and collection) and not collection.endswith(".")

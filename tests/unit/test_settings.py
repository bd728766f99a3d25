"""Settings: names, values, rules between options, and what is shown of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from snapshotter.configuration.option_values import CaptureMode, FullUpdate, SnapshotMode
from snapshotter.configuration.options import Status, catalogue, find, nearest
from snapshotter.configuration.patience import Reconnects, RestartPolicy
from snapshotter.configuration.settings import Settings
from snapshotter.core.values.watermark_ids import Strategy
from snapshotter.engine.assembly import engine_config
from snapshotter.errors import ConfigurationError
from streaming.scope.scope import CaptureScope, Level
from streaming.source.change_options import ChangeOptions

LEAST: dict[str, object] = {
    "name": "shop",
    "mongodb.connection.string": "mongodb://localhost:27017/?replicaSet=rs0",
    "delta.warehouse": "/lake",
}


def made(**options: object) -> Settings:
    """Settings from the least that is needed, and options with ``_`` for dots."""
    return Settings.from_options({**LEAST, **{k.replace("_", "."): v for k, v in options.items()}}, {})


def problems(options: dict[str, object]) -> dict[str, str]:
    """The problems of options on top of the least, by option; None takes one away."""
    with pytest.raises(ConfigurationError) as refusal:
        Settings.from_options({**LEAST, **options}, {})
    return {p.option: str(p) for p in refusal.value.problems}


def test_defaults_are_debeziums() -> None:
    """What is not set has the documented default, and adapts where the engine can do better."""
    settings = made()
    assert settings.topic_prefix == "shop"
    assert settings.capture.mode is CaptureMode.FULL
    assert settings.capture.full_update is FullUpdate.LOOKUP
    assert settings.capture.scope is Level.DEPLOYMENT
    assert settings.capture.start_op_time == -1
    assert settings.snapshot.mode is SnapshotMode.INITIAL
    assert settings.snapshot.chunk_size is None
    assert settings.retry.max_retries == -1
    assert settings.engine.batch_max_events == 200_000
    assert settings.warnings == ()


def test_a_full_debezium_configuration_works(tmp_path: Path) -> None:
    """Pasted as it is: defaults are silent, what means nothing is named in a warning, nothing is refused."""
    config = {
        **LEAST,
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "tasks.max": "1",
        "topic.prefix": "dbserver1",
        "mongodb.user": "debezium",
        "mongodb.password": "dbz",
        "database.include.list": "inventory",
        "collection.include.list": "inventory[.]*",
        "capture.mode": "change_streams_update_full",
        "snapshot.mode": "never",
        "skipped.operations": "t",
        "tombstones.on.delete": "true",
        "incremental.snapshot.chunk.size": "1024",
        "max.batch.size": "2048",
        "max.queue.size": "20480",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "transforms": "unwrap",
        "transforms.unwrap.type": "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState",
        "snapshot.max.threads": 1,
        "notification.enabled.channels": "",
        "topic.naming.strategy": "io.debezium.schema.DefaultTopicNamingStrategy",
    }
    path = tmp_path / "connector.json"
    del config["name"]
    path.write_text(json.dumps({"name": "inventory-connector", "config": config}))
    settings = Settings.load(path, {})
    assert (settings.name, settings.topic_prefix) == ("inventory-connector", "dbserver1")
    assert settings.snapshot.mode is SnapshotMode.NO_DATA
    assert settings.snapshot.chunk_size == 1024
    assert {warning.split()[0] for warning in settings.warnings} == {
        "max.queue.size",
        "key.converter",
        "key.converter.schemas.enable",
    }
    assert "engine.batch.max.events" in settings.warnings[0]


def test_debeziums_queue_in_bytes_bounds_a_batch() -> None:
    """It is another name of `engine.batch.max.bytes`; 0, its default, is ours. Two that differ are refused."""
    ours, debeziums = "engine.batch.max.bytes", "max.queue.size.in.bytes"
    given = [
        {},
        {debeziums: "0"},
        {debeziums: "2097152"},
        {ours: "4194304"},
        {ours: "4194304", debeziums: "0"},
    ]
    found = [Settings.from_options({**LEAST, **options}, {}) for options in given]
    assert [s.limits().bytes_in_flight >> 20 for s in found] == [512, 512, 2, 4, 4]
    assert [s.source_options()[ours] for s in found[2:4]] == ["2097152", "4194304"]
    assert list(problems({ours: "4194304", debeziums: "2097152"})) == [debeziums]
    assert list(problems({debeziums: "1000"})) == [debeziums]


def test_all_problems_are_reported_at_once() -> None:
    """Names, values, variables and rules between options: one error has them all, each with option and
    value.
    """
    found = problems(
        {
            "mongodb.connection.string": None,
            "snapshot.mode": "sometimes",
            "incremental.snapshot.chunk.size": "0",
            "capture.mod": "x",
            "collection.include.list": "a.b",
            "collection.exclude.list": "c.d",
            "mongodb.ssl.enabled": "yes",
            "errors.max.retries": "1.5",
            "delta.table.layout": "${env:NOPE}",
            "internal.mongodb.allow.offset.invalidation": "true",
        }
    )
    assert "is required" in found["mongodb.connection.string"]
    assert "sometimes: must be one of always, initial, initial_only, no_data" in found["snapshot.mode"]
    assert "= 0: must be at least 1" in found["incremental.snapshot.chunk.size"]
    assert "did you mean capture.mode?" in found["capture.mod"]
    assert "cannot be set together" in found["collection.exclude.list"]
    assert "= yes: must be true or false" in found["mongodb.ssl.enabled"]
    assert "= 1.5: must be a whole number" in found["errors.max.retries"]
    assert "NOPE is not set" in found["delta.table.layout"]
    assert "remove it or set it to false" in found["internal.mongodb.allow.offset.invalidation"]
    assert len(found) == 9


@pytest.mark.parametrize(
    ("option", "value", "expectation"),
    [
        ("collection.whitelist", "a.(", "(given as collection.whitelist) is no regular expression"),
        ("field.blacklist", "a.b", "(given as field.blacklist) expected database.collection.field"),
        ("mongodb.host", "rs0/h:1", "did you mean mongodb.connection.string?"),
        ("zzz", "1", "is no option"),
        ("engine.batch.max.event", "1", "did you mean engine.batch.max.events?"),
        ("cursor.pipeline", '[{"$match": {}}]', "set delta.state.filtered=true"),
        ("cursor.pipeline", '[{"$group": {}}]', "stage 1: MongoDB takes no $group"),
        ("cursor.pipeline.order", "ours", "must be one of internal_first, user_first, user_only"),
        ("snapshot.collection.filter.overrides.a.b", "{}", "does not name this collection"),
        ("snapshot.collection.filter.overrides", "a.b", "set snapshot.collection.filter.overrides.a.b"),
        ("snapshot.collection.filter.overrides", "orders", "must be database.collection"),
        ("snapshot.mode.custom.name", "nightly", "has no meaning without snapshot.mode=custom"),
        ("snapshot.mode", "custom", "is required with snapshot.mode=custom"),
        ("snapshot.mode", "configuration_based", "does nothing: set snapshot.mode.configuration.based"),
        ("snapshot.max.threads", "0", "must be at least 1"),
        ("delta.table.layout", "json", "is not supported yet; supported: columns"),
        ("delta.table.layout", "rows", "must be one of columns, document, json"),
        ("capture.mode", "all", "must be one of change_streams,"),
        ("signal.enabled.channels", "sauce", "is no channel"),
        ("signal.poll.interval.ms", "0", "must be at least 1"),
        ("capture.start.op.time", "0", "-1 for now"),
        ("capture.start.op.time", str(1 << 63), "must be less than"),
        ("capture.target", "shop", "no meaning with capture.scope=deployment"),
        ("capture.scope", "database", "must name a database"),
        ("collection.include.list", "a.(", "is no regular expression"),
        ("snapshot.include.collection.list", "a.(", "is no regular expression"),
        ("mongodb.connection.string", "localhost:27017", "must be mongodb://"),
        ("mongodb.connection.string", "", "must not be empty"),
        ("mongodb.user", "me", "mongodb.password is not"),
        ("mongodb.password", "x", "mongodb.user is not"),
        ("signal.data.collection", "signals", "one collection, database.collection"),
        ("signal.data.collection", "a.b,c.d", "one collection, database.collection"),
        ("incremental.snapshot.watermarking.strategy", "insert_delete", "set signal.data.collection, or use"),
        ("incremental.snapshot.watermarking.strategy", "delete", "must be one of insert_insert"),
        ("name", "", "is required"),
        ("delta.warehouse", "", "must not be empty"),
    ],
)
def test_one_problem(option: str, value: str, expectation: str) -> None:
    """Each wrong value is told with what was expected."""
    found = problems({option: value})
    assert any(expectation in text for text in found.values()), found
    assert len(found) == 1 or option == "capture.scope"


@pytest.mark.parametrize(
    ("scope", "target", "strategy", "signals", "expectation"),
    [
        ("database", "shop", None, "shop.signals", None),
        ("database", "shop", None, "other.signals", "must lie in the database 'shop'"),
        ("database", "shop", "cluster_time", "other.signals", "must lie in the database 'shop'"),
        ("collection", "shop.orders", None, "shop.signals", "use incremental.*=cluster_time"),
        ("collection", "shop.orders", "insert_delete", "shop.signals", "use incremental.*=cluster_time"),
    ],
)
def test_the_signal_collection_lies_in_the_scope(
    scope: str, target: str, strategy: str | None, signals: str, expectation: str | None
) -> None:
    """A signal collection that the change stream never shows is refused, with the way out."""
    options: dict[str, object] = {
        "capture.scope": scope,
        "capture.target": target,
        "signal.data.collection": signals,
        "incremental.snapshot.watermarking.strategy": strategy,
    }
    if expectation is None:
        assert Settings.from_options({**LEAST, **options}, {}).signals_reach_stream
        return
    with pytest.raises(ConfigurationError, match=expectation):
        Settings.from_options({**LEAST, **options}, {})


def test_a_narrow_scope_with_cluster_time_warns_of_unseen_signals() -> None:
    """On one collection signals go through the inbox, and the source is not told of a signal collection."""
    settings = made(
        capture_scope="collection",
        capture_target="shop.orders",
        signal_data_collection="shop.signals",
        incremental_snapshot_watermarking_strategy="cluster_time",
    )
    assert not settings.signals_reach_stream
    assert "signal.data.collection" not in settings.source_options()
    assert any("not seen" in warning for warning in settings.warnings)


def test_the_strategy_follows_the_signal_collection() -> None:
    """insert_insert where there is a signal collection, cluster_time without, and what is set in any case."""
    assert made().watermark_strategy is Strategy.CLUSTER_TIME
    assert made(signal_data_collection="a.b").watermark_strategy is Strategy.INSERT_INSERT
    chosen = made(signal_data_collection="a.b", incremental_snapshot_watermarking_strategy=" Insert_Delete ")
    assert chosen.watermark_strategy is Strategy.INSERT_DELETE


def test_lists_are_split_as_the_stream_splits_them() -> None:
    """Commas in brackets belong to a regular expression; in literal mode every comma separates."""
    regexes = made(collection_include_list="a.b{1,2} , c\\,d.e")
    assert regexes.capture.collection_include == ("a.b{1,2}", "c,d.e")
    literals = made(collection_include_list="a.b(1, c.d)", filters_match_mode="literal")
    assert literals.capture.collection_include == ("a.b(1", "c.d)")
    for settings in (regexes, literals):
        scope = CaptureScope.parse(settings.source_options())
        assert scope.collections is not None
        assert scope.collections.entries == settings.capture.collection_include


SECRETS = ("s3cret", "tok3n", "hunter2", "us3r")


def test_no_secret_is_shown() -> None:
    """Passwords, credentials in addresses, and Spark's secrets appear in no print-out and in no message."""
    options: dict[str, object] = {
        **LEAST,
        "mongodb.connection.string": "mongodb://us3r:s3cret@h/?authMechanismProperties=AWS_SESSION_TOKEN:tok3n",
        "mongodb.user": "me",
        "mongodb.password": "${env:PW}",
        "spark.hadoop.fs.s3a.secret.key": "hunter2",
    }
    environ = {"PW": "hunter2"}
    shown = json.dumps(Settings.from_options(options, environ).masked())
    assert not any(secret in shown for secret in SECRETS)
    bad = {**options, "mongodb.connection.strin": "mongodb://us3r:s3cret@h", "mongodb.passwort": "hunter2"}
    with pytest.raises(ConfigurationError) as refusal:
        Settings.from_options({**bad, "mongodb.connection.string": "mongo://us3r:s3cret@h"}, environ)
    assert len(refusal.value.problems) == 3
    assert not any(secret in str(refusal.value) for secret in SECRETS)


def test_locations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State lies under the warehouse, by the encoded name; a local path is made absolute, a URI stays."""
    assert made().state_location() == "/lake/_snapshotter/shop"
    assert made(name="a/b c").state_location() == "/lake/_snapshotter/a~2Fb~20c"
    assert made(delta_warehouse="s3a://lake/x/").state_location() == "s3a://lake/x/_snapshotter/shop"
    monkeypatch.chdir(tmp_path)
    assert made(delta_warehouse="lake").warehouse() == str(tmp_path / "lake")


def test_sizes_reach_the_core() -> None:
    """The options of sizes are the limits that the core works with."""
    limits = made(
        incremental_snapshot_chunk_size="7",
        engine_windows_in_flight="2",
        engine_commit_target_rows="11",
        engine_chunk_target_bytes="13",
        engine_read_files_min_documents="8",
        snapshot_max_threads="3",
        engine_yield_ms="3500",
        engine_target_lag_ms="1500",
    ).limits()
    assert (limits.chunk_docs, limits.windows_in_flight) == (7, 2)
    assert (limits.commit_rows_target, limits.chunk_bytes_target) == (11, 13)
    assert (limits.file_docs_min, limits.writes_files) == (8, False)
    assert (limits.tasks_ahead, limits.yield_seconds, limits.target_lag_seconds) == (3, 4, 1.5)
    assert (
        made(incremental_snapshot_chunk_size="8", engine_read_files_min_documents="8").limits().writes_files
    )
    assert made(engine_read_files_min_documents="8").limits().writes_files, "chunks grow by themselves"
    assert made(engine_yield_ms="0").limits().yield_seconds is None
    assert made(engine_target_lag_ms="0").limits().target_lag_seconds is None


def test_code_in_filters_is_off() -> None:
    """Unless it is allowed in so many words, and then the engine knows."""
    assert not engine_config(made()).allow_code
    assert engine_config(made(engine_filters_allow_code="true")).allow_code


@pytest.mark.parametrize(
    "master",
    [
        *("local", "local[1]", "local[*]", "local[4, 2]", "local-cluster[2,1,1024]"),
        *("spark://a:1,b:2", "yarn", "k8s://https://10.0.0.1:443"),
    ],
)
def test_masters_of_spark_are_taken(master: str) -> None:
    """All that Spark knows."""
    assert Settings.from_options({**LEAST, "spark.master": master}, {}).spark["spark.master"] == master


@pytest.mark.parametrize(
    "master", ["", "locale[2]", "local[0]", "local[]", "local-cluster[1]", "spark:/x", "mesos://a"]
)
def test_a_mistyped_master_is_refused(master: str) -> None:
    """At once, and not by Spark after its start, which would be tried again where restarts are on."""
    with pytest.raises(ConfigurationError, match=r"spark\.master.*is no master of Spark's; use local\[\*\]"):
        Settings.from_options({**LEAST, "spark.master": master}, {})


def test_code_in_configured_filters_is_refused() -> None:
    """Where the settings are read, unless it is allowed."""
    option = "snapshot.collection.filter.overrides"
    filtered: dict[str, object] = {
        **LEAST,
        option: "shop.orders",
        f"{option}.shop.orders": '{"$where": "sleep(1000)"}',
    }
    with pytest.raises(ConfigurationError, match=r"shop\.orders.*\$where"):
        Settings.from_options(filtered, environ={})
    allowed = Settings.from_options({**filtered, "engine.filters.allow.code": "true"}, environ={})
    assert "$where" in allowed.snapshot.filters["shop.orders"]


def test_settings_are_frozen() -> None:
    """Nothing changes a configuration once it is read."""
    with pytest.raises(ValueError, match="frozen"):
        setattr(made(), "name", "other")  # noqa: B010 — the type checker refuses the plain form


def test_spark_options_pass_through() -> None:
    """Whatever begins with ``spark.`` goes to the session as it is."""
    assert made(spark_master="local[2]").spark == {"spark.master": "local[2]"}


def test_the_catalogue_is_whole() -> None:
    """Every name stands in it once, and says what becomes of it; no old name is a current one."""
    options = catalogue()
    assert all(option.doc for option in options.values())
    assert {o.status for o in options.values()} == set(Status)
    assert options["mongodb.password"].secret
    assert options["mongodb.ssl.keystore.password"].secret
    assert options["capture.mode"].default == "change_streams_update_full"
    assert find("capture.mode.full") is None
    assert find("transforms.x.y") == options["transforms.*"]
    assert find("signal.file") == options["signal.file"]
    assert nearest("mongodb.user ") == "mongodb.user"


def test_the_source_takes_its_options_as_they_are() -> None:
    """What settings hand over is what the source knows, by the same names and with the same meaning."""
    settings = made(
        collection_include_list="shop.o{1,2}.*",
        signal_data_collection="shop.signals",
        capture_mode="change_streams_update_full_with_pre_image",
        capture_mode_full_update_type="post_image",
        cursor_max_await_time_ms="250",
        engine_batch_max_events="7",
    )
    read = ChangeOptions.parse(settings.source_options())
    assert read.uri == settings.connection_uri()
    assert read.max_events == 7
    assert read.needs_images
    assert ChangeOptions.parse(made().source_options()).max_events == 200_000


def test_waits_reach_the_engine() -> None:
    """The options of pauses and intervals are what the engine works with; whole seconds where it says so."""
    config = engine_config(
        made(
            engine_batch_wait_ms="2900",
            engine_trigger_interval_ms="70",
            retriable_restart_connector_wait_ms="25000",
            errors_max_retries="4",
            snapshot_delay_ms="5",
            streaming_delay_ms="6",
        )
    )
    assert (config.wait_seconds, config.trigger_ms) == (2, 70)
    assert (config.retry_wait_ms, config.retries_max) == (25_000, 4)
    assert (config.snapshot_delay_ms, config.streaming_delay_ms) == (5, 6)
    assert engine_config(made()).retry_wait_ms == 10_000


def test_how_long_an_engine_waits_for_what_is_away() -> None:
    """connect.max.attempts and its pauses, engine.auto.restart.enabled and engine.auto.restart.max.restarts reach the
    engine; the defaults are those that Debezium and Strimzi document, and restarts are off."""
    plain = engine_config(made())
    assert plain.reconnects == Reconnects(16, 1_000, 120_000)
    assert plain.restart_policy == RestartPolicy(enabled=False, most=7, minute_ms=60_000)
    config = engine_config(
        made(
            connect_max_attempts="3",
            connect_backoff_initial_delay_ms="5",
            connect_backoff_max_delay_ms="20",
            engine_auto_restart_enabled="true",
            engine_auto_restart_max_restarts="2",
        )
    )
    assert config.reconnects == Reconnects(3, 5, 20)
    assert config.restart_policy == RestartPolicy(enabled=True, most=2)
    for text in ("unlimited", "-1"):
        assert engine_config(made(engine_auto_restart_max_restarts=text)).restart_policy.most is None

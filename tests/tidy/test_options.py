"""No option is accepted and without effect: each that works has a test that sees what it does.

The table is by hand, for only a reader can tell whether a test sees an effect or merely names an option. What is
checked is that it is whole, that the tests exist, and that each names its option.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from snapshotter.configuration.options import Status, catalogue

TESTS = Path(__file__).parents[1]

# A test, in the folder of tests, and below it the options whose effect it sees.
TABLE = """
unit/test_settings.py::test_locations
    name
unit/test_kafka_channel_options.py::test_only_the_broker_has_to_be_named
    topic.prefix
unit/test_config_providers.py::test_declarations_that_are_wrong
    config.providers config.providers.*
integration/test_guardrail.py::test_a_start_above_the_limit
    guardrail.collections.max guardrail.collections.limit.action
integration/test_engine_custom_modes.py::test_switches_make_tables
    snapshot.mode.configuration.based.snapshot.schema
unit/test_snapshot_modes.py::test_a_mode_that_is_read_again_where_a_table_is_altered
    snapshot.mode.configuration.based.snapshot.on.schema.error
integration/test_preflight.py::test_an_unreachable_address
    mongodb.connection.string
integration/test_connection_options.py::test_one_connects_as_the_user_of_the_database_that_holds_it
    mongodb.user mongodb.password mongodb.authsource
integration/test_connection_options.py::test_one_connects_over_tls
    mongodb.ssl.enabled mongodb.ssl.invalid.hostname.allowed
unit/test_tls_address.py::test_stores_are_part_of_the_address
    mongodb.ssl.keystore mongodb.ssl.keystore.password mongodb.ssl.truststore mongodb.ssl.truststore.password
unit/test_tls_address.py::test_a_type_of_stores_is_one_of_two
    mongodb.ssl.keystore.type mongodb.ssl.truststore.type
unit/test_tls_address.py::test_credentials_of_a_class_of_javas
    mongodb.authentication.class
integration/test_connection_options.py::test_how_long_one_waits_for_a_connection
    mongodb.connect.timeout.ms mongodb.server.selection.timeout.ms
integration/test_connection_options.py::test_how_long_one_waits_for_an_answer
    mongodb.socket.timeout.ms
integration/test_connection_options.py::test_how_often_one_looks
    mongodb.heartbeat.frequency.ms
integration/test_change_stream_range.py::test_server_and_predicate_agree_on_what_is_captured
    database.include.list database.exclude.list collection.include.list collection.exclude.list
    filters.match.mode
integration/test_engine_rules.py::test_updates_without_full_documents_are_read_again_by_key
    capture.mode
integration/test_change_stream_range.py::test_lookup_gives_the_state_at_lookup_post_image_at_the_event
    capture.mode.full.update.type
integration/test_engine_rules.py::test_a_batch_is_read_from_the_source_once
    capture.scope capture.target
unit/test_settings_position.py::test_names_and_figures_reach_the_engine
    engine.heal.first
integration/test_engine_fields.py::test_other_rules_are_confirmed_where_events_are_told
    engine.fields.confirmed
integration/test_engine_filtered_state.py::test_stages_act_on_tables_and_changelogs
    cursor.pipeline cursor.pipeline.order delta.state.filtered
integration/test_engine_position.py::test_a_first_start_begins_where_the_option_says
    engine.position.start
integration/test_engine_position.py::test_another_name_is_another_position
    offset.partition.name
integration/test_oplog.py::test_a_short_runway_is_warned_of
    engine.oplog.warning.hours
integration/test_changelogs.py::test_every_event_once_beside_reads
    delta.changelog.enabled
integration/test_changelogs.py::test_what_is_skipped_is_not_told_and_hides_nothing
    skipped.operations
integration/test_changelogs.py::test_updates_that_change_nothing_are_skipped_where_that_is_wished
    skip.messages.without.change
integration/test_envelope.py::test_how_documents_are_written
    json.serialization.mode
integration/test_heartbeats.py::test_an_idle_engine_beats
    heartbeat.interval.ms
integration/test_engine_topics.py::test_a_consumer_of_debezium_reads_it
    engine.topics.enabled engine.topics.bootstrap.servers key.converter.* value.converter.*
integration/test_engine_topics.py::test_transactions_and_heartbeats_have_topics
    topic.heartbeat.prefix
integration/test_engine_topics.py::test_a_full_outbox_holds_the_stream
    engine.outbox.max.bytes
integration/test_outbox.py::test_properties_reach_kafkas_client
    producer.override.*
unit/test_topic_options.py::test_names_and_forms_reach_the_engine
    topic.delimiter topic.transaction topic.heartbeat.name tombstones.on.delete
unit/test_topic_options.py::test_what_cannot_be_is_refused
    key.converter value.converter
integration/test_engine_beginning.py::test_an_option_goes_before_it
    capture.start.op.time
integration/test_transactions.py::test_transactions_are_recorded_once
    provide.transaction.metadata
integration/test_engine_fields.py::test_what_is_left_out_is_in_no_byte_that_an_engine_wrote
    field.exclude.list
integration/test_engine_fields.py::test_renames_and_hashes_land_and_verify
    field.renames engine.field.hash.list engine.field.hash.salt
unit/test_settings_warnings.py::test_what_has_no_effect_is_said
    cursor.max.await.time.ms
integration/test_engine_initial.py::test_initial_is_narrowed_and_no_data_reads_nothing
    snapshot.mode snapshot.include.collection.list
integration/test_engine_modes.py::test_switches_and_a_mode_of_ones_own
    snapshot.mode.custom.name snapshot.mode.configuration.based.start.stream
integration/test_engine_options.py::test_a_configured_mode_reads_at_every_start
    snapshot.mode.configuration.based.snapshot.data
unit/test_snapshot_modes.py::test_each_switch_has_its_decision
    snapshot.mode.configuration.based.snapshot.on.data.error
integration/test_engine_modes.py::test_an_initial_load_may_be_filtered
    snapshot.collection.filter.overrides snapshot.collection.filter.overrides.* snapshot.fetch.size
unit/test_settings.py::test_sizes_reach_the_core
    snapshot.max.threads engine.chunk.target.bytes engine.yield.ms engine.target.lag.ms
integration/test_engine_windows.py::test_small_chunks_are_rows_until_they_land
    engine.read.files.min.documents
integration/test_engine_modes.py::test_a_stop_ends_the_pause_before_a_load
    snapshot.delay.ms
integration/test_engine_modes.py::test_a_delayed_stream_loses_nothing
    streaming.delay.ms
integration/test_engine_options.py::test_sizes_of_windows_and_commits
    incremental.snapshot.chunk.size engine.windows.in.flight engine.commit.target.rows
unit/test_settings.py::test_the_strategy_follows_the_signal_collection
    incremental.snapshot.watermarking.strategy
integration/test_engine_initial.py::test_a_load_that_was_stopped_goes_on_at_the_first_unfinished_chunk
    signal.data.collection
integration/test_engine_plugins.py::test_a_package_brings_channels_and_a_type_of_signals
    signal.enabled.channels signal.custom.* notification.custom.*
unit/test_channel_options.py::test_how_often_channels_are_looked_into
    signal.poll.interval.ms
unit/test_file_channel.py::test_the_option_names_the_file
    signal.file
integration/test_engine_channels.py::test_kafka_and_a_file_start_backfills
    signal.kafka.*
unit/test_kafka_channel_options.py::test_every_option_of_the_channel_counts
    signal.consumer.*
integration/test_notifications.py::test_every_channel_is_notified_of_a_backfill_in_order
    notification.enabled.channels notification.sink.topic.name notification.sink.bootstrap.servers
unit/test_notification_options.py::test_the_sink_knows_its_topic_and_its_brokers
    notification.producer.*
integration/test_metrics_prometheus.py::test_prometheus_finds_what_the_status_says
    custom.metric.tags
integration/test_metrics_prometheus.py::test_a_taken_port_keeps_an_engine_from_starting
    metrics.port
unit/test_metrics_options.py::test_the_address_and_the_labels_reach_the_engine
    metrics.host
integration/test_page_engine.py::test_an_engine_is_watched_and_steered
    engine.http.port
unit/test_page_options.py::test_the_address_and_the_token_reach_the_engine
    engine.http.host engine.http.token engine.http.names
integration/test_engine_dead_letters.py::test_by_default_the_engine_stops_at_an_event_and_names_it
    event.processing.failure.handling.mode
integration/test_engine_dead_letters.py::test_what_fails_is_buried_and_hides_nothing
    errors.tolerance
integration/test_engine_oversize.py::test_a_large_event_is_skipped_and_its_document_lands
    cursor.oversize.handling.mode
integration/test_engine_oversize.py::test_documents_above_the_threshold_are_read_by_their_keys
    cursor.oversize.skip.threshold
integration/test_cli_engine.py::test_giving_up_after_the_retries_allowed
    errors.max.retries
integration/test_engine_options.py::test_the_pause_before_a_retry_is_as_long_as_asked
    retriable.restart.connector.wait.ms
unit/test_settings.py::test_how_long_an_engine_waits_for_what_is_away
    connect.max.attempts connect.backoff.initial.delay.ms connect.backoff.max.delay.ms
    engine.auto.restart.enabled engine.auto.restart.max.restarts
integration/test_cli_engine.py::test_an_unwritable_warehouse
    delta.warehouse
unit/test_settings.py::test_one_problem
    delta.table.layout
integration/test_engine_soft_deletes.py::test_a_table_that_is_switched_there_and_back
    delta.deletes.mode
integration/test_engine_upkeep.py::test_an_engine_that_leaves_files_alone
    engine.upkeep.enabled
unit/test_table_options.py::test_readers_of_any_kind
    delta.reader
unit/test_table_options.py::test_properties_reach_new_tables
    delta.table.properties.*
integration/test_registration.py::test_a_name_that_somebody_has_is_left_to_him
    delta.catalog.table
unit/test_upkeep_options.py::test_when_something_is_due
    engine.upkeep.small.files engine.upkeep.file.bytes engine.upkeep.marked.percent
unit/test_upkeep_options.py::test_how_long_files_stay
    delta.retention.hours delta.retention.check
integration/test_change_stream_spark.py::test_a_backlog_in_small_batches
    engine.batch.max.events
integration/test_change_stream_spark.py::test_a_backlog_of_large_documents_in_small_batches
    engine.batch.max.bytes
unit/test_settings.py::test_debeziums_queue_in_bytes_bounds_a_batch
    max.queue.size.in.bytes
integration/test_backlog.py::test_a_large_batch_is_read_in_splits
    engine.stream.readers
integration/test_engine_options.py::test_batches_do_not_follow_faster_than_asked
    engine.trigger.interval.ms
integration/test_engine_interruptions.py::test_a_find_that_is_killed_is_sent_again
    engine.filters.allow.code
unit/test_settings.py::test_waits_reach_the_engine
    engine.batch.wait.ms
unit/test_table_options.py::test_memory_for_keys_follows_the_machines
    engine.keys.memory.bytes
unit/test_source_pacing.py::test_how_often_landings_come
    engine.commit.interval.ms
integration/test_engine_suspended.py::test_altered_tables_are_repaired_where_that_is_wished
    engine.table.altered
integration/test_engine_lost_positions.py::test_healing_compares_every_table
    engine.position.lost
unit/test_first_load.py::test_what_is_captured_since_is_read_as_at_a_first_start
    engine.snapshot.new.collections
integration/test_stored_images.py::test_an_engine_that_may_switch_them_on_does
    engine.post.images.enable
integration/test_engine_options.py::test_an_engine_may_leave_no_status_behind
    engine.status.collection
unit/test_signal_handler.py::test_no_more_requests_wait_than_are_allowed
    engine.requests.max
unit/test_channel_options.py::test_how_long_ids_are_remembered
    engine.signals.remember.ms
integration/test_engine_watermarks.py::test_windows_may_leave_their_documents
    engine.watermarks.keep
unit/test_spark_session.py::test_what_is_given_wins_and_lists_are_joined
    spark.*
"""


def rows() -> dict[str, str]:
    """The test of each option."""
    found: dict[str, str] = {}
    test = ""
    for line in TABLE.strip().splitlines():
        if line.startswith(" "):
            found |= dict.fromkeys(line.split(), test)
        else:
            test = line
    return found


@cache
def functions(file: str) -> dict[str, str]:
    """The tests of a file, with their text and that of what stands over them."""
    path = TESTS / file
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = {}
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return found


def names(option: str) -> set[str]:
    """How tests write an option: as it is, or as a keyword with ``_`` or ``__`` for dots."""
    plain = option.removesuffix(".*").removeprefix("snapshot.mode.configuration.based.")
    return {plain, plain.replace(".", "__"), plain.replace(".", "_")}


def test_every_option_that_works_has_a_test_that_sees_its_effect() -> None:
    """An option without an entry, an entry without an option, a test that is not there or does not name it."""
    works = {option.name for option in catalogue().values() if option.status is Status.SUPPORTED}
    table = rows()
    assert works - set(table) == set(), "these options have no test that sees their effect"
    assert set(table) - works == set(), "these are no options, or none that works"
    wrong = []
    for option, where in table.items():
        file, _, test = where.partition("::")
        text = functions(file).get(test)
        if text is None:
            wrong.append(f"{option}: there is no {where}")
        elif not any(name in text for name in names(option)):
            wrong.append(f"{option}: {where} does not name it")
    assert wrong == []

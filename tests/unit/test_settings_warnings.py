"""What a start says of options that were given and change nothing."""

from __future__ import annotations

import pytest

from tests.unit.test_settings import made


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"capture_mode": "change_streams_update_full_with_pre_image"},
            "nothing else is on that would (delta.changelog.enabled, engine.topics.enabled), so",
        ),
        ({"json_serialization_mode": "relaxed"}, "json.serialization.mode has no effect"),
        (
            {"capture_mode": "change_streams", "capture_mode_full_update_type": "post_image"},
            "capture.mode.full.update.type has no effect with capture.mode=change_streams",
        ),
        ({"cursor_max_await_time_ms": "250"}, "cursor.max.await.time.ms has an effect through mongos only"),
        (
            {"snapshot_mode_configuration_based_snapshot_data": "true"},
            "snapshot.mode.configuration.based.snapshot.data has no effect",
        ),
        (
            {"snapshot_mode_configuration_based_snapshot_schema": "true"},
            "snapshot.mode.configuration.based.snapshot.schema has no effect: snapshot.mode is not configuration_based",
        ),
        ({"mongodb_authsource": "shop"}, "mongodb.authsource has no effect: mongodb.user is not set"),
        ({"mongodb_ssl_invalid_hostname_allowed": "true"}, "mongodb.ssl.enabled is not true"),
        ({"engine_watermarks_keep": "true"}, "engine.watermarks.keep has no effect"),
        ({"delta_state_filtered": "true"}, "delta.state.filtered=true has no effect"),
    ],
)
def test_what_has_no_effect_is_said(options: dict[str, object], said: str) -> None:
    """At the start, in one sentence each: an option that was given and changes nothing."""
    (warning,) = made(**options).warnings
    assert said in warning


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"cursor_pipeline": '[{"$match": {}}]'}, "cursor.pipeline"),
        ({"skipped_operations": "d"}, "skipped.operations"),
        (
            {"cursor_pipeline": '[{"$match": {}}]', "skipped_operations": "d"},
            "cursor.pipeline, skipped.operations",
        ),
    ],
)
def test_state_tables_that_are_filtered_equal_nothing(options: dict[str, object], named: str) -> None:
    """It has to be asked for, and is said at each start."""
    settings = made(delta_state_filtered="true", **options)
    (warning,) = settings.warnings
    assert warning.startswith(f"state tables are filtered ({named} with delta.state.filtered)")
    given = settings.source_options()
    assert [name for name in ("cursor.pipeline", "skipped.operations") if name in given] == named.split(", ")


def test_credentials_that_are_given_twice() -> None:
    """The connection string's own go first, and what is left out is said."""
    both = made(
        mongodb_connection_string="mongodb://me:mine@localhost/", mongodb_user="you", mongodb_password="yours"
    )
    assert "me:mine@" in both.connection_uri()
    assert [warning.partition(" ")[0] for warning in both.warnings] == ["mongodb.user", "mongodb.password"]
    assert "yours" not in "".join(both.warnings)

"""The options of events: what they ask of the source, and how events are told."""

from __future__ import annotations

import pytest

from snapshotter import __version__
from snapshotter.engine.assembly import engine_config
from streaming.events.envelope import Envelope, JsonSerialization
from streaming.source.change_options import ChangeOptions
from tests.unit.test_settings import made


def test_a_state_table_alone_asks_for_less() -> None:
    """Neither every event nor all of its fields: before-images only where something would hold them."""
    config = engine_config(made(capture_mode="change_streams_update_full_with_pre_image"))
    asked = ChangeOptions.parse(config.source_options)
    assert (asked.wide, asked.latest, asked.stream.before_change) == (False, True, False)
    assert (config.envelope, config.changelog) == (None, False)


def test_targets_of_events_ask_the_source_for_all() -> None:
    """delta.changelog.enabled: every event, whole, and before-images if capture.mode says so."""
    config = engine_config(
        made(
            delta_changelog_enabled="true",
            capture_mode="change_streams_update_full_with_pre_image",
            topic_prefix="shop",
            name="engine",
        )
    )
    asked = ChangeOptions.parse(config.source_options)
    assert (asked.wide, asked.latest, asked.stream.before_change) == (True, False, True)
    assert config.changelog
    assert config.envelope == Envelope("shop", __version__)
    without = engine_config(made(delta_changelog_enabled="true"))
    assert not ChangeOptions.parse(without.source_options).stream.before_change


def test_how_events_are_told() -> None:
    """json.serialization.mode and provide.transaction.metadata reach the envelope."""
    options = {"json_serialization_mode": "Relaxed", "provide_transaction_metadata": "true"}
    told = engine_config(made(delta_changelog_enabled="true", **options)).envelope
    assert told is not None
    assert (told.serialization, told.transactions) == (JsonSerialization.RELAXED, True)


@pytest.mark.parametrize("mode", ["canonical", ""])
def test_a_mode_that_there_is_not(mode: str) -> None:
    """It is refused with those that there are."""
    with pytest.raises(Exception, match=r"json.serialization.mode.*legacy, strict, extended, relaxed"):
        made(json_serialization_mode=mode)


def test_what_is_skipped_where_events_are_told() -> None:
    """skipped.operations and skip.messages.without.change reach the envelope; t, which is the default, asks for
    nothing."""
    options = {"skipped_operations": "U, d,t", "skip_messages_without_change": "true"}
    told = engine_config(made(delta_changelog_enabled="true", **options)).envelope
    assert told is not None
    assert (told.skips, told.skips_unchanged) == (frozenset({"u", "d"}), True)
    for nothing in ("t", "none", ""):
        told = engine_config(made(delta_changelog_enabled="true", skipped_operations=nothing)).envelope
        assert told is not None
        assert told.tells_all


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"skipped_operations": "c"}, r"skipped.operations.*to true.*engine.topics.enabled"),
        (
            {"skip_messages_without_change": "true"},
            r"skip.messages.without.change.*to true.*engine.topics.enabled",
        ),
        (
            {"skipped_operations": "c,x", "delta_changelog_enabled": "true"},
            r"must be some of c, u, d, t, or none",
        ),
        ({"skipped_operations": "none,c", "delta_changelog_enabled": "true"}, "or none alone"),
    ],
)
def test_state_tables_skip_nothing(options: dict[str, object], said: str) -> None:
    """What would leave a state table unlike its collection is refused, with what to do; so is what is no operation."""
    with pytest.raises(Exception, match=said):
        made(**options)


@pytest.mark.parametrize("nothing", ["t", "none"])
def test_debeziums_defaults_ask_for_nothing(nothing: str) -> None:
    """Without a target of events they are taken as they are."""
    assert made(skipped_operations=nothing, skip_messages_without_change="false").warnings == ()

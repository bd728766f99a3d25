"""Options of the source: defaults, Debezium's names, and errors that name the option and its value."""

from __future__ import annotations

import base64

import bson
import pytest

from streaming.mongo.errors import ConfigurationError
from streaming.positions import ClusterTime
from streaming.source.change_options import ChangeOptions

URI = "mongodb://localhost:27017"
TOKEN = {"_data": "826B0187F2"}


def parsed(**options: str) -> ChangeOptions:
    named = {name.replace("__", "."): value for name, value in options.items()}
    return ChangeOptions.parse({"mongodb.connection.string": URI, **named})


def test_defaults() -> None:
    """Updates with a looked-up document, from now on, no trailer."""
    options = parsed()
    assert (options.stream.full_document, options.stream.before_change) == ("updateLookup", False)
    assert (options.start, options.max_events, options.trailer, options.wide) == ("now", 200_000, False, True)


@pytest.mark.parametrize(
    ("mode", "full_type", "expected"),
    [
        ("change_streams", "lookup", (None, False)),
        ("change_streams_with_pre_image", "lookup", (None, True)),
        ("change_streams_update_full", "post_image", ("whenAvailable", False)),
        ("change_streams_update_full_with_pre_image", "lookup", ("updateLookup", True)),
    ],
)
def test_capture_modes(mode: str, full_type: str, expected: tuple[str | None, bool]) -> None:
    """Debezium's modes, and where full documents come from."""
    options = parsed(capture__mode=mode, capture__mode__full__update__type=full_type)
    assert (options.stream.full_document, options.stream.before_change) == expected
    assert options.needs_images == (expected[1] or expected[0] == "whenAvailable")


@pytest.mark.parametrize("columns", ["full", "state"])
def test_what_is_asked_of_the_server_follows_from_the_columns(columns: str) -> None:
    """Pre-images cost the server, and room in an event, so nobody who does not get them asks for them."""
    stream = parsed(capture__mode="change_streams_update_full_with_pre_image", columns=columns).stream
    assert stream.before_change == (columns == "full")
    project = [stage for stage in stream.pipeline({}) if "$project" in stage]
    assert [
        ("fullDocument" in stage["$project"], "updateDescription" in stage["$project"]) for stage in project
    ] == ([] if columns == "full" else [(True, False)])


def test_a_batch_is_bounded_by_bytes() -> None:
    """0, Debezium's default for the size of its queue, means ours."""
    assert parsed().max_bytes == parsed(engine__batch__max__bytes="0").max_bytes == 512 << 20
    assert (
        parsed(engine__batch__max__bytes="2000000", engine__batch__max__events="1000").bytes_per_event
        == 2_000
    )


def test_a_start_time_or_token_implies_its_mode() -> None:
    """`start.position` need not be given with them."""
    time = ClusterTime(1_700_000_000, 5)
    options = parsed(capture__start__op__time=str(time.to_int()))
    assert (options.start, options.start_time) == ("timestamp", time)
    encoded = base64.b64encode(bson.encode(TOKEN)).decode()
    for text in (encoded, '{"_data": "826B0187F2"}'):
        options = parsed(start__resume__token=text)
        assert (options.start, bson.decode(options.start_token or b"")) == ("token", TOKEN)


def test_minus_one_is_debeziums_no_start_time() -> None:
    """Debezium's default for the option means the same here."""
    assert parsed(capture__start__op__time="-1").start == "now"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capture__mod": "x"}, r"capture\.mod='x'.*did you mean capture\.mode\?"),
        ({"capture__mode": "everything"}, r"capture\.mode='everything': expected one of change_streams"),
        ({"trailer": "yes"}, r"trailer='yes': expected one of true, false"),
        ({"columns": "some"}, r"columns='some'"),
        ({"engine__batch__max__events": "0"}, r"engine\.batch\.max\.events='0': .*at least 1"),
        ({"engine__batch__max__events": "many"}, r"engine\.batch\.max\.events='many'"),
        ({"cursor__max__await__time__ms": "-5"}, r"cursor\.max\.await\.time\.ms='-5'"),
        (
            {"capture__start__op__time": "1700000000"},
            r"capture\.start\.op\.time='1700000000'.*7301444403200000000",
        ),
        ({"start__position": "timestamp"}, r"start\.position='timestamp' needs capture\.start\.op\.time"),
        ({"start__position": "token"}, r"start\.position='token' needs start\.resume\.token"),
        ({"start__position": "yesterday"}, r"start\.position='yesterday'"),
        ({"start__resume__token": "!"}, r"start\.resume\.token='!'.*base64"),
        ({"start__resume__token": '{"a": 1}'}, r"start\.resume\.token=.*_data"),
        (
            {"start__position": "oldest", "start__resume__token": '{"_data": "82"}'},
            r"start\.position='oldest' contradicts start\.resume\.token",
        ),
        ({"capture__scope": "cluster"}, r"capture\.scope='cluster'"),
    ],
)
def test_what_is_refused(options: dict[str, str], message: str) -> None:
    """Each message names the option, the value, and what is expected."""
    with pytest.raises(ConfigurationError, match=message):
        parsed(**options)


def test_an_address_is_required() -> None:
    """The one option without a default."""
    with pytest.raises(ConfigurationError, match=r"mongodb\.connection\.string is missing"):
        ChangeOptions.parse({})

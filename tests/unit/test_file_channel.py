"""The file channel against whatever happens to files: half lines, rotation, truncation, and restarts in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signals.channel import ChannelContext, SignalsLost
from signals.channels.file_channel import MAX_LINE, FileChannel, file_channel
from snapshotter.state.storage import MemoryStorage
from tests.support.signal_channels import FileRig, ack_all, log, numbers, text_of


@pytest.fixture
def rig(tmp_path: Path) -> FileRig:
    return FileRig(tmp_path)


def take(channel: FileChannel) -> list[int]:
    """Poll and acknowledge."""
    found = channel.poll()
    ack_all(channel, found)
    assert all(item.action for item in found), found
    return numbers(found)


def test_a_file_that_is_not_there_yet_is_well(rig: FileRig) -> None:
    """Nothing comes until it is there."""
    channel = rig.open()
    assert channel.poll() == []
    assert channel.health() is None
    rig.send(log(1))
    assert take(channel) == [1]


def test_half_a_line_waits_for_the_rest(rig: FileRig) -> None:
    """Also when the engine is started anew in between."""
    whole = text_of(log(2)) + b"\n"
    rig.send(log(1))
    for cut in (1, len(whole) // 2, len(whole) - 1):
        with rig.path.open("ab") as file:
            file.write(whole[:cut])
            file.flush()
            assert 2 not in take(rig.open())
            file.write(whole[cut:])
        assert take(rig.open()) == [2]


def test_blank_lines_and_line_ends_of_other_systems(rig: FileRig) -> None:
    """Blank lines are no signals; a carriage return is no part of one."""
    rig.append(b"", text_of(log(1)) + b"\r", b"  ", text_of(log(2)), b"")
    channel = rig.open()
    assert take(channel) == [1, 2]
    rig.append(b"")
    assert take(channel) == []


def test_the_file_is_never_written(rig: FileRig) -> None:
    """What was there is there after it was read, to the byte."""
    rig.send(log(1))
    before = rig.path.read_bytes()
    take(rig.open())
    assert rig.path.read_bytes() == before


def test_a_line_without_an_id_has_its_place_for_one(rig: FileRig) -> None:
    """The same after a restart, and another in the next file."""
    rig.append(b'{"type": "pause-snapshot"}', b'{"type": "resume-snapshot", "data": {}}')
    first = rig.open().poll()
    assert [item.id for item in first] == ["signals.jsonl/1/0", "signals.jsonl/1/27"]
    channel = rig.open()
    assert channel.poll() == first
    ack_all(channel, first)
    rig.path.unlink()
    rig.append(b'{"type": "pause-snapshot"}')
    assert [item.id for item in channel.poll()] == ["signals.jsonl/2/0"]


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
def test_rotation_by_renaming_loses_nothing(rig: FileRig, restart: bool) -> None:
    """Lines written just before the renaming, just after it, and into the old file beside the new one's first."""
    channel = rig.open()
    rig.send(log(1))
    assert take(channel) == [1]
    rig.send(log(2))
    rig.path.rename(rig.path.with_name("signals.jsonl.1"))
    rig.send(log(3))
    if restart:
        channel = rig.open()
    assert take(channel) == [2, 3]
    assert take(rig.open()) == []
    rig.send(log(4))
    assert take(channel) == [4]


def test_several_rotations_while_nothing_was_acknowledged(rig: FileRig) -> None:
    """Open lines of three files come again after a restart, each once, and in order."""
    channel = rig.open()
    for number in (1, 2, 3):
        rig.send(log(number))
        assert numbers(channel.poll()) == list(range(1, number + 1))
        rig.path.rename(rig.path.with_name(f"signals.jsonl.{number}"))
    channel.close()
    rig.send(log(4))
    channel = rig.open()
    assert take(channel) == [1, 2, 3, 4]
    rig.send(log(5))
    assert take(rig.open()) == [5]


def test_a_folder_that_is_away_for_a_while(rig: FileRig, tmp_path: Path) -> None:
    """After a restart nothing is taken for lost while nothing is there: it may come back, and does."""
    rig.send(log(1), log(2))
    channel = rig.open()
    first, _ = channel.poll()
    channel.ack(first.name)
    channel.close()
    rig.path.rename(tmp_path.parent / "elsewhere")
    channel = rig.open()
    assert channel.poll() == []
    (tmp_path.parent / "elsewhere").rename(rig.path)
    assert take(channel) == [2]


def test_a_removed_file_is_read_to_its_end(rig: FileRig) -> None:
    """While it is open; the last line counts without its end, for nobody will write that."""
    channel = rig.open()
    rig.send(log(1))
    assert take(channel) == [1]
    with rig.path.open("ab") as file:
        file.write(text_of(log(2)))
    rig.path.unlink()
    assert take(channel) == [2]
    rig.send(log(3))
    assert take(channel) == [3]


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("rest", [(), (7,), (7, 8, 9, 10)], ids=["truncated", "shorter", "longer"])
def test_a_file_rewritten_in_place_is_read_anew(rig: FileRig, restart: bool, rest: tuple[int, ...]) -> None:
    """Noticed by its length or by its first bytes."""
    channel = rig.open()
    rig.send(log(1), log(2))
    assert take(channel) == [1, 2]
    rig.path.write_bytes(b"")
    rig.send(*map(log, rest))
    if restart:
        channel = rig.open()
    assert take(channel) == list(rest)
    rig.send(log(3))
    assert take(channel) == [3]


def test_lines_that_vanish_unread_are_missed_aloud(rig: FileRig) -> None:
    """A file is removed while the engine is down, with lines in it that it had seen and not acknowledged: that is said,
    once, in their place."""
    rig.send(log(1), log(2))
    channel = rig.open()
    first, _ = channel.poll()
    channel.ack(first.name)
    channel.close()
    rig.path.unlink()
    rig.send(log(3), log(4))
    channel = rig.open()
    lost, *rest = channel.poll()
    assert isinstance(lost.error, SignalsLost)
    assert "send them again" in str(lost.error)
    assert numbers(rest) == [3, 4]
    ack_all(channel, [lost, *rest])
    assert rig.open().poll() == []


def test_a_file_replaced_after_all_was_read_is_no_loss(rig: FileRig) -> None:
    """Nothing is said when nothing is known to be missing."""
    rig.send(log(1))
    channel = rig.open()
    assert take(channel) == [1]
    channel.close()
    rig.path.unlink()
    rig.send(log(2))
    assert take(rig.open()) == [2]


def test_a_line_longer_than_any_signal_is_passed(rig: FileRig) -> None:
    """It comes as an error that says how long it is; those around it come as ever."""
    long = b"x" * (3 * MAX_LINE)
    rig.append(text_of(log(1)), long, text_of(log(2)))
    channel = rig.open()
    first, wrong, second = channel.poll()
    assert numbers([first, second]) == [1, 2]
    assert f"has {len(long) + 1:,} bytes" in str(wrong.error)
    ack_all(channel, [first, wrong, second])
    assert rig.open().poll() == []


def test_a_file_that_cannot_be_read_is_said(rig: FileRig) -> None:
    """A folder in its place: nothing comes, health names it and the option; and all is well once it is gone."""
    rig.path.mkdir()
    channel = rig.open()
    assert channel.poll() == []
    assert "signals.jsonl (signal.file) cannot be read" in str(channel.health())
    rig.path.rmdir()
    rig.send(log(1))
    assert take(channel) == [1]
    assert channel.health() is None


def test_the_option_names_the_file(tmp_path: Path) -> None:
    """Debezium's option; its default is a file in the working directory."""
    path = tmp_path / "a[b].jsonl"
    path.write_bytes(text_of(log(1)) + b"\n")
    store = MemoryStorage()
    channel = file_channel(ChannelContext("shop", store, {"signal.file": str(path)}))
    assert take(channel) == [1]
    path.rename(path.with_name("a[b].jsonl.1"))
    path.write_bytes(text_of(log(2)) + b"\n")
    assert take(file_channel(ChannelContext("shop", store, {"signal.file": str(path)}))) == [2]


STEPS = st.lists(
    st.sampled_from(["send", "half", "rest", "poll", "take", "rename", "restart"]), min_size=1, max_size=40
)


@given(STEPS)
def test_any_history_gives_each_signal_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """Whatever is written, rotated, polled and restarted in whichever order: all signals, in order, none twice."""
    rig = FileRig(tmp_path_factory.mktemp("history"))
    channel, sent, half, seen, renamed = rig.open(), 0, b"", list[int](), 0
    for step in [*steps, "rest", "take"]:
        match step:
            case "send" if not half:
                rig.send(log(sent))
                sent += 1
            case "half" if not half:
                line = text_of(log(sent)) + b"\n"
                half, sent = line[7:], sent + 1
                with rig.path.open("ab") as file:
                    file.write(line[:7])
            case "rest" if half:
                with rig.path.open("ab") as file:
                    file.write(half)
                half = b""
            case "poll":
                channel.poll()
            case "take":
                seen += take(channel)
            case "rename" if not half and rig.path.exists():
                channel.poll()  # a file that comes and goes between two looks is seen by nobody
                renamed += 1
                rig.path.rename(rig.path.with_name(f"signals.jsonl.{renamed}"))
            case "restart":
                channel.close()
                channel = rig.open()
    channel.close()
    assert seen == list(range(sent))

"""The control loop's look at its channels: handled, then acknowledged, and never at the mercy of any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from signals.channels.file_channel import FileChannel
from signals.channels.inbox_channel import InboxChannel
from signals.channels.process_channel import InProcessChannel
from snapshotter.intake.channels import POLL_SIZE, Channels
from snapshotter.state.storage import MemoryStorage, StorageError
from tests.support.signal_channels import log


@dataclass
class Told:
    """What an engine would be told, and a clock that goes on by ``step`` whenever it is looked at."""

    handled: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    now: float = 0.0
    step: float = 0.0
    before: Callable[[str], None] = lambda signal_id: None

    def look(self, channels: Channels) -> None:
        """Take what the channels show."""
        for polled in channels.look():
            for action in polled.actions:
                self.before(action.id)
            self.handled += [action.id for action in polled.actions]
            self.refused |= {refusal.id: refusal.why for refusal in polled.refused}

    def clock(self) -> float:
        self.now += self.step
        return self.now


class Counting(InProcessChannel):
    """Real, and counts what it is told to forget."""

    def __init__(self) -> None:
        super().__init__()
        self.acks: list[int] = []

    def ack(self, *names: str) -> None:
        self.acks.append(len(names))
        super().ack(*names)


def looking(told: Told, *channels: InboxChannel | FileChannel | InProcessChannel) -> Channels:
    return Channels(channels, told.clock)


def test_all_channels_are_looked_at(tmp_path: Path) -> None:
    """What they hold is handled or refused, and gone at the next look; what is refused bears its reason."""
    told, storage, file = Told(), MemoryStorage(), tmp_path / "signals.jsonl"
    inbox, in_process = InboxChannel(storage), InProcessChannel()
    channels = looking(told, inbox, in_process, FileChannel(file, storage))
    inbox.send(log(1))
    in_process.send(log(2))
    file.write_text('{"id": "s3", "type": "pause-snapshot"}\n{"id": "bad", "type": "no-such"}\n')
    told.look(channels)
    told.look(channels)
    assert told.handled == ["s00001", "s00002", "s3"]
    assert list(told.refused) == ["bad"]
    assert "no-such" in told.refused["bad"]
    assert [(r.name, r.trouble) for r in channels.reports()] == [
        ("inbox", None),
        ("in-process", None),
        ("file", None),
    ]
    channels.close()
    assert channels.reports() == ()


class Distant(InProcessChannel):
    """Says of itself whether more is on its way."""

    more = True

    def behind(self) -> bool:
        return self.more


def test_channels_are_quiet_once_nothing_comes_and_nothing_is_on_its_way() -> None:
    """What a look has taken may have led to work: the next one has to find nothing."""
    told, channel = Told(), Distant()
    channels = looking(told, InProcessChannel(), channel)
    channel.send(log(1))
    quiet = []
    for channel.more in (True, True, False):
        told.look(channels)
        quiet.append(channels.quiet())
    channel.send(log(2))
    told.look(channels)
    assert [*quiet, channels.quiet()] == [False, False, True, False]


def test_a_look_is_acknowledged_at_once() -> None:
    """One call for each group that is handled together; none where nothing came."""
    told, channel = Told(), Counting()
    channels = looking(told, channel)
    for number in range(POLL_SIZE + 50):
        channel.send(log(number))
    told.look(channels)
    told.look(channels)
    assert channel.acks == [POLL_SIZE, 50]


def test_what_was_not_handled_is_shown_again() -> None:
    """An error in the middle passes through; what had been handled is not repeated, what had not been is not lost."""
    told, channel = Told(), InProcessChannel()
    channels = looking(told, channel)
    for number in range(POLL_SIZE + 4):
        channel.send(log(number))

    def gone(signal_id: str) -> None:
        if signal_id == f"s{POLL_SIZE + 2:05}":
            raise ConnectionError("the server is gone")

    told.before = gone
    with pytest.raises(ConnectionError):
        told.look(channels)
    assert len(told.handled) == POLL_SIZE
    told.before = lambda signal_id: None
    told.look(channels)
    assert told.handled == [f"s{number:05}" for number in range(POLL_SIZE + 4)]


def test_a_flood_does_not_hold_up_the_control_loop() -> None:
    """A look ends after two seconds; the next goes on, and nothing is lost or comes twice."""
    told, channel = Told(step=1.5), InProcessChannel()
    channels = looking(told, channel)
    for number in range(4 * POLL_SIZE):
        channel.send(log(number))
    told.look(channels)
    assert 0 < len(told.handled) < 4 * POLL_SIZE
    for _ in range(3):
        told.look(channels)
    assert told.handled == [f"s{number:05}" for number in range(4 * POLL_SIZE)]


def test_a_channel_that_is_down_is_reported(tmp_path: Path) -> None:
    """In the report at once; in the log when it has lasted, once, and once more when it is over. The others work."""
    told, storage, file = Told(), MemoryStorage(), tmp_path / "signals.jsonl"
    file.mkdir()
    in_process = InProcessChannel()
    channels = looking(told, FileChannel(file, storage), in_process)
    with capture_logs() as logs:
        for told.now in (0.0, 1.0, 6.0, 7.0):
            in_process.send(log(int(told.now)))
            told.look(channels)
        trouble = channels.reports()[0].trouble
        assert trouble is not None
        assert f"{file} (signal.file) cannot be read" in trouble
        assert len(told.handled) == 4
        file.rmdir()
        told.look(channels)
        told.look(channels)
    assert [line["log_level"] for line in logs] == ["warning", "info"]
    assert (logs[0]["channel"], logs[0]["why"]) == ("file", trouble)
    assert channels.reports()[0].trouble is None


def test_errors_of_the_engines_own_storage_pass_through(tmp_path: Path) -> None:
    """A position that cannot be kept is no matter of the channel."""

    class Full(MemoryStorage):
        def write_text(self, name: str, text: str) -> None:
            raise StorageError(f"{name}: no space left")

    file = tmp_path / "signals.jsonl"
    file.write_text('{"id": "s3", "type": "pause-snapshot"}\n')
    told = Told()
    channels = looking(told, FileChannel(file, Full()))
    with pytest.raises(StorageError, match=r"channels/file\.json"):
        told.look(channels)

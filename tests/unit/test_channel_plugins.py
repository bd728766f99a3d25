"""Channels of other packages: found by their entry point, and held to the port whatever they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from signals.channel import ChannelContext, ChannelOptionsRefused, Received
from signals.channels.file_channel import FileChannel
from signals.channels.plugins import ForeignChannel, known_channels, open_channel
from signals.channels.process_channel import InProcessChannel
from snapshotter.state.storage import MemoryStorage
from tests.support.packages import install

PLUGIN = """
from signals.channel import ChannelOptionsRefused, OptionProblem
from signals.channels.process_channel import InProcessChannel

def channel(context):
    if context.options.get("signal.pigeon.size") == "0":
        raise ChannelOptionsRefused((OptionProblem("signal.pigeon.size", "must be more", "0"),))
    found = InProcessChannel()
    found.send_document({"id": context.prefix, "type": "pause-snapshot"})
    return found

def broken(context):
    raise RuntimeError("no pigeons")
"""


def context(**options: str) -> ChannelContext:
    return ChannelContext(
        "shop", MemoryStorage(), {f"signal.{k.replace('_', '.')}": v for k, v in options.items()}
    )


@pytest.fixture
def pigeons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with three entry points, installed as pip would leave it."""
    points = {"pigeon": "channel", "broken": "broken", "absent": "absent"}
    install(tmp_path, monkeypatch, "pigeon_post", PLUGIN, "snapshotter.signal_channels", points)


@pytest.mark.usefixtures("pigeons")
def test_a_package_brings_a_channel() -> None:
    """By the name of its entry point, made from the engine's prefix and options."""
    assert {"file", "kafka", "pigeon"} <= set(known_channels())
    channel = open_channel("pigeon", context())
    (received,) = channel.poll()
    assert received.id == "shop"
    channel.ack(received.name)
    assert channel.poll() == []
    assert (channel.name, channel.health()) == ("pigeon", None)
    channel.close()


@pytest.mark.usefixtures("pigeons")
@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("pigeon", {"pigeon_size": "0"}, "signal.pigeon.size=0: must be more"),
        ("broken", {}, "could not be made by pigeon_post:broken: RuntimeError: no pigeons"),
        ("absent", {}, "could not be made by pigeon_post:absent: AttributeError"),
        (
            "owl",
            {},
            "signal.enabled.channels=owl: is no channel; there are absent, broken, file, kafka, pigeon",
        ),
    ],
)
def test_a_channel_that_cannot_be_made_is_refused(name: str, options: dict[str, str], said: str) -> None:
    """Its own reason, an error in its code, or no such channel: each names the option and whose fault it is."""
    with pytest.raises(ChannelOptionsRefused) as caught:
        open_channel(name, context(**options))
    assert said in str(caught.value)


def test_our_own_are_opened_by_name(tmp_path: Path) -> None:
    """Kafka without a broker is refused; a file needs nothing."""
    channel = open_channel("file", context(file=str(tmp_path / "signals")))
    assert isinstance(channel, FileChannel)
    with pytest.raises(ChannelOptionsRefused, match=r"signal\.kafka\.bootstrap\.servers: must name a broker"):
        open_channel("kafka", context())


class Moody:
    """A channel that breaks the port's promises while it is in the mood."""

    name = "moody"
    mood = True

    def poll(self) -> list[Received]:
        if self.mood:
            raise OSError("not today")
        return [Received("moody", "1", "1", None)]

    def ack(self, *names: str) -> None:
        self.poll()

    def health(self) -> str | None:
        self.poll()
        return None

    def behind(self) -> bool:
        return bool(self.poll())

    def close(self) -> None:
        self.poll()


def test_a_foreign_channel_cannot_harm_the_engine() -> None:
    """Whatever it raises becomes its health, until a poll works again."""
    inner = Moody()
    channel = ForeignChannel("moody", inner)
    assert channel.poll() == []
    assert channel.health() == "poll failed: OSError: not today"
    assert not channel.behind()
    channel.ack("1")
    channel.close()
    inner.mood = False
    assert len(channel.poll()) == 1
    assert channel.health() is None
    assert channel.behind()
    assert not ForeignChannel("plain", InProcessChannel()).behind()

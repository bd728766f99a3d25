"""Channels by name: those of this package, and those that other packages bring.

A package brings a channel by an entry point in the group ``snapshotter.signal_channels``: its name is what
``signal.enabled.channels`` calls the channel, and it leads to a function ``(ChannelContext) -> SignalChannel``.

    [project.entry-points."snapshotter.signal_channels"]
    sqs = "my_package.sqs:channel"

Its options are all that begin with ``signal.``, as they were written. A function that refuses them raises
ChannelOptionsRefused. Its channel is not trusted to keep the port's promise that ``poll`` raises nothing: whatever it
raises becomes its health.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from signals.channels.channel import (
    ChannelContext,
    ChannelOptionsRefused,
    DistantChannel,
    OptionProblem,
    Received,
    SignalChannel,
)
from signals.channels.file_channel import NAME as FILE
from signals.channels.file_channel import file_channel
from signals.channels.kafka_channel import NAME as KAFKA
from signals.channels.kafka_channel import kafka_channel

GROUP = "snapshotter.signal_channels"
OPTION = "signal.enabled.channels"
T = TypeVar("T")
ChannelFactory = Callable[[ChannelContext], SignalChannel]

OURS: Mapping[str, ChannelFactory] = {FILE: file_channel, KAFKA: kafka_channel}
"""Channels made from options alone. The engine makes the others itself: ``source``, ``inbox``, ``in-process``."""


def known_channels() -> tuple[str, ...]:
    """Names that ``open_channel`` takes, on this machine."""
    return tuple(sorted({*OURS, *(found.name for found in entry_points(group=GROUP))}))


def open_channel(name: str, context: ChannelContext) -> SignalChannel:
    """The channel of this name. Raises ChannelOptionsRefused: no such channel, or it can't be made from its options."""
    if name in OURS:
        return OURS[name](context)
    found = tuple(entry_points(group=GROUP, name=name))
    if not found:
        known = ", ".join(known_channels())
        raise _refused(
            f"is no channel; there are {known}, and those of packages with entry points in {GROUP}", name
        )
    if len(found) > 1:
        values = ", ".join(sorted(point.value for point in found))
        raise _refused(f"is brought by more than one package ({values}); remove all but one", name)
    return ForeignChannel(name, _made(found[0], context))


def _made(point: EntryPoint, context: ChannelContext) -> SignalChannel:
    try:
        channel: SignalChannel = point.load()(context)
    except ChannelOptionsRefused:
        raise
    except Exception as error:  # a stranger's code: what it raises is reported as its own
        raise _refused(
            f"could not be made by {point.value}: {type(error).__name__}: {error}", point.name
        ) from error
    return channel


def _refused(message: str, name: str) -> ChannelOptionsRefused:
    return ChannelOptionsRefused((OptionProblem(OPTION, message, name),))


class ForeignChannel:
    """Another's channel, held to the port: nothing it raises reaches the engine."""

    def __init__(self, name: str, channel: SignalChannel) -> None:
        self.name = name
        self._channel = channel
        self._trouble: str | None = None

    def poll(self) -> list[Received]:
        """What it gives; nothing where it fails."""
        return self._held("poll", self._channel.poll, [])

    def ack(self, *names: str) -> None:
        """Passed on. Where it fails, the channel shows the signals again, and their ids make that harmless."""
        self._held("ack", lambda: self._channel.ack(*names), None)

    def health(self) -> str | None:
        """What it last raised, or what it says itself."""
        trouble = self._trouble
        return self._held("health", self._channel.health, None) or trouble or self._trouble

    def behind(self) -> bool:
        """What it says, if it says anything of that."""
        channel = self._channel
        return isinstance(channel, DistantChannel) and self._held("behind", channel.behind, False)

    def close(self) -> None:
        """Passed on."""
        self._held("close", self._channel.close, None)

    def _held(self, what: str, call: Callable[[], T], otherwise: T) -> T:
        try:
            result = call()
        except Exception as error:  # noqa: BLE001 -- a stranger's code may raise anything; health reports it
            self._trouble = f"{what} failed: {type(error).__name__}: {error}"
            return otherwise
        if what == "poll":
            self._trouble = None
        return result

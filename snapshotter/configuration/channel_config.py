"""Which signal channels an engine has, free of how it was configured; and the channels made from their options.

``signal.enabled.channels`` names them. Those of ``ALWAYS`` may be named too: every engine has them, and nothing is
opened for them here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from signals.channels.channel import ChannelContext, ChannelOptionsRefused, PositionStore, SignalChannel
from signals.channels.inbox_channel import NAME as INBOX
from signals.channels.plugins import open_channel
from signals.channels.process_channel import NAME as IN_PROCESS
from snapshotter.errors import ConfigurationError, Problem, redact
from snapshotter.state.storage import MemoryStorage

SOURCE = "source"
ALWAYS = (SOURCE, INBOX, IN_PROCESS)


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """``names`` as enabled; ``options`` are all of ``signal.*`` by their full names, and may hold passwords."""

    prefix: str = ""
    names: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


def open_enabled(config: ChannelConfig, store: PositionStore) -> list[SignalChannel]:
    """The channels of a configuration, without those that are always there. Raises ConfigurationError with the problems
    of all of them.
    """
    context = ChannelContext(config.prefix, store, config.options)
    opened: list[SignalChannel] = []
    problems: list[Problem] = []
    for name in config.names:
        if name in ALWAYS:
            continue
        try:
            opened.append(open_channel(name, context))
        except ChannelOptionsRefused as refused:
            problems.extend(problems_of(refused))
    if problems:
        for channel in opened:
            channel.close()
        raise ConfigurationError.of("the options of signal channels", problems)
    return opened


def check_options(config: ChannelConfig) -> None:
    """Whether the channels can be made from their options, before anything that costs time is started: they are made,
    and closed again. Raises ConfigurationError.
    """
    for channel in open_enabled(config, MemoryStorage()):
        channel.close()


def problems_of(refused: ChannelOptionsRefused) -> list[Problem]:
    """A channel's problems as those of a configuration. Channels give only values that may be shown."""
    return [
        Problem(p.option, redact(p.message), None if p.value is None else redact(p.value))
        for p in refused.problems
    ]

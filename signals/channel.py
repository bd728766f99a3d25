"""The port that a signal channel of your own fits, as plug-ins import it: `signals.channels.channel`."""

from signals.channels.channel import (
    ChannelContext,
    ChannelOptionsRefused,
    DistantChannel,
    OptionProblem,
    PositionStore,
    Received,
    SignalChannel,
    SignalsLost,
    received_document,
    received_text,
    signal_document,
)

__all__ = [
    "SignalChannel",
    "DistantChannel",
    "ChannelContext",
    "PositionStore",
    "Received",
    "received_text",
    "received_document",
    "signal_document",
    "SignalsLost",
    "ChannelOptionsRefused",
    "OptionProblem",
]

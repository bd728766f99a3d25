"""Rules between the options of signal channels: which channels there are, and what each of them needs.

Problems are gathered like those of `settings_checks`, so that a file's are reported all at once. What only a channel's
own client can judge is tried by `channel_config.check_options`, before an engine is started.
"""

from __future__ import annotations

from collections.abc import Iterator

from signals.channels.channel import ChannelOptionsRefused
from signals.channels.file_channel import NAME as FILE
from signals.channels.file_channel import OPTION as FILE_OPTION
from signals.channels.kafka_channel import NAME as KAFKA
from signals.channels.kafka_options import CHANNEL, CONSUMER, KafkaSignalOptions
from signals.channels.plugins import GROUP, OURS, known_channels
from snapshotter.configuration.channel_config import ALWAYS, ChannelConfig, problems_of
from snapshotter.configuration.option_groups import SignalOptions
from snapshotter.configuration.option_values import Group
from snapshotter.configuration.options import as_option_text
from snapshotter.configuration.settings_checks import check_channels
from snapshotter.errors import Problem

ENABLED = "signal.enabled.channels"
CUSTOM = "signal.custom."


def check(signal: SignalOptions, prefix: str) -> Iterator[Problem]:
    """The channels that are enabled, and what each needs. ``prefix`` is ``topic.prefix``, which Kafka's defaults are
    made of."""
    instead = "use the command line (execute-snapshot), or ask in the process (Snapshotter.execute_snapshot)"
    yield from check_channels(ENABLED, signal.channels, [*ALWAYS, *known_channels()], GROUP, instead)
    if KAFKA in signal.channels:
        try:
            KafkaSignalOptions.parse(options_of(signal), prefix)
        except ChannelOptionsRefused as refused:
            yield from problems_of(refused)


def warnings(signal: SignalOptions, prefix: str) -> Iterator[str]:
    """What has no effect."""
    if KAFKA in signal.channels:
        for note in KafkaSignalOptions.parse(options_of(signal), prefix).notes:
            yield note.replace(": ", " has no effect here: ", 1)
    given = [
        (f"{CHANNEL}*", KAFKA, bool(signal.kafka)),
        (f"{CONSUMER}*", KAFKA, bool(signal.consumer)),
        (FILE_OPTION, FILE, signal.file != SignalOptions.model_fields["file"].default),
    ]
    for option, channel, is_set in given:
        if is_set and channel not in signal.channels:
            yield f"{option} has no effect: {channel} is not in {ENABLED}"
    if signal.custom and not any(n not in ALWAYS and n not in OURS for n in signal.channels):
        yield f"{CUSTOM}* has no effect: no channel of your own is in {ENABLED}"


def channel_config(signal: SignalOptions, prefix: str) -> ChannelConfig:
    """What the engine needs to open its channels."""
    return ChannelConfig(prefix, signal.channels, options_of(signal))


def options_of(signal: Group) -> dict[str, str]:
    """All of ``signal.*`` by their full names, as a file would have them."""
    options: dict[str, str] = {}
    for attribute, field in type(signal).model_fields.items():
        name, value = field.alias or attribute, getattr(signal, attribute)
        if isinstance(value, dict):
            options |= {f"{name.removesuffix('*')}{rest}": text for rest, text in value.items()}
        elif text := as_option_text(value):
            options[name] = text
    return options

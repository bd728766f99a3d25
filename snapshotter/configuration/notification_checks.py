"""Rules between the options of notifications: which channels there are, and what each of them needs.

Problems are gathered like those of `settings_checks`, so that a file's are reported all at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from signals.notifications.kafka import refused_properties
from snapshotter.configuration.notification_config import BUILT_IN, ENTRY_POINTS, SINK
from snapshotter.configuration.option_groups import NotificationOptions
from snapshotter.configuration.settings_checks import check_channels
from snapshotter.errors import Problem

CHANNELS = "notification.enabled.channels"
TOPIC = "notification.sink.topic.name"
SERVERS = "notification.sink.bootstrap.servers"
_PRODUCER = "notification.producer."


def check(options: NotificationOptions, installed: Collection[str]) -> Iterator[Problem]:
    """The channels that are enabled, and what each needs. ``installed``: names of the custom channels there are."""
    instead = "use log, sink or delta, or listen in the process (Snapshotter.on_notification)"
    yield from check_channels(CHANNELS, options.channels, [*BUILT_IN, *installed], ENTRY_POINTS, instead)
    if SINK in options.channels:
        if not options.topic:
            yield Problem(TOPIC, f"is required with sink in {CHANNELS}")
        if not options.bootstrap_servers:
            yield Problem(SERVERS, f"is required with sink in {CHANNELS} (Kafka Connect knew its brokers)")
    for name, reason in refused_properties(options.producer):
        yield Problem(f"{_PRODUCER}{name}", f"is no property of this client: {reason}")


def warnings(options: NotificationOptions) -> Iterator[str]:
    """What has no effect."""
    if SINK in options.channels:
        return
    for option, value in ((TOPIC, options.topic), (SERVERS, options.bootstrap_servers)):
        if value:
            yield f"{option} has no effect: sink is not in {CHANNELS}"

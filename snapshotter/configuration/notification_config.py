"""Where an engine's notifications go, free of how it was configured: names of channels, and what they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata

from signals.notifications.kafka import KafkaNotificationOptions

LOG = "log"
SINK = "sink"
DELTA = "delta"
JMX = "jmx"
BUILT_IN = (LOG, SINK, DELTA)
ENTRY_POINTS = "snapshotter.notification_channels"
"""The group of entry points that channels of one's own are found by."""


@dataclass(frozen=True, slots=True)
class NotificationConfig:
    """``channels`` are names: built-in ones, or of entry points. ``custom`` are the options that the latter are given.

    ``capacity``: what a channel that does not keep up may have waiting; beyond it the oldest are dropped.
    ``flush_seconds``: how long a clean stop waits for all channels together.
    """

    connector: str = ""
    channels: tuple[str, ...] = ()
    sink: KafkaNotificationOptions | None = None
    custom: Mapping[str, str] = field(default_factory=dict)
    capacity: int = 10_000
    flush_seconds: float = 10.0


def installed() -> tuple[str, ...]:
    """The names of custom channels that are installed."""
    return tuple(sorted(metadata.entry_points(group=ENTRY_POINTS).names))

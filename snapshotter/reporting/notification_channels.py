"""The channels of one engine, made from their names: ``log``, ``sink`` (a Kafka topic), ``delta``, and custom ones.

A channel of your own is an entry point of the group ``snapshotter.notification_channels``: a function or class that
takes the engine's name and the options under ``notification.custom.``, and gives a `NotificationChannel`. Its name
there is its name in ``notification.enabled.channels``.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING

import structlog

from signals.notifications.channel import NotificationChannel
from signals.notifications.kafka import KafkaNotifications
from signals.notifications.notification import Kind, Notification
from snapshotter.configuration.notification_config import DELTA, ENTRY_POINTS, LOG, SINK, NotificationConfig
from snapshotter.errors import ConfigurationError
from snapshotter.reporting.health import Health
from snapshotter.reporting.notification_table import FOLDER, NotificationTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from snapshotter.configuration.engine_config import EngineConfig

_log = structlog.get_logger("snapshotter.notifications")
_BAD_NEWS = (Kind.FAILED.value, Kind.ABORTED.value, Health.BROKEN.upper())


class LogChannel(NotificationChannel):
    """One line of the log each; bad news as warnings."""

    name = LOG

    def send(self, batch: Sequence[Notification]) -> None:
        for notification in batch:
            fields = {
                **notification.additional_data,
                "id": notification.id,
                "aggregate_type": notification.aggregate_type,
                "type": notification.type,
            }
            line = _log.bind(**fields)
            if notification.type in _BAD_NEWS:
                line.warning("notification")
            else:
                line.info("notification")


def open_channels(config: EngineConfig, spark: SparkSession) -> list[NotificationChannel]:
    """The engine's channels, in the order they are named. Raises ConfigurationError where one cannot be made."""
    made: list[NotificationChannel] = []
    try:
        made.extend(_made(name, config, spark) for name in config.notifications.channels)
    except BaseException:
        for channel in made:
            channel.close()
        raise
    return made


def _made(name: str, config: EngineConfig, spark: SparkSession) -> NotificationChannel:
    if name == LOG:
        return LogChannel()
    if name == SINK:
        return _sink(config.notifications)
    if name == DELTA:
        return NotificationTable(spark, f"{config.state_location}/{FOLDER}", config.name)
    return _custom(name, config.name, config.notifications)


def _sink(config: NotificationConfig) -> NotificationChannel:
    assert config.sink is not None
    try:
        return KafkaNotifications(config.sink)
    except ImportError as error:
        raise ConfigurationError(
            "notification.enabled.channels = sink: Kafka's client is not installed",
            "pip install 'snapshotter[kafka]'",
        ) from error
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _custom(name: str, engine: str, config: NotificationConfig) -> NotificationChannel:
    where = f"notification.enabled.channels = {name}"
    found = [point for point in metadata.entry_points(group=ENTRY_POINTS) if point.name == name]
    if not found:
        raise ConfigurationError(
            f"{where}: no installed package has an entry point {name!r} of the group {ENTRY_POINTS}"
        )
    try:
        channel = found[0].load()(engine, dict(config.custom))
    except Exception as error:  # the package's own code
        raise ConfigurationError(
            f"{where}: {found[0].value} failed: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(channel, NotificationChannel):
        raise ConfigurationError(f"{where}: {found[0].value} gave {channel!r}, not a NotificationChannel")
    channel.name = name
    return channel

"""The options of heartbeats."""

from __future__ import annotations

from snapshotter.configuration.option_values import Group, WholeNumber, option


class HeartbeatOptions(Group):
    """What is written although nothing has changed."""

    interval_ms: WholeNumber = option(
        "heartbeat.interval.ms",
        "write the position into the Delta table heartbeats, beside the engine's state, at most this often; 0 is never",
        0,
        ge=0,
    )

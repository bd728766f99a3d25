"""The options of metrics."""

from __future__ import annotations

from snapshotter.configuration.metrics_config import LOCAL
from snapshotter.configuration.option_values import Group, Text, WholeNumber, option


class MetricsOptions(Group):
    """Where a monitoring system finds the engine's figures."""

    port: WholeNumber | None = option(
        "metrics.port",
        "the port of /metrics (for Prometheus), /healthz and /readyz; unset is none of them",
        None,
        ge=1,
        le=65_535,
    )
    host: Text = option(
        "metrics.host",
        "the address that this port is opened on: 0.0.0.0 is all of the machine's; nobody is asked for a token",
        LOCAL,
        min_length=1,
    )
    tags: Text = option("custom.metric.tags", "labels of every metric: k1=v1,k2=v2", "")

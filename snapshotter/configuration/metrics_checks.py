"""Rules of the options of metrics, gathered like those of `settings_checks`."""

from __future__ import annotations

from collections.abc import Iterator

from snapshotter.configuration.metrics_config import LOCAL, tags_of
from snapshotter.configuration.metrics_options import MetricsOptions
from snapshotter.errors import Problem

TAGS = "custom.metric.tags"
PORT = "metrics.port"
HOST = "metrics.host"


def check(options: MetricsOptions) -> Iterator[Problem]:
    """Tags that are none."""
    try:
        tags_of(options.tags)
    except ValueError as error:
        yield Problem(TAGS, str(error), options.tags)


def warnings(options: MetricsOptions) -> Iterator[str]:
    """What has no effect."""
    if options.port is None:
        for option, given in ((HOST, options.host != LOCAL), (TAGS, bool(options.tags))):
            if given:
                yield f"{option} has no effect: {PORT} is not set"

"""The options of the page, and their rules, gathered like those of `settings_checks`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from snapshotter.configuration.metrics_config import LOCAL
from snapshotter.configuration.metrics_options import MetricsOptions
from snapshotter.configuration.option_values import Group, Names, Text, WholeNumber, option
from snapshotter.configuration.page_config import NAMES, PageConfig, is_address
from snapshotter.errors import Problem

PORT, HOST = "engine.http.port", "engine.http.host"
TOKEN = "engine.http.token"
TOKEN_MIN = 16
_TOKEN = re.compile(r"[!-~]+")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class PageOptions(Group):
    """Where a browser finds the engine's page."""

    port: WholeNumber | None = option(
        PORT,
        "the port of the page, which shows the engine and takes signals, and of /metrics, /healthz and /readyz; it may "
        "be that of metrics.port; unset is no page",
        None,
        ge=1,
        le=65_535,
    )
    host: Text = option(
        HOST,
        "the address that this port is opened on: 0.0.0.0 is all of the machine's, and then the token is asked for to "
        "look, too",
        LOCAL,
        min_length=1,
    )
    token: Text | None = option(
        TOKEN,
        f"what the page asks for before it acts, at least {TOKEN_MIN} characters; unset: one is made up, and kept in "
        "the file http-token beside the state",
        None,
        secret=True,
    )
    names: Names = option(
        NAMES,
        "names of hosts under which browsers reach the page, beside those of this machine itself and engine.http.host",
        (),
    )

    def config(self) -> PageConfig:
        """What the engine needs of them."""
        return PageConfig(self.host, self.port, self.token, self.names)


def check(options: PageOptions, metrics: MetricsOptions | None) -> Iterator[Problem]:
    """A token that is none, names that no browser can say, and a port that is the metrics' as well, at another address.
    ``metrics`` are the options of those, as far as they could be read."""
    if options.token is not None and (len(options.token) < TOKEN_MIN or not _TOKEN.fullmatch(options.token)):
        yield Problem(TOKEN, f"must be at least {TOKEN_MIN} characters without blanks, all of them ASCII")
    for name in options.names:
        if not _NAME.fullmatch(name) and not is_address(name.strip("[]")):
            yield Problem(NAMES, "must list names of hosts, without ports, paths and patterns", name)
    if metrics is None or options.port is None:
        return
    if options.port == metrics.port and options.host != metrics.host:
        yield Problem(
            HOST, f"must be that of metrics.host ({metrics.host}) where both have one port", options.host
        )


def warnings(options: PageOptions) -> Iterator[str]:
    """What has no effect."""
    if options.port is not None:
        return
    given = {HOST: options.host != LOCAL, TOKEN: options.token is not None, NAMES: bool(options.names)}
    for name in (name for name, there in given.items() if there):
        yield f"{name} has no effect: {PORT} is not set"

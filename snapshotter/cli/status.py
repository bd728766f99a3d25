"""``snapshotter status``: what the engine last said of itself, once, or for as long as somebody watches."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from signals.texts import ago
from snapshotter.cli.common import AsJson, ConfigFile, load_settings, open_state, require_status, say
from snapshotter.reporting.health import check as health_check
from snapshotter.reporting.health import silent_seconds
from snapshotter.reporting.status import Status

if TYPE_CHECKING:
    from snapshotter.configuration.settings import Settings
    from snapshotter.state.storage import Storage

_WATCH_SECONDS = 1.0

Every = Annotated[
    bool, typer.Option("--all", help="All requests, all collections of each, and each table's files.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Stay, and show it as it changes, until Ctrl+C.")]
Check = Annotated[
    bool,
    typer.Option(
        "--check", help="One line, and an exit code: 0 Active, 1 Paused or stopped, 3 Broken or lost."
    ),
]


def status(
    config: ConfigFile,
    as_json: AsJson = False,
    every: Every = False,
    watch: Watch = False,
    check: Check = False,
) -> None:
    """Show state, lag, and the progress of every snapshot request."""
    if watch and (as_json or check or every):
        raise typer.BadParameter("it goes with none of --json, --check, --all", param_hint="--watch")
    settings = load_settings(config)
    state = open_state(settings)
    if watch:
        _watch(state, settings)
        return
    found, now = require_status(state, settings), datetime.now(UTC)
    if as_json:
        typer.echo(found.to_json(indent=2))
        if (silent := silent_seconds(found, now)) is not None:
            where = f"process {found.pid} on {found.host}"
            say(f"warning: the engine is lost: it has said nothing for {ago(silent)} ({where})")
    elif check:
        from snapshotter.reporting.status_screen import state_line

        typer.echo(state_line(found, now))
    else:
        _show(found, now, every=every)
    if check:
        raise typer.Exit(health_check(found, now))


def _show(found: Status, now: datetime, *, every: bool) -> None:
    from rich.console import Console

    from snapshotter.reporting.progress_view import texts
    from snapshotter.reporting.status_screen import screen

    console = Console(file=sys.stdout)
    for text in texts(screen(found, console.width, now, every=every)):
        console.print(text, crop=False)


def _watch(state: Storage, settings: Settings) -> None:
    """Until it is interrupted: a screen that is redrawn, or a line now and then where nobody could see that."""
    from snapshotter.reporting.views import open_view

    try:
        with open_view(sys.stdout) as view:
            while True:
                view.update(require_status(state, settings))
                time.sleep(_WATCH_SECONDS)
    except KeyboardInterrupt:
        return

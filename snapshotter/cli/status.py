"""``snapshotter status``: what the engine last said of itself."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import typer

from snapshotter.cli.common import AsJson, ConfigFile, load_settings, open_state, require_status, say
from snapshotter.reporting.status import EngineState, Status

STALE_SECONDS = 30.0


def status(config: ConfigFile, as_json: AsJson = False) -> None:
    """Show state, lag, and the progress of every snapshot request."""
    from rich.console import Console

    from snapshotter.reporting.progress_view import render

    settings = load_settings(config)
    found = require_status(open_state(settings), settings)
    if as_json:
        typer.echo(found.to_json(indent=2))
    else:
        Console(file=sys.stdout).print(render(found))
    silent = silent_seconds(found, datetime.now(UTC))
    if silent is not None:
        say(f"warning: the engine has said nothing for {silent:.0f} s; it may be gone ({_where(found)})")


def silent_seconds(found: Status, now: datetime) -> float | None:
    """For how long an engine that says it runs has said nothing, if that is too long."""
    waits = found.restarts is not None and found.restarts.next_at is not None
    lives = waits or found.state in (EngineState.RUNNING, EngineState.STOPPING)
    if not lives or found.updated_at is None:
        return None
    age = (now - found.updated_at).total_seconds()
    return age if age > STALE_SECONDS else None


def _where(found: Status) -> str:
    return f"process {found.pid} on {found.host}"

"""``snapshotter pause-stream``, ``resume-stream`` and ``restart``: commands to an engine as a whole.

They go into the inbox beside the engine's state, never into MongoDB: an engine that is broken because MongoDB is away
must hear them, too. Where no engine runs, they wait there for its next start.
"""

from __future__ import annotations

import uuid

import typer

from signals.actions import PauseStream, Restart, ResumeStream, StreamAction
from signals.channels.inbox_channel import InboxChannel
from snapshotter.cli.common import ConfigFile, load_settings, open_state, say, set_up_logging
from snapshotter.cli.signal_commands import SignalId


def pause_stream(ctx: typer.Context, config: ConfigFile, signal_id: SignalId = None) -> None:
    """Land nothing more until resume-stream, also after a restart. Signals are still taken."""
    _send(ctx, config, PauseStream(signal_id or uuid.uuid4().hex))


def resume_stream(ctx: typer.Context, config: ConfigFile, signal_id: SignalId = None) -> None:
    """Go on where pause-stream stopped."""
    _send(ctx, config, ResumeStream(signal_id or uuid.uuid4().hex))


def restart(ctx: typer.Context, config: ConfigFile, signal_id: SignalId = None) -> None:
    """End the run under way and begin another, in the same process; or do not wait for an automatic restart."""
    _send(ctx, config, Restart(signal_id or uuid.uuid4().hex))


def _send(ctx: typer.Context, config: ConfigFile, action: StreamAction) -> None:
    set_up_logging(ctx)
    settings = load_settings(config)
    InboxChannel(open_state(settings)).send(action)
    say(f"signal {action.id} is in the inbox of the engine {settings.name!r}")
    typer.echo(action.id)

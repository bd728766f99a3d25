"""``snapshotter pause-stream``, ``resume-stream`` and ``restart``: commands to an engine as a whole.

They go into the inbox beside the engine's state, never into MongoDB: an engine that is broken because MongoDB is away
must hear them, too. Where no engine runs, they wait there for its next start.
"""

from __future__ import annotations

import uuid

import typer

from signals.actions import TYPE_NAMES, PauseStream, Restart, ResumeStream, StreamAction
from snapshotter.cli.common import ConfigFile, load_settings, open_state, read_status, set_up_logging
from snapshotter.cli.names import check_id
from snapshotter.cli.signal_commands import SignalId, put_into_inbox
from snapshotter.cli.waiting import Answers, Sent, Timeout, Wait
from snapshotter.reporting.status import CommandReport, EngineState, Status


def pause_stream(
    ctx: typer.Context,
    config: ConfigFile,
    signal_id: SignalId = None,
    wait: Wait = False,
    timeout: Timeout = None,
) -> None:
    """Land nothing more until resume-stream, also after a restart. Signals are still taken."""
    _send(ctx, config, PauseStream, signal_id, wait=wait, timeout=timeout)


def resume_stream(
    ctx: typer.Context,
    config: ConfigFile,
    signal_id: SignalId = None,
    wait: Wait = False,
    timeout: Timeout = None,
) -> None:
    """Go on where pause-stream stopped."""
    _send(ctx, config, ResumeStream, signal_id, wait=wait, timeout=timeout)


def restart(
    ctx: typer.Context,
    config: ConfigFile,
    signal_id: SignalId = None,
    wait: Wait = False,
    timeout: Timeout = None,
) -> None:
    """End the run under way and begin another, in the same process; or do not wait for an automatic restart."""
    _send(ctx, config, Restart, signal_id, wait=wait, timeout=timeout)


def _send(
    ctx: typer.Context,
    config: ConfigFile,
    action: type[StreamAction],
    given: str | None,
    *,
    wait: bool,
    timeout: float | None,
) -> None:
    set_up_logging(ctx)
    settings = load_settings(config)
    state, made = open_state(settings), action(given or uuid.uuid4().hex)
    before = read_status(state)
    run = before.run_id if before is not None else None
    if check_id(state, made):
        typer.echo(made.id)
        return
    sent = Sent(Answers.from_now_on(state, made.id), TYPE_NAMES[action], given)
    sent.say(put_into_inbox(settings, state, made))
    if not wait:
        return

    def shows(_: CommandReport, status: Status) -> bool:
        match made:
            case PauseStream() | ResumeStream():
                return status.stream_paused is isinstance(made, PauseStream)
            case Restart():
                return status.state is EngineState.RUNNING and status.run_id not in (None, run)

    sent.await_effect(state, shows, timeout)

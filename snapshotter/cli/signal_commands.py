"""``snapshotter execute-snapshot``: ask a running engine to read collections again, and watch it do so.

The signal goes into the signal collection where there is one that the engine reads, and otherwise (also
before an engine's very first start) into the inbox folder beside its state. Either way it waits there if the
engine is not running.
"""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from signals.actions import Action, SnapshotType
from signals.parsing import parse_signal
from snapshotter.cli.common import ConfigFile, load_settings, open_state, read_status, say, set_up_logging
from snapshotter.errors import ConfigurationError, DefiniteError
from snapshotter.status import EngineState, RequestState, Status

if TYPE_CHECKING:
    from snapshotter.settings import Settings
    from snapshotter.storage import Storage

POLL_SECONDS = 0.5


def execute_snapshot(
    ctx: typer.Context,
    config: ConfigFile,
    collections: Annotated[
        list[str], typer.Argument(help="database.collection, or regular expressions for such names.")
    ],
    query: Annotated[
        str | None,
        typer.Option("--filter", help="Read only documents that match this query.", metavar="JSON"),
    ] = None,
    kind: Annotated[str, typer.Option("--type", help="How it runs.")] = SnapshotType.INCREMENTAL.value,
    wait: Annotated[
        bool, typer.Option("--wait", help="Show progress, and end when the snapshot does.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option(help="With --wait: give up waiting after so many seconds.", min=0)
    ] = None,
    request_id: Annotated[
        str | None, typer.Option("--id", help="Names the request; a known id is carried out once.")
    ] = None,
) -> None:
    """Read collections again, while changes keep streaming."""
    set_up_logging(ctx)
    settings = load_settings(config)
    action = build_action(collections, query, kind, request_id or uuid.uuid4().hex)
    state = open_state(settings)
    where = send(settings, state, action)
    say(f"signal {action.id} is in {where}")
    if not wait:
        typer.echo(action.id)
        return
    _wait(state, action.id, timeout)
    typer.echo(action.id)


def build_action(collections: list[str], query: str | None, kind: str, request_id: str) -> Action:
    """The signal that the arguments mean, checked as any is. Raises SignalError, ConfigurationError."""
    data: dict[str, object] = {"data-collections": collections, "type": kind}
    if query is not None:
        data["additional-conditions"] = [{"data-collection": name, "filter": query} for name in collections]
    action = parse_signal(request_id, "execute-snapshot", data)
    if kind.strip().lower() == SnapshotType.BLOCKING:
        raise ConfigurationError("--type blocking is not supported yet", "leave --type out: incremental")
    return action


def send(settings: Settings, state: Storage, action: Action) -> str:
    """Send the signal, and say where it is now."""
    from snapshotter.progress_store import ProgressStore

    if settings.signals_reach_stream and settings.signal_collection:
        from signals.source_channel import SourceChannel
        from streaming.mongo import check_deployment, connect

        client = connect(settings.connection_uri())
        check_deployment(client)
        # The stream of an engine begins with its first batch, and never shows what was inserted before.
        if ProgressStore(state).newest() is not None:
            SourceChannel(client, settings.signal_collection).send(action)
            return f"the collection {settings.signal_collection}"
    from signals.inbox_channel import InboxChannel

    InboxChannel(state).send(action)
    return f"the inbox of the engine {settings.name!r}"


def _wait(state: Storage, request_id: str, timeout: float | None) -> None:
    """Show the request's progress until it has ended. Raises DefiniteError where it failed or time is up."""
    from snapshotter.progress_view import open_view

    deadline = None if timeout is None else time.monotonic() + timeout
    told: EngineState | str | None = None
    with open_view() as view:
        while True:
            status = read_status(state)
            request = status.request(request_id) if status else None
            if status is not None and request is not None:
                view.update(only(status, request_id))
                if request.state.ended:
                    break
            state_now = status.state if status is not None else "absent"
            if state_now != EngineState.RUNNING and state_now != told:
                view.message(f"the engine is {state_now}; the signal waits until it runs (snapshotter run)")
            told = state_now
            if deadline is not None and time.monotonic() > deadline:
                raise DefiniteError(
                    f"request {request_id} has not ended after {timeout:g} s (the engine is {state_now})",
                    "it goes on by itself: look at it with snapshotter status",
                )
            time.sleep(POLL_SECONDS)
    if request.state is RequestState.FAILED:
        raise DefiniteError(f"request {request_id} failed: {request.error or 'the engine gives no reason'}")


def only(status: Status, request_id: str) -> Status:
    """The status with no other request in it."""
    return status.model_copy(update={"requests": tuple(r for r in status.requests if r.id == request_id)})

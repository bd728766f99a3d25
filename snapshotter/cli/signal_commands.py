"""``snapshotter execute-snapshot``: ask a running engine to read collections again, and watch it do so;
``stop-snapshot``, ``pause-snapshot``, ``resume-snapshot``: commands about such requests; and ``log``.

The signal goes into the signal collection where there is one that the engine reads, and otherwise (also
before an engine's very first start) into the inbox folder beside its state. Either way it waits there if the
engine is not running.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from signals.actions import Action, ExecuteSnapshot, SnapshotType, Write
from signals.errors import MalformedSignal
from signals.parsing.signal import parse_signal
from signals.parsing.values import load_json
from snapshotter.cli.common import ConfigFile, load_settings, open_state, read_status, say, set_up_logging
from snapshotter.cli.dry_run import await_answer, forget_answer, text_of
from snapshotter.errors import ConfigurationError, DefiniteError, cause_of
from snapshotter.reporting.status import EngineState, RequestState, Status

if TYPE_CHECKING:
    from snapshotter.configuration.settings import Settings
    from snapshotter.state.storage import Storage

NOTHING_SENT = ("nothing was sent", "correct the list, or send it with --force")
POLL_SECONDS = 0.5
LOOK_MS = 5_000
SignalId = Annotated[
    str | None, typer.Option("--id", help="Names the signal; a known id is carried out once.")
]

Requests = Annotated[
    list[str] | None,
    typer.Option("--request", help="Only the request of this id; may be given again.", metavar="ID"),
]
Force = Annotated[
    bool, typer.Option("--force", help="Send it with names of collections that there are not, too.")
]

Minimum = Annotated[str | None, typer.Option("--min", help="Read only ids from this one on.", metavar="JSON")]
Maximum = Annotated[str | None, typer.Option("--max", help="Read only ids up to this one.", metavar="JSON")]


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
    keys: Annotated[
        list[str] | None,
        typer.Option("--key", help="Read only this id; may be given again.", metavar="JSON"),
    ] = None,
    minimum: Minimum = None,
    maximum: Maximum = None,
    reconcile: Annotated[
        bool, typer.Option("--reconcile", help="Delete rows that are missing at source.")
    ] = False,
    write: Annotated[
        str, typer.Option("--write", help="Write what is changed, or all.")
    ] = Write.CHANGED.value,
    priority: Annotated[int, typer.Option("--priority", help="Higher comes first.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be read, and read nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run: print JSON.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Show progress, and end when the snapshot does.")
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(help="With --wait or --dry-run: give up waiting after so many seconds.", min=0),
    ] = None,
    request_id: Annotated[
        str | None, typer.Option("--id", help="Names the request; a known id is carried out once.")
    ] = None,
    force: Force = False,
) -> None:
    """Read collections again, while changes keep streaming."""
    set_up_logging(ctx)
    settings = load_settings(config)
    parts = Parts(tuple(keys or ()), minimum, maximum, reconcile, write, priority, dry_run)
    action = build_action(collections, query, kind, request_id or uuid.uuid4().hex, parts)
    if not force:
        check_names(settings, action.data_collections, NOTHING_SENT)
    state = open_state(settings)
    if dry_run:
        forget_answer(state, action.id)
    say(f"signal {action.id} is in {send(settings, state, action)}")
    if dry_run:
        answer = await_answer(state, action.id, timeout)
        typer.echo(answer.to_json(indent=2) if as_json else text_of(answer))
        return
    if wait:
        wait_for(state, action.id, timeout)
    typer.echo(action.id)


def stop_snapshot(
    ctx: typer.Context,
    config: ConfigFile,
    collections: Annotated[
        list[str] | None, typer.Argument(help="Of these collections only; without any, of all of them.")
    ] = None,
    requests: Requests = None,
    signal_id: SignalId = None,
    force: Force = False,
) -> None:
    """Give up snapshots, at once: running, paused or queued. What has landed stays."""
    data = {"data-collections": collections} if collections else {}
    checked = () if force else tuple(collections or ())
    _decide(ctx, config, "stop-snapshot", data | _named(requests), signal_id, checked)


def pause_snapshot(
    ctx: typer.Context, config: ConfigFile, requests: Requests = None, signal_id: SignalId = None
) -> None:
    """Begin no more windows for the snapshots that there are, also after a restart. Changes go on streaming."""
    _decide(ctx, config, "pause-snapshot", _named(requests), signal_id)


def resume_snapshot(
    ctx: typer.Context, config: ConfigFile, requests: Requests = None, signal_id: SignalId = None
) -> None:
    """Go on with the snapshots that are paused; one that is named also goes on where it failed."""
    _decide(ctx, config, "resume-snapshot", _named(requests), signal_id)


def log(
    ctx: typer.Context,
    config: ConfigFile,
    message: Annotated[str, typer.Argument(help="{} in it stands for the engine's position in the stream.")],
    signal_id: SignalId = None,
) -> None:
    """Write a message to the engine's log: to see that signals reach it, and where it is."""
    _decide(ctx, config, "log", {"message": message}, signal_id)


def _named(requests: list[str] | None) -> dict[str, list[str]]:
    return {"requests": requests} if requests else {}


def _decide(
    ctx: typer.Context,
    config: Path,
    kind: str,
    data: Mapping[str, object],
    signal_id: str | None,
    checked: Sequence[str] = (),
) -> None:
    """Send a signal; names of collections among its data that are to be ``checked`` must be of what is captured, or was
    when a request began."""
    set_up_logging(ctx)
    settings = load_settings(config)
    action, state = parse_signal(signal_id or uuid.uuid4().hex, kind, data), open_state(settings)
    if checked:
        status = read_status(state)
        asked = {part.name for request in (status.requests if status else ()) for part in request.collections}
        check_names(settings, checked, NOTHING_SENT, asked)
    say(f"signal {action.id} is in {send(settings, state, action)}")
    typer.echo(action.id)


@dataclass(frozen=True, slots=True)
class Parts:
    """What narrows a snapshot, and how it runs; ids as JSON text."""

    keys: tuple[str, ...] = ()
    minimum: str | None = None
    maximum: str | None = None
    reconcile: bool = False
    write: str = Write.CHANGED.value
    priority: int = 0
    dry_run: bool = False

    def fields(self) -> dict[str, object]:
        """As a signal has them. Raises MalformedSignal."""
        data: dict[str, object] = {
            "reconcile": self.reconcile,
            "write": self.write,
            "priority": self.priority,
            "dry-run": self.dry_run,
        }
        if self.keys:
            data["keys"] = [_id("--key", text) for text in self.keys]
        ends = {"min": self.minimum, "max": self.maximum}
        if given := {end: _id(f"--{end}", text) for end, text in ends.items() if text is not None}:
            data["range"] = given
        return data


def _id(name: str, text: str) -> object:
    try:
        return load_json(text, name)
    except MalformedSignal as error:
        raise MalformedSignal(
            f'{error}. An id is JSON: 17, \'"A-4"\' (a string, in double quotes), \'{{"$oid": "…"}}\''
        ) from error


def build_action(
    collections: list[str], query: str | None, kind: str, request_id: str, parts: Parts | None = None
) -> ExecuteSnapshot:
    """The signal that the arguments mean, checked as any is. ``query`` is a filter for each of ``collections``,
    ``kind`` incremental or blocking; ``request_id`` becomes the request's. Raises SignalError."""
    data: dict[str, object] = {"data-collections": collections, "type": kind, **(parts or Parts()).fields()}
    if query is not None:
        data["additional-conditions"] = [{"data-collection": name, "filter": query} for name in collections]
    action = parse_signal(request_id, "execute-snapshot", data)
    assert isinstance(action, ExecuteSnapshot)
    return action


def check_names(
    settings: Settings, patterns: Sequence[str], wrong: tuple[str, str], also: Collection[str] = ()
) -> None:
    """Check the names in ``patterns`` where they are given: the engine would pass over a wrong one, and do the rest.
    ``also`` are names that are good although nothing of that name is captured now. Raises ConfigurationError, which
    says what did not happen and what to do (``wrong``); without a connection, or for a user who may not see what is
    captured, it only warns that nobody looked."""
    from pymongo.errors import PyMongoError

    from snapshotter.engine.privileges import lacking, needed_to_read
    from snapshotter.reading.catalogue import RequestRefused, captured_collections, refuse_wrong_names
    from streaming.mongo.deployment import check_deployment, new_client
    from streaming.mongo.errors import AccessDeniedError, TransientError
    from streaming.scope.scope import CaptureScope

    scope = CaptureScope.parse(settings.source_options())
    wait = min(settings.mongodb.server_selection_timeout_ms, LOOK_MS)
    with new_client(settings.connection_uri(), serverSelectionTimeoutMS=wait) as client:
        try:
            check_deployment(client)
            user, missing = lacking(client, needed_to_read(scope, stream=False))
            if missing:
                why = "; ".join(map(str, missing))
                say(f"warning: nobody looked whether there are such collections: {user} lacks {why}")
                return
            found = captured_collections(client, scope.captures)
            names = {str(namespace) for namespace in found} - {settings.signal_collection}
        except (PyMongoError, TransientError, AccessDeniedError) as error:
            say(f"warning: nobody looked whether there are such collections: {cause_of(error)[:200]}")
            return
    try:
        refuse_wrong_names(patterns, sorted({*names, *also}))
    except RequestRefused as error:
        raise ConfigurationError(f"{error}; {wrong[0]}", wrong[1]) from error


def send(settings: Settings, state: Storage, action: Action) -> str:
    """Send the signal; returns, in words, where it waits: in the signal collection where the engine reads that, else in
    the inbox of its ``state``."""
    from snapshotter.state.progress_store import ProgressStore

    if settings.signals_reach_stream and settings.signal_collection:
        from signals.channels.source_channel import SourceChannel
        from streaming.mongo.deployment import check_deployment, connect

        client = connect(settings.connection_uri())
        check_deployment(client)
        # The stream of an engine begins with its first batch, and never shows what was inserted before.
        if ProgressStore(state).newest() is not None:
            SourceChannel(client, settings.signal_collection).send(action)
            return f"the collection {settings.signal_collection}"
    from signals.channels.inbox_channel import InboxChannel

    InboxChannel(state).send(action)
    return f"the inbox of the engine {settings.name!r}"


def wait_for(state: Storage, request_id: str, timeout: float | None) -> None:
    """Show the request's progress until it has ended. Raises DefiniteError where it failed or time is up."""
    from snapshotter.reporting.views import open_view

    deadline = None if timeout is None else time.monotonic() + timeout
    shown: EngineState | str | None = None
    with open_view() as view:
        while True:
            status = read_status(state)
            request = status.request(request_id) if status else None
            if status is not None and request is not None:
                view.update(only(status, request_id))
                if request.state.ended:
                    break
            state_now = status.state if status is not None else "absent"
            if state_now != EngineState.RUNNING and state_now != shown:
                view.message(f"the engine is {state_now}; the signal waits until it runs (snapshotter run)")
            shown = state_now
            if deadline is not None and time.monotonic() > deadline:
                raise DefiniteError(
                    f"request {request_id} has not ended after {timeout:g} s (the engine is {state_now})",
                    "it goes on by itself: look at it with snapshotter status",
                )
            time.sleep(POLL_SECONDS)
    if request.state is RequestState.STOPPED:
        raise DefiniteError(f"request {request_id} was stopped", "what has landed stays; ask for it again")
    if request.state is RequestState.FAILED:
        raise DefiniteError(f"request {request_id} failed: {request.error or 'the engine gives no reason'}")


def only(status: Status, request_id: str) -> Status:
    """The status with no other request in it."""
    return status.model_copy(update={"requests": tuple(r for r in status.requests if r.id == request_id)})

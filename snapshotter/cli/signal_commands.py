"""``snapshotter execute-snapshot``: ask a running engine to read collections again, and watch it do so;
``stop-snapshot``, ``pause-snapshot``, ``resume-snapshot``: commands about such requests; and ``log``.

An id that was made up here, for whoever gave none, is printed where scripts read it, and is in no message.

The signal goes into the signal collection where there is one that the engine reads, and otherwise (also
before an engine's very first start) into the inbox folder beside its state. Either way it waits there if the
engine is not running.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from signals.actions import Action, ExecuteSnapshot, SnapshotType, Write
from signals.errors import MalformedSignal, unnamed
from signals.parsing.signal import parse_signal
from signals.parsing.values import load_json
from snapshotter.cli.common import ConfigFile, load_settings, open_state, read_status, say, set_up_logging
from snapshotter.cli.completion import collection_names, request_ids
from snapshotter.cli.dry_run import await_answer, forget_answer
from snapshotter.cli.names import NOTHING_SENT, check_id, check_names, check_requests
from snapshotter.cli.waiting import (
    Answers,
    Effect,
    Sent,
    Timeout,
    Wait,
    all_ended,
    at_once,
    called,
    in_history,
    wait_for,
)

if TYPE_CHECKING:
    from snapshotter.configuration.settings import Settings
    from snapshotter.state.storage import Storage

__all__ = [
    "execute_snapshot",
    "stop_snapshot",
    "pause_snapshot",
    "resume_snapshot",
    "log",
    "SignalId",
    "put_into_inbox",
]

SignalId = Annotated[
    str | None, typer.Option("--id", help="Names the signal; a known id is carried out once.")
]

Requests = Annotated[
    list[str] | None,
    typer.Option(
        "--request",
        help="Only the request of this id; may be given again.",
        metavar="ID",
        autocompletion=request_ids,
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Send it with names of collections or requests that there are not, too."),
]

Minimum = Annotated[str | None, typer.Option("--min", help="Read only ids from this one on.", metavar="JSON")]
Reconcile = Annotated[bool, typer.Option("--reconcile", help="Delete rows that are missing at source.")]
Maximum = Annotated[str | None, typer.Option("--max", help="Read only ids up to this one.", metavar="JSON")]


def execute_snapshot(
    ctx: typer.Context,
    config: ConfigFile,
    collections: Annotated[
        list[str],
        typer.Argument(
            help="database.collection, or regular expressions for such names.",
            autocompletion=collection_names,
        ),
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
    reconcile: Reconcile = False,
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
    settings, signal_id = load_settings(config), request_id or uuid.uuid4().hex
    parts = Parts(tuple(keys or ()), minimum, maximum, reconcile, write, priority, dry_run)
    with unnamed(None if request_id else signal_id):
        action = build_action(collections, query, kind, signal_id, parts)
    if not force:
        check_names(settings, action.data_collections, NOTHING_SENT, keys=action.keys)
    state = open_state(settings)
    if dry_run:
        _ask(settings, state, action, request_id, timeout, as_json=as_json)
        return
    answers = Answers.from_now_on(state, action.id)
    if not check_id(state, action):
        say(f"{called('the request', request_id)} is in {send(settings, state, action)}")
    typer.echo(action.id)
    if wait:
        wait_for(state, answers, timeout, in_history(settings))


def _ask(
    settings: Settings,
    state: Storage,
    action: ExecuteSnapshot,
    given: str | None,
    timeout: float | None,
    *,
    as_json: bool,
) -> None:
    """Send a dry run, wait for the answer, and print it."""
    forget_answer(state, action.id)
    check_id(state, action)
    answers = Answers.from_now_on(state, action.id)
    say(f"{called('the dry run', given)} is in {send(settings, state, action)}")
    answer = await_answer(state, answers, timeout, f"dry run {given}" if given else "the dry run")
    typer.echo(answer.to_json(indent=2) if as_json else str(answer))


def stop_snapshot(
    ctx: typer.Context,
    config: ConfigFile,
    collections: Annotated[
        list[str] | None,
        typer.Argument(
            help="Of these collections only; without any, of all of them.", autocompletion=collection_names
        ),
    ] = None,
    requests: Requests = None,
    signal_id: SignalId = None,
    force: Force = False,
    wait: Wait = False,
    timeout: Timeout = None,
) -> None:
    """Give up snapshots, at once: running, paused or queued. What has landed stays."""
    data = {"data-collections": collections} if collections else {}
    effect = at_once if collections else all_ended(requests or ())
    command = Command("stop-snapshot", data | _named(requests), signal_id, effect)
    _decide(ctx, config, command, force=force, wait=wait, timeout=timeout)


def pause_snapshot(
    ctx: typer.Context,
    config: ConfigFile,
    requests: Requests = None,
    signal_id: SignalId = None,
    force: Force = False,
    wait: Wait = False,
    timeout: Timeout = None,
) -> None:
    """Begin no more windows for the snapshots that there are, also after a restart. Changes go on streaming."""
    command = Command("pause-snapshot", _named(requests), signal_id)
    _decide(ctx, config, command, force=force, wait=wait, timeout=timeout)


def resume_snapshot(
    ctx: typer.Context,
    config: ConfigFile,
    requests: Requests = None,
    signal_id: SignalId = None,
    force: Force = False,
    wait: Wait = False,
    timeout: Timeout = None,
) -> None:
    """Go on with the snapshots that are paused; one that is named also goes on where it failed."""
    command = Command("resume-snapshot", _named(requests), signal_id)
    _decide(ctx, config, command, force=force, wait=wait, timeout=timeout)


def log(
    ctx: typer.Context,
    config: ConfigFile,
    message: Annotated[str, typer.Argument(help="{} in it stands for the engine's position in the stream.")],
    signal_id: SignalId = None,
    wait: Wait = False,
    timeout: Timeout = None,
) -> None:
    """Write a message to the engine's log: to see that signals reach it, and where it is."""
    _decide(ctx, config, Command("log", {"message": message}, signal_id), wait=wait, timeout=timeout)


def _named(requests: list[str] | None) -> dict[str, list[str]]:
    return {"requests": requests} if requests else {}


@dataclass(frozen=True, slots=True)
class Command:
    """A signal that is no request: its type, its fields, the id that it was given, and what shows that it is carried
    out."""

    kind: str
    data: Mapping[str, object]
    given: str | None = None
    effect: Effect = at_once


def _decide(
    ctx: typer.Context,
    config: Path,
    command: Command,
    *,
    force: bool = False,
    wait: bool = False,
    timeout: float | None = None,
) -> None:
    """Send a command, and with ``wait`` see it carried out. Unless ``force`` says so, collections that it names must be
    of what is captured, or was when a request began; and requests must be known."""
    set_up_logging(ctx)
    settings, signal_id = load_settings(config), command.given or uuid.uuid4().hex
    with unnamed(None if command.given else signal_id):
        action = parse_signal(signal_id, command.kind, command.data)
    state = open_state(settings)
    if not force:
        _check(settings, state, command.data)
    if check_id(state, action):
        typer.echo(action.id)
        return
    sent = Sent(Answers.from_now_on(state, action.id), command.kind, command.given)
    sent.say(send(settings, state, action))
    if wait:
        sent.await_effect(state, command.effect, timeout)


def _check(settings: Settings, state: Storage, data: Mapping[str, Sequence[str] | object]) -> None:
    collections, requests = data.get("data-collections"), data.get("requests")
    if isinstance(collections, list):
        status = read_status(state)
        asked = {part.name for request in (status.requests if status else ()) for part in request.collections}
        check_names(settings, collections, NOTHING_SENT, asked)
    if isinstance(requests, list):
        check_requests(settings, state, requests)


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
    return put_into_inbox(settings, state, action)


def put_into_inbox(settings: Settings, state: Storage, action: Action) -> str:
    """Leave the signal in the inbox of the engine's ``state``; returns, in words, where that is."""
    from signals.channels.inbox_channel import InboxChannel

    InboxChannel(state).send(action)
    return f"the inbox of the engine {settings.name!r}"

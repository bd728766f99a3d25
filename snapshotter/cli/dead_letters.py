"""``snapshotter dead-letters``: what could not be processed, listed, shown, and read again.

They take no lock: the engine may run, and appends to the table what it meets. To replay is to ask the engine to read
the documents again by their ids, as `execute-snapshot` does.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snapshotter.cli.common import AsJson, ConfigFile, load_settings, open_state, say, set_up_logging
from snapshotter.cli.completion import collection_names
from snapshotter.cli.names import check_names
from snapshotter.errors import DefiniteError

if TYPE_CHECKING:
    from snapshotter.configuration.settings import Settings
    from snapshotter.landing.buried import BuriedLetters, Letter

app = typer.Typer(no_args_is_help=True, help="What could not be processed: list, show, replay.")
_NONE_OF_IT = ("and it has no dead letter", "correct --collection")
_KEYS_MAX = 1_000
_ERROR_SHOWN = 160

Ids = Annotated[list[str] | None, typer.Argument(help="Ids of dead letters, or how they begin; none is all.")]
Collections = Annotated[
    list[str] | None,
    typer.Option(
        "--collection",
        help="Only of this collection; may be given again.",
        metavar="DB.COLL",
        autocompletion=collection_names,
    ),
]


@app.command("list")
def list_(
    ctx: typer.Context,
    config: ConfigFile,
    collections: Collections = None,
    everything: Annotated[bool, typer.Option("--all", help="Those that were replayed, too.")] = False,
    most: Annotated[int, typer.Option("--limit", help="At most so many, the newest first.", min=1)] = 100,
    as_json: AsJson = False,
) -> None:
    """List what could not be processed, the newest first."""
    set_up_logging(ctx)
    settings = load_settings(config, warn=False)
    with _letters(settings) as letters:
        found = letters.find(collections=collections or (), waiting=not everything, most=most)
    if collections and not found:
        check_names(settings, collections, _NONE_OF_IT)
    if as_json:
        typer.echo(json.dumps([letter.to_json() for letter in found], indent=2, ensure_ascii=False))
        return
    for letter in found:
        typer.echo(_line(letter))
    say(
        f"{len(found)} dead letter{'' if len(found) == 1 else 's'}" + ("" if everything else ", not replayed")
    )


@app.command("show")
def show(
    ctx: typer.Context,
    config: ConfigFile,
    letter_id: Annotated[str, typer.Argument(help="Its id, or how that begins.", metavar="ID")],
    as_json: AsJson = False,
) -> None:
    """Show one dead letter with its bytes, as Extended JSON where they can be decoded."""
    set_up_logging(ctx)
    with _letters(load_settings(config, warn=False)) as letters:
        found = letters.find([letter_id], whole=True, most=2)
    if len(found) != 1:
        what = "no dead letter" if not found else "more than one dead letter"
        raise DefiniteError(
            f"{what} has an id that begins with {letter_id!r}", "see them with dead-letters list --all"
        )
    (letter,) = found
    shown = letter.to_json() | _content(letter)
    if as_json:
        typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))
        return
    for name, value in shown.items():
        if value is not None:
            typer.echo(f"{name:<14} {_moment(value) if name in ('ts_ms', 'replayed_at') else value}")


@app.command("replay")
def replay(
    ctx: typer.Context,
    config: ConfigFile,
    ids: Ids = None,
    collections: Collections = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the engine has read them.")] = False,
    timeout: Annotated[float | None, typer.Option(help="Give up waiting after so many seconds.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read the documents of dead letters again by their ids, tell changelogs and topics what is stored of them, and
    mark the letters as replayed. What fails again becomes another dead letter, or stops the engine, as the option
    says."""
    set_up_logging(ctx)
    settings = load_settings(config)
    with _letters(settings) as letters:
        found = letters.find(ids or (), collections or (), waiting=not ids)
        if collections and not found:
            check_names(settings, collections, _NONE_OF_IT)
        able = [letter for letter in found if letter.collection and letter.document_id]
        told = _to_tell(settings, able)
        requests = [_send(settings, letters, some, told) for some in _by_request(able)]
    if as_json:
        counts = {"replayed": len(able), "left": len(found) - len(able), "told": len(told)}
        typer.echo(json.dumps({"requests": requests, **counts}))
    elif not found:
        typer.echo("nothing to replay")
    for letter in found:
        if letter not in able:
            where = letter.collection or "COLLECTION"
            say(
                f"{letter.id}: the id of its document is not known; read its collection again:"
                f" `snapshotter execute-snapshot -c FILE {where}`"
            )
    if not as_json:
        for request in requests:
            typer.echo(request)
    if wait:
        from snapshotter.cli.waiting import Answers, in_history, wait_for

        for request in requests:
            wait_for(open_state(settings), Answers(request), timeout, in_history(settings))


def _to_tell(settings: Settings, able: Sequence[Letter]) -> frozenset[str]:
    """The ids of those letters of which changelogs and topics are to be told, where there are any; why of others they
    are not is said."""
    from snapshotter.landing.targets.replays import why_not

    if not settings.events.targets:
        return frozenset()
    told = set()
    for letter in able:
        if (why := why_not(letter)) is None:
            told.add(letter.id)
        else:
            say(f"{letter.id}: changelogs and topics are not told of it: {why}")
    return frozenset(told)


def _send(settings: Settings, letters: BuriedLetters, some: Sequence[Letter], told: Collection[str]) -> str:
    """Ask the engine to read the documents of ``some`` of these ``letters``, which are of one collection; the request's
    id. They are marked once the signal is durable: marked before, a crash would forget them. Of those in ``told``
    targets of events are to be told."""
    from snapshotter.cli.signal_commands import Parts, build_action, send

    request = f"replay-{uuid.uuid4().hex[:12]}"
    keys = tuple(dict.fromkeys(letter.document_id for letter in some if letter.document_id))
    named = f'"{some[0].collection}"'
    action = build_action([named], None, "incremental", request, Parts(keys=keys))
    say(
        f"{len(some)} of {some[0].collection}: signal {request} is in {send(settings, open_state(settings), action)}"
    )
    letters.mark([letter.id for letter in some], request, int(time.time() * 1_000), told)
    return request


def _by_request(letters: Sequence[Letter]) -> Iterator[Sequence[Letter]]:
    """Letters of one collection, so many at a time as one signal asks for."""
    for collection in sorted({letter.collection or "" for letter in letters}):
        mine = [letter for letter in letters if letter.collection == collection]
        for begin in range(0, len(mine), _KEYS_MAX):
            yield mine[begin : begin + _KEYS_MAX]


@contextmanager
def _letters(settings: Settings) -> Iterator[BuriedLetters]:
    from snapshotter.engine.assembly import spark_session
    from snapshotter.landing.buried import BuriedLetters
    from snapshotter.landing.targets.dead_letters import FOLDER

    spark = spark_session(settings, brief=True)
    try:
        yield BuriedLetters(spark, f"{settings.state_location()}/{FOLDER}")
    finally:
        spark.stop()


def _line(letter: Letter) -> str:
    error = letter.error if len(letter.error) <= _ERROR_SHOWN else f"{letter.error[: _ERROR_SHOWN - 1]}…"
    replayed = " replayed" if letter.replayed_at is not None else ""
    named = letter.document_id or "an unknown id"
    return f"{letter.id} {_moment(letter.ts_ms)} {letter.stage}{replayed} {letter.collection or '?'} {named}: {error}"


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def _content(letter: Letter) -> dict[str, Any]:
    """Its bytes: as Extended JSON, or in base64 where nobody can decode them; that they are withheld is told by their
    absence beside a size."""
    if letter.bytes is None:
        return {"withheld": True} if letter.size else {}
    from bson import decode, json_util
    from bson.codec_options import CodecOptions, DatetimeConversion
    from bson.errors import BSONError

    options: CodecOptions[dict[str, Any]] = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)
    try:
        document = decode(bytes(letter.bytes), options)
        text = json_util.dumps(document, json_options=json_util.CANONICAL_JSON_OPTIONS, ensure_ascii=False)
    except (BSONError, ValueError, RecursionError):
        return {"base64": base64.b64encode(letter.bytes).decode()}
    return {"document": text}

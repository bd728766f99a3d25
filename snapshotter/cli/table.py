"""``snapshotter table``: what a table's own log says of its versions, for whoever wants to read an older one."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from signals.texts import moment
from snapshotter.cli.common import AsJson, ConfigFile, load_settings
from snapshotter.cli.completion import collection_names
from snapshotter.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshotter.landing.versions import Version
    from snapshotter.state.storage import Storage
    from streaming.namespaces import Namespace
    from streaming.positions import ClusterTime

app = typer.Typer(no_args_is_help=True, help="Versions of a table: when they landed, and what they reach.")
_HEADINGS = "version", "landed at (UTC)", "position", "that is", "what"
_WIDTHS = 7, 19, 15, 8


@app.command("show")
def show(
    config: ConfigFile,
    collection: Annotated[str, typer.Argument(help="database.collection", autocompletion=collection_names)],
    position: Annotated[
        str | None,
        typer.Option(
            "--position",
            help="Only the version as of a position: seconds.increment, a _cluster_time, or an ISO 8601 time at the "
            "source.",
        ),
    ] = None,
    landed: Annotated[
        str | None, typer.Option("--landed", help="Only the version that readers saw at this ISO 8601 time.")
    ] = None,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="So many versions, the newest.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show versions of a table: when each landed, and the position that its rows reach."""
    if position is not None and landed is not None:
        raise typer.BadParameter("it does not go with --position", param_hint="--landed")
    as_of = None if position is None else _position(position)
    seen_at = None if landed is None else _moment(landed)
    settings = load_settings(config, warn=False)
    from snapshotter.landing.versions import LOG, landed_by, reaching, versions
    from streaming.delta.table_paths import state_path, under
    from streaming.namespaces import Namespace

    try:
        namespace = Namespace.parse(collection)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    path = under(settings.warehouse(), state_path(namespace))
    storage = _storage(path, settings.spark)
    names = storage.list_names(LOG)
    found = versions(names, lambda name: storage.read_text(f"{LOG}/{name}"), namespace)
    if not names:
        raise ConfigurationError(
            f"there is no table of {collection} at {path}",
            "look for the name: snapshotter status --all lists collections, and delta.warehouse is where tables lie",
        )
    later = None
    if as_of is not None:
        one, later = reaching(found, as_of)
        chosen = [_there(one, f"reaches no further than {position}", later)]
    elif seen_at is not None:
        chosen = [_there(landed_by(found, seen_at), f"had landed by {moment(seen_at)} UTC", None)]
    else:
        chosen = list(islice(found, count))
    if as_json:
        whole = {"collection": collection, "path": path, "versions": [one.to_json() for one in chosen]}
        typer.echo(json.dumps(whole, indent=2, ensure_ascii=False))
        return
    for line in _lines(namespace, path, chosen):
        typer.echo(line)
    if as_of is not None and later is not None:
        typer.echo(f"The next one, version {later.number}, has changes up to {later.position}.")


def _there(found: Version | None, what: str, later: Version | None) -> Version:
    if found is not None:
        return found
    oldest = f"; the oldest landing that its log knows, version {later.number}, is newer" if later else ""
    raise ConfigurationError(f"no version that the table's log knows {what}{oldest}", "choose a later one")


def _storage(path: str, spark: dict[str, str]) -> Storage:
    from snapshotter.state.storages import needs_spark, storage_for

    if not needs_spark(path):
        return storage_for(path)
    from snapshotter.spark_session import spark_builder

    return storage_for(path, spark_builder("snapshotter-table", spark, "local[1]", brief=True))


def _position(text: str) -> ClusterTime:
    from snapshotter.position.starts import parse_start
    from streaming.positions import ClusterTime

    try:
        start = parse_start(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--position") from error
    if start.time is None:
        raise typer.BadParameter("must be a time in the stream", param_hint="--position")
    # A time without an increment is a second: all of it counts.
    return start.time if start.time.i else ClusterTime(start.time.t, (1 << 32) - 1)


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no ISO 8601 time", param_hint="--landed") from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _lines(namespace: Namespace, path: str, chosen: list[Version]) -> Iterator[str]:
    yield f"{namespace} at {path}"
    yield _row(_HEADINGS)
    for one in chosen:
        yield _row((str(one.number), moment(one.at), *_what(one)))


def _row(cells: tuple[str, ...]) -> str:
    number, *rest = cells
    texts = [text.ljust(width) for text, width in zip(rest, (*_WIDTHS[1:], 0), strict=False)]
    return "  ".join([number.rjust(_WIDTHS[0]), *texts]).rstrip()


def _what(one: Version) -> tuple[str, ...]:
    """Of a landing its position, the time of that (of another day with the date), and its rows."""
    from snapshotter.landing.versions import time_of

    landed = one.landed
    if landed is None or one.position is None:
        return (one.operation,)
    counts = ("+", landed.inserted), ("~", landed.updated), ("-", landed.deleted)
    done = " ".join(f"{sign}{count:,}" for sign, count in counts if count) or "nothing new"
    what = f"{done}, loading" if one.loading else done
    return str(one.position), moment(time_of(one.position), one.at), what

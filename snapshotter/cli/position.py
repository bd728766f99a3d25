"""``snapshotter position``: the engine's position in the change stream, looked at, set, exported and imported."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snapshotter.cli.common import AsJson, ConfigFile, load_settings, open_state, say, set_up_logging
from snapshotter.errors import ConfigurationError, DefiniteError

if TYPE_CHECKING:
    from snapshotter.engine.positions import Shown
    from snapshotter.position.runway import Oplog

app = typer.Typer(
    no_args_is_help=True, help="The position in the change stream: show, reset, export, import."
)
Heal = Annotated[
    bool,
    typer.Option("--heal", help="Read all that is captured again, with reconcile, from the new position on."),
]


@app.command("show")
def show(config: ConfigFile, as_json: AsJson = False) -> None:
    """Show the position, its age, how far the oplog reaches, and how long it still holds the position."""
    settings = load_settings(config, warn=False)
    from snapshotter.engine import assembly, positions

    shown = positions.show(assembly.engine_config(settings), open_state(settings))
    if as_json:
        typer.echo(json.dumps(_as_json(settings.name, shown), indent=2))
        return
    for line in _lines(settings.name, shown):
        typer.echo(line)


@app.command("reset")
def reset(
    ctx: typer.Context,
    config: ConfigFile,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            help="now, oldest, an ISO 8601 time, a 64-bit BSON timestamp, seconds.increment, a resume token, or a "
            "file of position export.",
        ),
    ],
    heal: Heal = False,
) -> None:
    """Set where the next start of the engine begins. The engine must not run."""
    set_up_logging(ctx)
    settings = load_settings(config)
    from snapshotter.engine import assembly, positions
    from snapshotter.position.own_file import read_start

    try:
        start = read_start(to)
    except ValueError as error:
        raise ConfigurationError(f"--to {to}: {error}") from error
    moved = positions.move(assembly.engine_config(settings), open_state(settings), start, heal=heal)
    for line in positions.told(moved):
        typer.echo(line)


@app.command("export")
def export(
    config: ConfigFile,
    file: Annotated[Path | None, typer.Argument(help="Where to; standard output if it is left out.")] = None,
) -> None:
    """Write the position to a file, for reset --to FILE or for import, here or for another engine."""
    settings = load_settings(config, warn=False)
    from snapshotter.engine import positions
    from snapshotter.position import own_file

    position, _ = positions.known_position(open_state(settings))
    if position is None:
        raise DefiniteError(
            f"the engine {settings.name!r} has no position yet",
            "start it with snapshotter run, or import one",
        )
    text = own_file.export(settings.name, position)
    if file is None:
        typer.echo(text, nl=False)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error}") from error
    say(f"the position {positions.in_words(position)} is in {file}")


@app.command("import")
def import_(
    ctx: typer.Context,
    config: ConfigFile,
    file: Annotated[
        Path,
        typer.Argument(
            help="What position export wrote; stored offsets of Debezium or of the MongoDB Kafka connector "
            "(offset.dat, JSON, CSV); or the checkpoint folder of a streaming query."
        ),
    ],
    heal: Heal = False,
    entry: Annotated[
        str | None, typer.Option(help="Of several positions in the file the one whose key holds this text.")
    ] = None,
) -> None:
    """Begin the next start where another engine or product has stopped. The engine must not run."""
    set_up_logging(ctx)
    settings = load_settings(config)
    from snapshotter.engine import assembly, positions
    from snapshotter.position.offset_files import read_stored

    try:
        stored = read_stored(file, (settings.name, settings.topic_prefix), entry)
    except ValueError as error:
        raise ConfigurationError(f"{file}: {error}") from error
    config_of, state = assembly.engine_config(settings), open_state(settings)
    moved = positions.move(config_of, state, stored.start, heal=heal, cause=positions.IMPORTED)
    typer.echo(f"a position of {stored.product}")
    for line in [*positions.told(moved), *stored.notes]:
        typer.echo(line)


def _as_json(name: str, shown: Shown) -> dict[str, Any]:
    from snapshotter.engine.positions import iso

    position, oplog = shown.position, shown.oplog
    return {
        "name": name,
        "position": position and position.to_json(),
        "time": position and iso(position),
        "next_start": shown.next_start,
        "age_seconds": position and _age(shown),
        "runway_hours": None if shown.runway_hours is None else round(shown.runway_hours, 4),
        "oplog": oplog and _oplog_json(oplog),
        "oplog_error": shown.why,
    }


def _oplog_json(oplog: Oplog) -> dict[str, Any]:
    from snapshotter.engine.positions import iso

    return {
        "oldest": oplog.oldest.to_json(),
        "oldest_time": iso(oplog.oldest),
        "newest": oplog.newest.to_json(),
        "hours": round(oplog.hours, 2),
        "used_bytes": oplog.used,
        "capacity_bytes": oplog.capacity,
        "retention_hours": oplog.retention_hours,
        "bytes_per_second": oplog.bytes_per_second,
    }


def _lines(name: str, shown: Shown) -> list[str]:
    from snapshotter.engine.positions import in_words, iso

    if shown.position is None:
        lines = [f"position  none: the engine {name!r} has not begun"]
    else:
        note = ", set for the next start" if shown.next_start else ""
        lines = [f"position  {in_words(shown.position)}{note}", f"age       {_age(shown):.0f} s"]
    if shown.oplog is None:
        return [*lines, f"oplog     not known: {shown.why}"]
    lines.append(f"oplog     reaches back to {iso(shown.oplog.oldest)}, {shown.oplog.hours:.1f} h")
    if shown.runway_hours is None and shown.position is not None:
        lines.append("runway    not known yet: the oplog is too young to tell its growth")
    elif shown.runway_hours is not None:
        held = (
            f"{shown.runway_hours:.1f} h"
            if shown.runway_hours
            else "lost: the oplog no longer holds the position"
        )
        lines.append(f"runway    {held}")
    return lines


def _age(shown: Shown) -> float:
    """By the source's clock, where that is known."""
    assert shown.position is not None, "asked where there is one"
    now = time.time() if shown.oplog is None else shown.oplog.newest.t
    return max(0.0, round(now - shown.position.t, 1))

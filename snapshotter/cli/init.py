"""``snapshotter init``: a first configuration, from a few flags or answers and a look at the databases.

Where standard input is no terminal nobody is asked: what is missing then is an error that names the flag. Nothing is
written before MongoDB has answered and all that was said holds.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer

from snapshotter.cli.common import say, set_up_quietly
from snapshotter.cli.doctor import show
from snapshotter.errors import EXIT_DEFINITE, EXIT_OK, ConfigurationError

if TYPE_CHECKING:
    from pymongo import MongoClient

    from snapshotter.configuration.settings import Settings

WAIT_MS = 5_000
_SHOWN = 50
_ADDRESS, _WAREHOUSE = "mongodb.connection.string", "delta.warehouse"


def init(
    ctx: typer.Context,
    config: Annotated[
        Path,
        typer.Option(
            "--config", "-c", help="The file to write: .toml, .properties or .json.", metavar="FILE"
        ),
    ] = Path("snapshotter.toml"),
    address: Annotated[
        str | None,
        typer.Option(
            help="Where MongoDB is: mongodb://…, or ${env:NAME} for what stands in a variable.",
            metavar="ADDRESS",
        ),
    ] = None,
    collections: Annotated[
        list[str] | None,
        typer.Option(
            "--collection",
            help="What to capture: database.collection, or a regular expression; may be given again.",
            metavar="DB.COLL",
        ),
    ] = None,
    warehouse: Annotated[
        str | None, typer.Option(help="The folder or URI of all tables and state.", metavar="PLACE")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The engine's name; the file's, if left out.")] = None,
    signals: Annotated[
        str | None, typer.Option(help="A collection that signals are inserted into.", metavar="DB.COLL")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if there is one.")] = False,
) -> None:
    """Write a first configuration, look at what it is for, and say what to run next."""
    set_up_quietly(ctx)
    _check_file(config, force=force)
    asks = sys.stdin.isatty()
    if not asks:
        _refuse_missing({"--address": address, "--collection": collections, "--warehouse": warehouse})
    given = address or typer.prompt("Address of MongoDB (mongodb://…, or ${env:NAME})", err=True)
    begun = {"name": name or config.stem, _ADDRESS: str(given)}
    with _reached(begun) as client:
        said = Said(tuple(collections or ()), warehouse, signals, asks)
        options = {**begun, **_chosen(client, said)}
        settings = _settings(options)
        _refuse_unmatched(client, settings)
    from snapshotter.doctor import report
    from snapshotter.doctor.examination import examine

    _write(config, options, force=force)
    findings = examine(settings)
    show(findings, str(config))
    bad = report.exit_code(findings) == EXIT_DEFINITE
    raise typer.Exit(EXIT_DEFINITE if bad else EXIT_OK)


@dataclass(frozen=True, slots=True)
class Said:
    """What was given on the command line; ``asks``: the rest is asked for."""

    collections: tuple[str, ...]
    warehouse: str | None
    signals: str | None
    asks: bool


def _chosen(client: MongoClient[dict[str, Any]], said: Said) -> dict[str, str]:
    """The options that depend on what there is."""
    from snapshotter.doctor.first_configuration import entry

    there = _there(client)
    entries = [entry(text, there) for text in said.collections or _asked_for(there)]
    warehouse = said.warehouse or typer.prompt("Folder or URI of the tables", default="warehouse", err=True)
    signals = said.signals
    if said.asks and signals is None:
        signals = typer.prompt(
            "Collection for signals (empty: none)", default="", show_default=False, err=True
        )
    return {
        **_narrowed(client, entries, there),
        "collection.include.list": ",".join(entries),
        **({"signal.data.collection": signals} if signals else {}),
        _WAREHOUSE: str(warehouse),
    }


def _check_file(config: Path, *, force: bool) -> None:
    from snapshotter.doctor.first_configuration import SUFFIXES

    if config.suffix not in SUFFIXES:
        raise typer.BadParameter(
            f"{config} is of no form that can be written: its name must end in {', '.join(SUFFIXES)}",
            param_hint="--config",
        )
    if config.exists() and not force:
        raise ConfigurationError(
            f"{config} is there already, and nothing was written",
            f"look at it with `snapshotter config -c {shlex.quote(str(config))}`, name another file with --config, or "
            "overwrite it with --force",
        )


def _refuse_missing(given: Mapping[str, object]) -> None:
    missing = [flag for flag, value in given.items() if not value]
    if missing:
        raise typer.BadParameter(
            "nobody can be asked, since standard input is no terminal: give it on the command line",
            param_hint=", ".join(missing),
        )


def _settings(options: Mapping[str, str]) -> Settings:
    from snapshotter.configuration.settings import Settings

    return Settings.from_options(options, source="what was asked for")


def _reached(options: Mapping[str, str]) -> MongoClient[dict[str, Any]]:
    """A client whose server has answered. Raises what is wrong with the address, or with what answers there."""
    from streaming.mongo.deployment import check_deployment, new_client

    settings = _settings({**options, _WAREHOUSE: "warehouse"})
    client = new_client(settings.connection_uri(), serverSelectionTimeoutMS=WAIT_MS)
    try:
        check_deployment(client)
    except BaseException:
        client.close()
        raise
    return client


def _there(client: MongoClient[dict[str, Any]]) -> list[str]:
    from snapshotter.reading.catalogue import collections_there

    return sorted(str(namespace) for namespace in collections_there(client))


def _asked_for(there: Sequence[str]) -> list[str]:
    """The answer of somebody who has seen the names."""
    for shown in there[:_SHOWN]:
        say(f"  {shown}")
    if len(there) > _SHOWN:
        say(f"  and {len(there) - _SHOWN} more")
    answer = str(
        typer.prompt(
            "Collections to capture (names, or regular expressions; commas between)", default=".*", err=True
        )
    )
    return [text.strip() for text in answer.split(",") if text.strip()]


def _narrowed(
    client: MongoClient[dict[str, Any]], entries: Sequence[str], there: Sequence[str]
) -> dict[str, str]:
    """A scope of one database, for a user who may not follow a whole deployment but may follow that."""
    from snapshotter.engine.privileges import lacking, needed_to_read
    from streaming.scope.scope import CaptureScope

    chosen = CaptureScope.parse({"collection.include.list": ",".join(entries)}).collections
    databases = {name.partition(".")[0] for name in there if chosen is not None and chosen.admits(name)}
    if len(databases) != 1 or not lacking(client, needed_to_read(CaptureScope()))[1]:
        return {}
    narrow = {"capture.scope": "database", "capture.target": databases.pop()}
    return {} if lacking(client, needed_to_read(CaptureScope.parse(narrow)))[1] else narrow


def _refuse_unmatched(client: MongoClient[dict[str, Any]], settings: Settings) -> None:
    from snapshotter.reading.name_checks import Readings
    from streaming.scope.scope import CaptureScope

    readings = Readings(client, CaptureScope.parse(settings.source_options()))
    readings.look()
    if readings.warnings:
        raise ConfigurationError("; ".join(readings.warnings), "correct --collection")


def _write(config: Path, options: Mapping[str, str], *, force: bool) -> None:
    from snapshotter.doctor.first_configuration import text_of, write

    private = urlsplit(options[_ADDRESS]).password is not None
    try:
        write(config, text_of(options, config.suffix), replace=force, private=private)
    except OSError as error:
        raise ConfigurationError(f"{config} cannot be written: {error.strerror or error}") from error
    say(f"{config} is written")
    if private:
        say("it holds a password, and its owner alone can read it; --address '${env:NAME}' leaves that out")

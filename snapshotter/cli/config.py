"""``snapshotter config``: the settings in force, masked, and the catalogue of options.

Where a list names what is captured MongoDB is asked whether there is such a thing. A server that is away is said, and
no fault of the configuration.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snapshotter.cli.common import AsJson, load_settings, say, set_up_quietly
from snapshotter.errors import cause_of

if TYPE_CHECKING:
    from snapshotter.configuration.settings import Settings

LOOK_MS = 2_000


def config(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", "-c", help="The configuration.", envvar="SNAPSHOTTER_CONFIG", metavar="FILE"
        ),
    ] = None,
    as_json: AsJson = False,
    options: Annotated[
        bool, typer.Option("--options", help="List all options instead, with defaults.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="With --options: the page of the manual.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask MongoDB whether what lists name is there.")
    ] = False,
) -> None:
    """Check a configuration, and print the settings in force with secrets masked."""
    if options and markdown:
        from snapshotter.configuration.options_page import page

        typer.echo(page(), nl=False)
        return
    if options:
        _print_catalogue(as_json)
        return
    if config is None:
        raise typer.BadParameter("a file is needed (or --options)", param_hint="--config")
    set_up_quietly(ctx)
    settings = load_settings(config)
    if not offline:
        _look_at_names(settings)
    values = settings.masked()
    if as_json:
        typer.echo(json.dumps(values, indent=2, ensure_ascii=False))
        return
    for name, value in values.items():
        typer.echo(f"{name} = {value}" if value else f"# {name} is not set")


def _look_at_names(settings: Settings) -> None:
    """Warn of entries of include lists that match nothing, if MongoDB answers."""
    capture, initial = settings.capture, settings.snapshot.include
    if not (capture.database_include or capture.collection_include or initial):
        return
    from pymongo.errors import PyMongoError

    from snapshotter.engine.assembly import engine_config
    from snapshotter.engine.catalogue_watch import readings_of
    from streaming.mongo.deployment import check_deployment, new_client
    from streaming.mongo.errors import SourceError

    wait = min(settings.mongodb.server_selection_timeout_ms, LOOK_MS)
    with new_client(settings.connection_uri(), serverSelectionTimeoutMS=wait) as client:
        readings = readings_of(client, engine_config(settings))
        try:
            check_deployment(client)
            readings.look()
        except (PyMongoError, SourceError) as error:
            say(f"note: nobody looked whether lists match what there is: {cause_of(error)[:200]}")
    for warning in readings.warnings:
        say(f"warning: {warning}")


def _print_catalogue(as_json: bool) -> None:
    from snapshotter.configuration.options import catalogue

    rows = [
        {"name": o.name, "default": o.default, "status": o.status.value, "required": o.required, "doc": o.doc}
        for o in catalogue().values()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    for row in rows:
        default = (
            "required" if row["required"] else f"default {row['default']}" if row["default"] else "no default"
        )
        typer.echo(f"{row['name']}  [{row['status']}, {default}]  {row['doc']}")

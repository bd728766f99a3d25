"""``snapshotter config``: the settings in force, masked, and the catalogue of options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from snapshotter.cli.common import AsJson, load_settings


def config(
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
    values = load_settings(config).masked()
    if as_json:
        typer.echo(json.dumps(values, indent=2, ensure_ascii=False))
        return
    for name, value in values.items():
        typer.echo(f"{name} = {value}" if value else f"# {name} is not set")


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

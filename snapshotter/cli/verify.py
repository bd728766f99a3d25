"""``snapshotter verify``: collections and tables compared at one moment."""

from __future__ import annotations

from typing import Annotated

import typer

from snapshotter.cli.common import AsJson, ConfigFile, load_settings, set_up_logging


def verify(
    ctx: typer.Context,
    config: ConfigFile,
    collections: Annotated[
        list[str] | None, typer.Argument(help="database.collection; none is all captured ones.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare tables with their collections, document by document. Exit 0: equal, 1: different."""
    set_up_logging(ctx)
    settings = load_settings(config)
    from snapshotter.verify_runner import verify_all

    raise typer.Exit(verify_all(settings, collections or [], as_json=as_json))

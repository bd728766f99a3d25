"""``snapshotter run``: the engine, until it is stopped or (``--once``) caught up."""

from __future__ import annotations

from typing import Annotated

import typer

from snapshotter.cli.common import ConfigFile, load_settings, set_up_logging


def run(
    ctx: typer.Context,
    config: ConfigFile,
    once: Annotated[
        bool, typer.Option("--once", help="Catch up, finish the queued snapshots, and end.")
    ] = False,
) -> None:
    """Keep the tables equal to the collections."""
    settings = load_settings(config, warn=False)
    set_up_logging(ctx)
    from snapshotter.engine.engine_runner import run as run_engine
    from snapshotter.reporting.progress_view import open_view

    with open_view() as view:
        code = run_engine(settings, once=once, view=view)
    raise typer.Exit(code)

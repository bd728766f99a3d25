"""``snapshotter run``: the engine, until it is stopped or (``--once``) caught up."""

from __future__ import annotations

from typing import Annotated

import typer

from snapshotter.cli.common import ConfigFile, LogOptions, checked_level, load_settings, set_up_logging
from snapshotter.log import LogFormat


def run(
    ctx: typer.Context,
    config: ConfigFile,
    once: Annotated[
        bool, typer.Option("--once", help="Catch up, finish the queued snapshots, and end.")
    ] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[
        LogFormat | None, typer.Option(help="How log lines look; json: every line is one object.")
    ] = None,
) -> None:
    """Keep the tables equal to the collections."""
    before = ctx.find_object(LogOptions) or LogOptions()
    options = LogOptions(checked_level(log_level) or before.level, log_format or before.format)
    ctx.obj = ctx.find_root().obj = options
    set_up_logging(ctx)
    settings = load_settings(config, warn=False)
    from snapshotter.engine.engine_runner import run as run_engine
    from snapshotter.reporting.log_view import LogView
    from snapshotter.reporting.progress_view import open_view

    with LogView() if options.format is LogFormat.JSON else open_view() as view:
        code = run_engine(settings, once=once, view=view)
    raise typer.Exit(code)

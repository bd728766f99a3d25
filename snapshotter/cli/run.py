"""``snapshotter run``: the engine, until it is stopped or (``--once``) caught up."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from snapshotter import log_file
from snapshotter.cli.common import (
    ConfigFile,
    LogFile,
    LogOptions,
    checked_level,
    load_settings,
    set_up_logging,
)
from snapshotter.engine.interrupts import NOT_STARTED, told_of_signals
from snapshotter.errors import EXIT_OK
from snapshotter.log import LogFormat

if TYPE_CHECKING:
    from snapshotter.engine.engine_runner import End
    from snapshotter.reporting.views import View


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
    file: LogFile = None,
) -> None:
    """Keep the tables equal to the collections."""
    before = ctx.find_object(LogOptions) or LogOptions()
    options = LogOptions(
        checked_level(log_level) or before.level, log_format or before.format, file or before.file
    )
    ctx.obj = ctx.find_root().obj = options
    set_up_logging(ctx)
    from snapshotter.reporting.log_view import LogView
    from snapshotter.reporting.views import open_view

    view: View = LogView() if options.format is LogFormat.JSON else open_view()
    end: End | None = None
    try:
        with view, told_of_signals(_interrupted):
            view.doing(f"reading {config}")
            end = _run(ctx, config, once, view)
    except SystemExit:
        if end is None:
            view.announce(NOT_STARTED)
        raise
    if end.words:
        view.announce(end.words)
    if end.at_once:
        _leave(end.code)
    raise typer.Exit(end.code)


def _interrupted() -> NoReturn:
    """Before there is an engine, nothing has to be ended."""
    raise SystemExit(EXIT_OK)


def _run(ctx: typer.Context, config: Path, once: bool, view: View) -> End:
    settings = load_settings(config, warn=False)
    set_up_logging(ctx, file=log_file.opened())
    view.doing("loading the engine")
    from snapshotter.engine.engine_runner import run as run_engine

    return run_engine(settings, once=once, view=view)


def _leave(code: int) -> NoReturn:
    """End this process without a word to its threads."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

"""``snapshotter demo``: a MongoDB, a shop, writers, an engine, a signal, the proof at the end, and its replay."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from snapshotter import log_file
from snapshotter.cli.common import set_up_logging
from snapshotter.errors import EXIT_DIFFERENT, EXIT_OK


def demo(
    ctx: typer.Context,
    docs: Annotated[int, typer.Option(help="Orders in the shop.", min=1_000)] = 200_000,
    rate: Annotated[int, typer.Option(help="Changes a second that the writers make.", min=1)] = 500,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the tables where they are.")] = False,
    show: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open",
            help="Open the replay in a browser; unless said, where there is a terminal and a screen.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show the whole on this machine, with nothing set up beforehand."""
    if log_file.chosen() is None:
        log_file.choose(log_file.default_place("demo"), instead=log_file.last_resort("demo"))
    set_up_logging(ctx, file=log_file.opened())
    from rich.console import Console

    from snapshotter.demo import summary
    from snapshotter.demo.demo import run_demo
    from snapshotter.reporting.views import open_view

    with open_view() as view:
        found = run_demo(docs, view, rate=rate, keep=keep)
    summary.show(found, Console(file=sys.stderr))
    if has_screen() if show is None else show:
        open_replay(found.replay)
    raise typer.Exit(EXIT_OK if found.equal else EXIT_DIFFERENT)


def has_screen() -> bool:
    """Whether somebody sits at this machine, as far as one can tell: a browser of a terminal's own would take that."""
    drawn = sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return sys.stderr.isatty() and drawn


def open_replay(path: Path) -> None:
    """In whichever browser there is; the address has been said for where there is none."""
    webbrowser.open(path.as_uri())

"""``snapshotter demo``: a MongoDB, a shop, writers, an engine, a signal, and the proof at the end."""

from __future__ import annotations

from typing import Annotated

import typer

from snapshotter import log_file
from snapshotter.cli.common import set_up_logging


def demo(
    ctx: typer.Context,
    docs: Annotated[int, typer.Option(help="Orders in the shop.", min=1_000)] = 200_000,
    rate: Annotated[int, typer.Option(help="Changes a second that the writers make.", min=1)] = 500,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the tables where they are.")] = False,
) -> None:
    """Show the whole on this machine, with nothing set up beforehand."""
    if log_file.chosen() is None:
        log_file.choose(log_file.default_place("demo"), instead=log_file.last_resort("demo"))
    set_up_logging(ctx, file=log_file.opened())
    from snapshotter.demo.demo import run_demo
    from snapshotter.reporting.views import open_view

    with open_view() as view:
        code = run_demo(docs, view, rate=rate, keep=keep)
    raise typer.Exit(code)

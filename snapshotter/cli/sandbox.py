"""``snapshotter sandbox``: something to try the product on, until Ctrl+C."""

from __future__ import annotations

import shlex
import signal
import threading
from typing import Annotated

import typer

from snapshotter.cli.common import say
from snapshotter.engine.interrupts import WAIT_SECONDS


def sandbox(
    docs: Annotated[int, typer.Option(help="Orders in the shop.", min=1)] = 2_000,
    kafka: Annotated[bool, typer.Option("--kafka", help="A Kafka broker, too.")] = False,
) -> None:
    """A MongoDB with a small shop, until Ctrl+C; prints what to export where you work with it."""
    from snapshotter.demo.sandbox import sandbox as running

    stop = threading.Event()
    say("starting…")
    with running(docs, kafka=kafka) as variables:
        for name, value in variables.items():
            typer.echo(f"export {name}={shlex.quote(value)}")
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        say(
            "Paste these lines where you work with it. Ctrl+C here ends what was started, and all that is in it."
        )
        while not stop.wait(WAIT_SECONDS):
            pass  # a signal may have reached another thread: this one comes back to be told of it

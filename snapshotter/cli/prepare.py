"""``snapshotter prepare``: jars and Java's archive of classes, before the first start."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from snapshotter.cli.common import load_settings, say, set_up_quietly

_CONFIG = typer.Option(
    "--config",
    "-c",
    help="A configuration whose spark.* settings count, and which may need Spark's Kafka connector.",
    envvar="SNAPSHOTTER_CONFIG",
    metavar="FILE",
)


def prepare(
    ctx: typer.Context,
    config: Annotated[Path | None, _CONFIG] = None,
    kafka: Annotated[bool, typer.Option("--kafka", help="Bring Spark's Kafka connector, too.")] = False,
) -> None:
    """Once for a machine or an image: bring Delta's jars, and make Java's archive of classes. Every start is quicker
    then, and needs no network."""
    set_up_quietly(ctx)
    settings = None if config is None else load_settings(config)
    from snapshotter.class_archive import place
    from snapshotter.preparation import prepare as prepared

    archive, began = place(), time.monotonic()
    say("starting Spark once, which takes up to a minute…")
    given = {} if settings is None else settings.spark
    prepared(archive, given, kafka=kafka or (settings is not None and settings.events.topics))
    size = archive.stat().st_size >> 20
    typer.echo(f"prepared in {time.monotonic() - began:.0f} s: classes in {archive} ({size} MB)")

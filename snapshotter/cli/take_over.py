"""``snapshotter take-over``: make tables that are another engine's this one's."""

from __future__ import annotations

import typer

from snapshotter.cli.common import ConfigFile, load_settings, set_up_logging


def take_over(ctx: typer.Context, config: ConfigFile) -> None:
    """Become the owner of captured collections' tables that are another engine's. Stop that one first."""
    set_up_logging(ctx)
    settings = load_settings(config)
    from snapshotter.engine import assembly
    from snapshotter.engine.take_over import report
    from snapshotter.engine.take_over import take_over as take

    spark = assembly.spark_session(settings, brief=True)
    try:
        for line in report(take(spark, assembly.engine_config(settings))):
            typer.echo(line)
    finally:
        spark.stop()

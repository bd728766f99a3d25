"""The commands put together, the options before a command, and errors made into messages and exit codes."""

from __future__ import annotations

import traceback
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from snapshotter.cli import config, demo, run, sandbox, signal_commands, status, take_over, verify
from snapshotter.cli.common import LogOptions, say
from snapshotter.errors import describe
from snapshotter.log import LogFormat


class Reporting(TyperGroup):
    """The one place where what a command raises becomes a message on standard error and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            if hasattr(error, "show") and hasattr(error, "exit_code"):  # the parser's own errors, shown by it
                raise
            found = describe(error)
            if not found.expected:
                traceback.print_exception(error)
            say(f"error: {found.message}")
            if found.next_step:
                say(f"next: {found.next_step}")
            raise typer.Exit(found.exit_code) from error


app = typer.Typer(
    cls=Reporting,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Keeps Delta tables equal to MongoDB collections, and reads any part again on a signal.",
    epilog="Exit codes: 0 done, 1 different (verify), 2 configuration or usage, "
    "3 a restart cannot cure it, 4 gave up retrying.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"snapshotter {metadata.version('snapshotter')}")
        raise typer.Exit(0)


@app.callback()
def before(
    ctx: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback does it
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error.", envvar="SNAPSHOTTER_LOG_LEVEL")
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option(help="How log lines look.", envvar="SNAPSHOTTER_LOG_FORMAT")
    ] = LogFormat.KEY_VALUE,
) -> None:
    """Options before the command."""
    if log_level is not None and log_level.lower() not in ("debug", "info", "warning", "error"):
        raise typer.BadParameter(
            f"{log_level!r} is none of debug, info, warning, error", param_hint="--log-level"
        )
    ctx.obj = LogOptions(log_level, log_format)


app.command("run")(run.run)
app.command("execute-snapshot")(signal_commands.execute_snapshot)
app.command("stop-snapshot")(signal_commands.stop_snapshot)
app.command("pause-snapshot")(signal_commands.pause_snapshot)
app.command("resume-snapshot")(signal_commands.resume_snapshot)
app.command("log")(signal_commands.log)
app.command("status")(status.status)
app.command("take-over")(take_over.take_over)
app.command("verify")(verify.verify)
app.command("demo")(demo.demo)
app.command("sandbox")(sandbox.sandbox)
app.command("config")(config.config)

"""The commands put together, the options before a command, and errors made into messages and exit codes."""

from __future__ import annotations

import traceback
from importlib import metadata
from typing import Annotated, Any

import structlog
import typer
from typer.core import TyperGroup

from snapshotter import log_file
from snapshotter.cli import (
    config,
    dead_letters,
    demo,
    doctor,
    init,
    position,
    prepare,
    run,
    sandbox,
    signal_commands,
    status,
    stream_commands,
    table,
    take_over,
    verify,
)
from snapshotter.cli.common import LogFileBefore, LogOptions, checked_level, say
from snapshotter.errors import describe, redact
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
                stack = redact("".join(traceback.format_exception(error)))
                if not log_file.write(stack):
                    say(stack)
            named = log_file.named()
            if isinstance(ctx.obj, LogOptions) and ctx.obj.format is LogFormat.JSON:
                where = {} if named is None else {"log": str(named)}
                structlog.get_logger("snapshotter.cli").error(found.message, **found.fields(), **where)
                raise typer.Exit(found.exit_code) from error
            retry = "worth another attempt" if found.retriable else "not worth another attempt as it is"
            say(f"error: {found.message}")
            say(f"class: {found.failure} ({found.condition}), {retry}")
            say(f"next: {found.next_step}")
            if named is not None:
                say(f"log: {named}")
            raise typer.Exit(found.exit_code) from error


app = typer.Typer(
    cls=Reporting,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Keeps Delta tables equal to MongoDB collections, and reads any part again on a signal.",
    epilog="Exit codes: 0 done, 1 different (verify) or warnings (doctor), 2 configuration or usage, "
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
    file: LogFileBefore = None,
) -> None:
    """Options before the command."""
    log_file.choose(file)
    ctx.obj = LogOptions(checked_level(log_level), log_format, file)


app.command("run")(run.run)
app.command("execute-snapshot")(signal_commands.execute_snapshot)
app.command("stop-snapshot")(signal_commands.stop_snapshot)
app.command("pause-snapshot")(signal_commands.pause_snapshot)
app.command("resume-snapshot")(signal_commands.resume_snapshot)
app.command("pause-stream")(stream_commands.pause_stream)
app.command("resume-stream")(stream_commands.resume_stream)
app.command("restart")(stream_commands.restart)
app.command("log")(signal_commands.log)
app.command("status")(status.status)
app.add_typer(position.app, name="position")
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(table.app, name="table")
app.command("take-over")(take_over.take_over)
app.command("verify")(verify.verify)
app.command("demo")(demo.demo)
app.command("sandbox")(sandbox.sandbox)
app.command("prepare")(prepare.prepare)
app.command("config")(config.config)
app.command("init")(init.init)
app.command("doctor")(doctor.doctor)

"""What the commands share: the configuration option, logging, and the small files of an engine's state."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from snapshotter import log_file
from snapshotter.errors import DefiniteError
from snapshotter.log import LogFormat, set_up
from snapshotter.reporting.status import STATUS_FILE, Status

if TYPE_CHECKING:
    from snapshotter.configuration.settings import Settings
    from snapshotter.state.storage import Storage

ConfigFile = Annotated[
    Path,
    typer.Option(
        "--config",
        "-c",
        help="The configuration: .json (Kafka Connect), .properties (Debezium), .yaml (Strimzi) or .toml.",
        envvar="SNAPSHOTTER_CONFIG",
        metavar="FILE",
    ),
]
_LOG_FILE = (
    "What takes every log line, stacks, and what Spark and Java say. Unless it is given it lies with the user's state "
    "(~/.local/state/snapshotter/NAME.log), or in systemd's LOGS_DIRECTORY."
)
LogFile = Annotated[Path | None, typer.Option("--log-file", help=_LOG_FILE, metavar="FILE")]
LogFileBefore = Annotated[
    Path | None,
    typer.Option("--log-file", help=_LOG_FILE, metavar="FILE", envvar="SNAPSHOTTER_LOG_FILE"),
]
_QUIET_SECONDS = 2.0
LEVELS = ("debug", "info", "warning", "error")
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The options before a command. ``level`` None: warnings on a terminal, where the display says the
    rest.
    """

    level: str | None = None
    format: LogFormat = LogFormat.KEY_VALUE
    file: Path | None = None


def say(text: str) -> None:
    """One line for the person, on standard error: standard output is for what a command prints."""
    typer.echo(text, err=True)


def load_settings(path: Path, *, warn: bool = True) -> Settings:
    """The settings of a file, its warnings said unless the command does; the process's log file is the engine's from
    here on, unless another one was given. Raises ConfigurationError."""
    from snapshotter.configuration.settings import Settings

    settings = Settings.load(path)
    if log_file.chosen() is None:
        name = settings.name
        log_file.choose(log_file.default_place(name), instead=log_file.last_resort(name))
    for warning in settings.warnings if warn else ():
        say(f"warning: {warning}")
    return settings


def set_up_logging(ctx: typer.Context, file: Path | None = None) -> None:
    """Set logging up as the options before the command say; ``file`` takes all of it, too, and so does the one that
    was asked for."""
    options = ctx.find_object(LogOptions) or LogOptions()
    if options.file is not None:
        if options.file != log_file.chosen():
            log_file.choose(options.file)
        file = log_file.opened()
    display = sys.stderr.isatty() and options.format is not LogFormat.JSON
    set_up(options.format, options.level or ("warning" if display else "info"), file)


def set_up_quietly(ctx: typer.Context) -> None:
    """Log errors alone, unless the options before the command ask for more: the command says the rest itself."""
    options = ctx.find_object(LogOptions) or LogOptions()
    set_up(options.format, options.level or "error")


def checked_level(level: str | None) -> str | None:
    """A level that there is. Raises BadParameter."""
    if level is not None and level.lower() not in LEVELS:
        raise typer.BadParameter(f"{level!r} is none of {', '.join(LEVELS)}", param_hint="--log-level")
    return level


def open_state(settings: Settings) -> Storage:
    """The small files beside the engine's checkpoint. On a remote file system this starts a small Spark
    session.
    """
    from snapshotter.state.storages import storage_for

    location = settings.state_location()
    if urlsplit(location).scheme in ("", "file"):
        return storage_for(location)
    from snapshotter.spark_session import spark_builder

    return storage_for(location, spark_builder("snapshotter-state", settings.spark, "local[1]", brief=True))


def read_status(storage: Storage) -> Status | None:
    """What the engine last said, and whether its process is gone; None where it has never run."""
    text = storage.read_text(STATUS_FILE)
    if text is None:
        return None
    status = Status.from_json(text)
    return status.model_copy(update={"gone": True}) if _is_gone(storage, status) else status


def _is_gone(storage: Storage, status: Status) -> bool:
    """Looked for only where the engine has missed its second word: it writes once a second."""
    if status.updated_at is None or (datetime.now(UTC) - status.updated_at).total_seconds() < _QUIET_SECONDS:
        return False
    from snapshotter.state.lock import EngineLock
    from snapshotter.state.process import this_process

    return EngineLock(storage, status.name, this_process(), lambda: 0).abandoned


def require_status(storage: Storage, settings: Settings) -> Status:
    """What the engine last said. Raises DefiniteError where it has never run."""
    status = read_status(storage)
    if status is None:
        raise DefiniteError(
            f"no engine named {settings.name!r} has run with its state in {settings.state_location()}",
            "start it: `snapshotter run -c FILE`; or check name and delta.warehouse",
        )
    return status

"""Logging: structlog to standard error, as ``key=value`` lines or as JSON; and all of it to a file, where there is one.

Everything goes to standard error, since standard output belongs to what a command prints. Libraries that
use the standard library's logging come out by the same way, except for those that a person has not asked: what they say
goes to the file alone (`snapshotter.log_file`). Credentials in addresses are masked in every
value, because an address turns up in the messages of many libraries.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from enum import StrEnum
from functools import partial
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any, TextIO

import structlog

from snapshotter.errors import cause_of, redact

_NOISY = ("py4j", "pymongo", "asyncio")
_NOT_ASKED = ("py", "py4j", "pyspark", "librdkafka")  # warnings of Python's are those of "py.warnings"
"""Where there is a file, the rest of us is told of what these say by errors of our own."""

_IN_FULL = "the error in full"


class _Kept:
    """Whether there is a file that takes ``whole`` errors."""

    whole = False


class LogFormat(StrEnum):
    """``key-value`` for people (``text`` is another name of it), ``json`` for machines."""

    KEY_VALUE = "key-value"
    TEXT = "text"
    JSON = "json"


def set_up(
    log_format: LogFormat = LogFormat.KEY_VALUE, level: str = "info", file: Path | None = None
) -> None:
    """Set logging up for the process; calling it again replaces what was. ``level``: debug, info, warning,
    error. ``log_format``: how lines look. ``file`` takes every line from info on (or from ``level``, where that is
    lower), and stacks.
    """
    shown = logging.getLevelNamesMapping()[level.upper()]
    kept = shown if file is None else min(shown, logging.INFO)
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _without_credentials,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(kept),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    for former in root.handlers:
        if isinstance(former, WatchedFileHandler):
            former.close()
    screen = _StandardError()
    screen.setLevel(shown)
    root.handlers[:] = [screen]
    by_hand, _Kept.whole = sys.stderr.isatty(), file is not None
    logging.captureWarnings(file is not None)
    if file is not None:
        screen.addFilter(partial(_asked_for, whole=shown <= logging.DEBUG))
        whole = WatchedFileHandler(file, encoding="utf-8", errors="backslashreplace")
        whole.setFormatter(_formatter(shared, _renderer(log_format)))
        root.handlers.append(whole)
    stacks = [_one_line] if file is not None and by_hand else []
    screen.setFormatter(_formatter(shared, *stacks, _renderer(log_format)))
    root.setLevel(kept)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(kept, logging.WARNING))


def _formatter(shared: list[Any], *last: Any) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        foreign_pre_chain=shared,
    )


def _asked_for(record: logging.LogRecord, *, whole: bool) -> bool:
    """Whether it is for standard error, where the file has it, too. ``whole``: so are whole errors."""
    if isinstance(record.msg, dict) and record.msg.get("event") == _IN_FULL:
        return whole
    # py4j also logs as nobody in particular.
    name = Path(record.pathname).parent.name if record.name == "root" else record.name.split(".")[0]
    return name not in _NOT_ASKED


def _one_line(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Instead of a stack, which the file has: what it ends with."""
    if (stack := event.pop("exception", None)) is not None:
        event.setdefault("error", cause_of(RuntimeError(stack)))
    return event


OLD_COMMITS = "the log of a table beside the state could not be looked after: old commits stay for now"
"""What tables that are only appended to (`streaming.delta.small_table`) go on after."""


def warn_of(log: Any, event: str, error: BaseException, **fields: Any) -> None:
    """Warn of an error that the engine goes on after: ``event`` says what happened, with the error's cause on one line
    and ``fields``. The whole error follows in the file, and at the level ``debug``. ``log`` is a structlog logger."""
    log.warning(event, error=cause_of(error), **fields)
    (log.info if _Kept.whole else log.debug)(_IN_FULL, of=event, exc_info=error)


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what standard error is at that moment: a live display takes it over while it is shown."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None:
        raise AttributeError("this handler writes to standard error")


def _renderer(log_format: LogFormat) -> Any:
    if log_format is LogFormat.JSON:
        return structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    return structlog.processors.LogfmtRenderer(
        key_order=["timestamp", "level", "event"], drop_missing=True, bool_as_flag=False
    )


def _without_credentials(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = redact(value)
    return event

"""Logging: structlog to standard error, as ``key=value`` lines or as JSON.

Everything goes to standard error, since standard output belongs to what a command prints. Libraries that
use the standard library's logging come out by the same way. Credentials in addresses are masked in every
value, because an address turns up in the messages of many libraries.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from enum import StrEnum
from typing import Any, TextIO

import structlog

from snapshotter.errors import cause_of, redact

_NOISY = ("py4j", "pymongo", "asyncio")


class LogFormat(StrEnum):
    """``key-value`` for people (``text`` is another name of it), ``json`` for machines."""

    KEY_VALUE = "key-value"
    TEXT = "text"
    JSON = "json"


def set_up(log_format: LogFormat = LogFormat.KEY_VALUE, level: str = "info") -> None:
    """Set logging up for the process; calling it again replaces what was. ``level``: debug, info, warning,
    error.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _without_credentials,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = _StandardError()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _renderer(log_format)],
            foreign_pre_chain=shared,
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for name in _NOISY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))


def warn_of(log: Any, event: str, error: BaseException, **fields: Any) -> None:
    """Warn of an error that the engine goes on after: ``event`` says what happened, with the error's cause on one line
    and ``fields``. At the level ``debug`` the whole error follows. ``log`` is a structlog logger."""
    log.warning(event, error=cause_of(error), **fields)
    log.debug("the error in full", of=event, exc_info=error)


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

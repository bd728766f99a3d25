"""A look at the server's catalogue at the start and once a minute, concurrently with the runs, for as long as an engine
lives.

A name that the server and the engine read differently ends the engine: what streams and what is loaded would differ.
Include lists that match nothing are reported, and so is more than may be captured (`guardrail`). The watch has a thread
of its own, for thousands of collections take the server a while.
"""

from __future__ import annotations

from typing import Any

import structlog
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.engine.guardrail import Guardrail
from snapshotter.engine.recurring_look import RecurringLook
from snapshotter.reading.name_checks import Readings
from streaming.mongo.errors import classify

_log = structlog.get_logger("snapshotter.catalogue")
SECONDS = 60.0


def readings_of(client: MongoClient[Any], config: EngineConfig) -> Readings:
    """How the lists of an engine of this ``config`` are read, that of the initial load among them."""
    initial = config.initial_collections
    others = {} if initial is None else {"snapshot.include.collection.list": initial}
    return Readings(client, config.scope, others)


class CatalogueWatch(RecurringLook):
    """``config`` says what is captured, and what an initial load includes. It looks ``every`` so many seconds."""

    def __init__(self, client: MongoClient[Any], config: EngineConfig, every: float = SECONDS) -> None:
        super().__init__("catalogue", every)
        self._readings = readings_of(client, config)
        self._guardrail = Guardrail(config)
        self._filtered = (config.filtered,) if config.filtered else ()
        self._error: Exception | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """About what is captured, as it is now."""
        return *self._filtered, *self._readings.warnings, *self._guardrail.warnings

    def check(self) -> None:
        """Raise what a look in the background has found."""
        if self._error is not None:
            raise self._error

    def _look(self) -> None:
        self._guardrail.look(self._readings.look())

    def _look_again(self) -> bool:
        try:
            self._look()
        except Exception as error:  # noqa: BLE001 - the engine's own thread raises it
            if not isinstance(error, PyMongoError) or classify(error).kind.definite:
                self._error = error
                return False
            _log.warning("the catalogue cannot be looked at", error=str(error)[:200])
        return True

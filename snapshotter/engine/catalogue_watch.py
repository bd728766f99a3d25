"""A look at the server's catalogue at the start and once a minute, concurrently with the runs, for as long as an engine
lives.

A name that the server and the engine read differently ends the engine: what streams and what is loaded would differ.
Include lists that match nothing are reported, and so is more than may be captured (`guardrail`). The watch has a thread
of its own, for thousands of collections take the server a while.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

import structlog
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.engine.guardrail import Guardrail
from snapshotter.reading.name_checks import Readings
from streaming.mongo.errors import classify

_log = structlog.get_logger("snapshotter.catalogue")
SECONDS = 60.0


class CatalogueWatch:
    """As a context manager it looks once, and raises what that finds; then it looks ``every`` so many seconds, until
    the context is left. ``config`` says what is captured, and what an initial load includes."""

    def __init__(self, client: MongoClient[Any], config: EngineConfig, every: float = SECONDS) -> None:
        initial = config.initial_collections
        others = {} if initial is None else {"snapshot.include.collection.list": initial}
        self._readings, self._every = Readings(client, config.scope, others), every
        self._guardrail = Guardrail(config)
        self._error: Exception | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="catalogue", daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    @property
    def warnings(self) -> tuple[str, ...]:
        return *self._readings.warnings, *self._guardrail.warnings

    def check(self) -> None:
        """Raise what a look in the background has found."""
        if self._error is not None:
            raise self._error

    def _look(self) -> None:
        self._guardrail.look(self._readings.look())

    def _look_on(self) -> None:
        while not self._stopped.wait(self._every):
            try:
                self._look()
            except Exception as error:  # noqa: BLE001 - the engine's own thread raises it
                if isinstance(error, PyMongoError) and not classify(error).kind.definite:
                    _log.warning("the catalogue cannot be looked at", error=str(error)[:200])
                    continue
                self._error = error
                return

"""State tables in Spark's catalogue, under names of a template: so that whoever shares the catalogue finds them.

It is a service to readers. A name that somebody else has is left to him, a catalogue that is away is no reason to land
nothing: either is said, in the log, once a run. Nothing is ever dropped or renamed.

A metastore that hangs keeps whoever asks it for as long as its client likes, so that is a thread of its own. A landing
waits for it a little, so that a table is found by its name once it has rows; where it has waited in vain, no other
landing does before the catalogue has answered.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from snapshotter.errors import cause_of
from snapshotter.failures import Fault, classify
from streaming.column_names import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.delta.catalog_names import CatalogTemplate
    from streaming.namespaces import Namespace

PATIENCE_SECONDS = 10.0
AGAIN_SECONDS = 300.0
_log = structlog.get_logger("snapshotter.tables")


@dataclass(slots=True)
class Registration:
    """Registers tables in the catalogue of ``spark``, by ``template``. A caller waits for ``patience`` seconds; what
    the catalogue would not do is tried ``again`` after so many."""

    spark: SparkSession
    template: CatalogTemplate
    patience: float = PATIENCE_SECONDS
    again: float = AGAIN_SECONDS
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _known: set[Namespace] = field(default_factory=set)
    _waiting: dict[Namespace, str] = field(default_factory=dict)
    _failed: dict[Namespace, str] = field(default_factory=dict)
    _told: set[Namespace] = field(default_factory=set)
    _silent: bool = False
    _told_silent: bool = False
    _thread: threading.Thread | None = None

    def register(self, namespace: Namespace, path: str) -> None:
        """See to it that the catalogue has the table of ``namespace`` at ``path``, once. What keeps it from that is
        logged."""
        with self._changed:
            if namespace in self._known:
                return
            self._known.add(namespace)
            self._waiting[namespace] = path
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="registration", daemon=True)
                self._thread.start()
            if not self._silent:
                answered = self._changed.wait_for(lambda: namespace not in self._waiting, self.patience)
                self._silent = not answered
            if self._silent and not self._told_silent:
                self._told_silent = True
                _log.warning(
                    "the catalogue does not answer: tables land, and are registered once it does",
                    name=".".join(self.template.name_of(namespace)),
                    waited_seconds=self.patience,
                    next="see whether the metastore runs",
                )

    def _work(self) -> None:
        """Until all that was asked for is done, or Spark has gone."""
        while (table := self._next()) is not None:
            namespace, path = table
            done = self._try(namespace, path)
            with self._changed:
                del self._waiting[namespace]
                if not done:
                    self._failed[namespace] = path
                self._silent = False
                self._changed.notify_all()

    def _next(self) -> tuple[Namespace, str] | None:
        with self._changed:
            if not self._waiting and self._failed:
                self._changed.wait_for(lambda: self._waiting, self.again)
                if not self._waiting:
                    self._waiting, self._failed = self._failed, {}
            if not self._waiting:
                self._thread = None  # whoever comes next begins another
                return None
            return next(iter(self._waiting.items()))

    def _try(self, namespace: Namespace, path: str) -> bool:
        """Whether there is nothing left to do."""
        parts = self.template.name_of(namespace)
        try:
            why, done = self._register(parts, path), True
        except Exception as error:  # noqa: BLE001 - whatever it is: nobody waits for it, and nothing depends on it
            if classify(error) is Fault.SESSION_LOST:
                return True  # there is no Spark any more
            why, done = cause_of(error), False
        if why is not None and namespace not in self._told:
            self._told.add(namespace)
            named = {"collection": str(namespace), "name": ".".join(parts)}
            step = "choose another delta.catalog.table, or drop the one that is there"
            if not done:
                step = f"see whether the catalogue is there; it is tried again every {self.again:g} s"
            _log.warning("a table is not in the catalogue", **named, why=why, next=step)
        return done

    def _register(self, parts: tuple[str, ...], path: str) -> str | None:
        """Why it could not be."""
        name = ".".join(map(quoted, parts))
        if not self.spark.catalog.tableExists(name):
            if len(parts) > 1:
                self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(map(quoted, parts[:-1]))}")
            self.spark.catalog.createTable(name, path, "delta")
            _log.info("a table is in the catalogue", name=".".join(parts), path=path)
            return None
        there = self._location(name)
        mine = self._location(f"delta.`{path.replace('`', '``')}`")
        return None if there == mine else f"the name is that of another table, at {there}"

    def _location(self, name: str) -> str:
        found = self.spark.sql(f"DESCRIBE DETAIL {name}").first()
        assert found is not None, "every table has details"
        return str(found["location"])

"""State tables in Spark's catalogue, under names of a template: so that whoever shares the catalogue finds them.

It is a service to readers. A name that somebody else has is left to him, a catalogue that is away is no reason to land
nothing: either is said, in the log, once a run. Nothing is ever dropped or renamed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from snapshotter.errors import cause_of
from streaming.column_names import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streaming.delta.catalog_names import CatalogTemplate
    from streaming.namespaces import Namespace

_log = structlog.get_logger("snapshotter.tables")


@dataclass(frozen=True, slots=True)
class Registration:
    """Registers tables in the catalogue of ``spark``, by ``template``."""

    spark: SparkSession
    template: CatalogTemplate

    def register(self, namespace: Namespace, path: str) -> bool:
        """See to it that the catalogue has the table of ``namespace`` at ``path``; False where it has not, which is
        logged."""
        parts = self.template.name_of(namespace)
        named = {"collection": str(namespace), "name": ".".join(parts)}
        try:
            why = self._register(parts, path)
        except (PySparkException, Py4JError) as error:
            why = cause_of(error)
        if why is not None:
            step = "choose another delta.catalog.table, or drop the one that is there"
            _log.warning("a table is not in the catalogue", **named, why=why, next=step)
        return why is None

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

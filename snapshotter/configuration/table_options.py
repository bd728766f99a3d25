"""The options of how new tables are made: their properties, and which readers they are for."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from snapshotter.configuration.option_values import Group, Passed, Text, choice, option
from snapshotter.errors import Problem
from streaming.delta.catalog_names import CatalogTemplate
from streaming.delta.table_properties import TableForm, refusals, slower

READER, PROPERTIES, CATALOG = "delta.reader", "delta.table.properties.", "delta.catalog.table"


class Reader(StrEnum):
    """Which readers new tables are made for."""

    VECTORS = "vectors"
    ANY = "any"


class TableOptions(Group):
    """How new tables are made. Those that are there stay as they are."""

    reader: Annotated[Reader, choice(Reader)] = option(
        READER,
        "which readers new tables are for: those that know deletion vectors (vectors), or others too (any), which "
        "costs speed: each change rewrites the files that hold its row",
        Reader.VECTORS,
    )
    properties: Passed = option(
        f"{PROPERTIES}*",
        "properties of new tables, Delta's and your own, by their names (docs/tables.md)",
        {},
    )
    catalog: Text | None = option(
        CATALOG,
        "the name of each table in Spark's catalogue, as {db}.{collection}; unset is in none (docs/reading-tables.md)",
        None,
    )

    @property
    def form(self) -> TableForm:
        """How new tables are made. Raises ValueError for a template that gives no names, which `check` says."""
        named = {name: value.strip() for name, value in sorted(self.properties.items())}
        template = CatalogTemplate(self.catalog) if self.catalog else None
        return TableForm(self.reader is Reader.VECTORS, named, template)


def check(tables: TableOptions) -> Iterator[Problem]:
    """Properties that no new table can have, and a template that gives no names."""
    for name, why in refusals(tables.properties, any_reader=tables.reader is Reader.ANY):
        yield Problem(f"{PROPERTIES}{name}", why, tables.properties[name])
    try:
        _ = tables.form
    except ValueError as error:
        yield Problem(CATALOG, str(error), tables.catalog)


def warnings(tables: TableOptions) -> Iterator[str]:
    """Properties that cost speed."""
    if names := slower(tables.properties):
        yield (
            f"{', '.join(PROPERTIES + name for name in names)}: new tables are written by Delta's own MERGE alone, "
            "which is slower"
        )

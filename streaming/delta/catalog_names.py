"""Names of tables in Spark's catalogue, by a template: ``{db}.{collection}``, ``lake.bronze.{db}_{collection}``.

A name has one to three parts: table, schema, catalogue. What Spark takes in a name without quotes is less than what
MongoDB takes: any other character becomes an underscore, so two collections may come to one name. Whoever registers
them notices; nobody is shadowed.

Pure: standard library only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from streaming.namespaces import Namespace

_PARTS_MAX = 3
_FIELD = re.compile(r"\{([^{}]*)\}")
_FIXED = re.compile(r"[A-Za-z0-9_]*")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class CatalogTemplate:
    """A template that was checked. Raises ValueError, with a clause that says why, for a text that is none."""

    text: str

    def __post_init__(self) -> None:
        parts = self.text.split(".")
        if len(parts) > _PARTS_MAX:
            raise ValueError("must have one to three parts: [[catalogue.]schema.]table")
        for part in parts:
            if not part:
                raise ValueError("has an empty part")
            unknown = [name for name in _FIELD.findall(part) if name not in ("db", "collection")]
            if unknown:
                raise ValueError(f"names {{{unknown[0]}}}; there are {{db}} and {{collection}}")
            if _FIXED.fullmatch(_FIELD.sub("", part)) is None:
                raise ValueError(
                    "may have letters, digits and underscores beside {db}, {collection} and dots"
                )
        if "{collection}" not in parts[-1]:
            raise ValueError("must have {collection} in its last part, or all tables would have one name")

    def name_of(self, namespace: Namespace) -> tuple[str, ...]:
        """The parts of the name of this collection's table."""
        given = {"db": namespace.database, "collection": namespace.collection}
        plain = {name: _NOT_IN_NAMES.sub("_", text) for name, text in given.items()}
        return tuple(_FIELD.sub(lambda field: plain[field[1]], part) for part in self.text.split("."))

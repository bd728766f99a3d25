"""What a table asks of those who write it, and which of it our own transactions can do.

A table says so by its protocol's features and by its properties. What is not known here is left to Delta's own writer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from streaming.delta.table_properties import VECTORS

if TYPE_CHECKING:
    from streaming.delta.snapshot import Snapshot

_FEATURES = frozenset(
    ("appendOnly", "checkConstraints", "clustering", "deletionVectors", "domainMetadata", "invariants")
)
_CONSTRAINT = "delta.constraints."


def has_vectors(table: Snapshot) -> bool:
    """Whether rows of a table may be marked in deletion vectors."""
    return table.table_property(VECTORS) == "true"


def unsupported(table: Snapshot, *, marks: bool = True) -> str | None:
    """Why our transactions can't write a table: it asks something of its writers that would be missing here (a change
    data feed, say), or has no deletion vectors, for one that ``marks`` rows. None where they can."""
    if marks and not has_vectors(table):
        return "the table has no deletion vectors"
    foreign = table.features - _FEATURES
    return (
        f"the table has features that Delta's own writer serves ({', '.join(sorted(foreign))})"
        if foreign
        else None
    )


def takes_files(table: Snapshot, partitions: Collection[str] = ()) -> bool:
    """Whether our transactions may add rows to this version of a table as files, so that its writer never sees them:
    it asks for no check of them, and has no ``partitions`` but by these columns."""
    if unsupported(table, marks=False) is not None or table.partitions != set(partitions):
        return False
    if any(name.startswith(_CONSTRAINT) for name in table.properties):
        return False
    return all(field.nullable for field in table.schema.fields)


class Unsupported(Exception):
    """The table asks something of its writers that a `Transaction` does not do. Nothing has been written."""

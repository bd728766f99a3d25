"""The name of a collection: ``database.collection``, split at the first dot, as MongoDB splits it.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_LISTED = 20


@dataclass(frozen=True, order=True, slots=True)
class Namespace:
    """A database and a collection in it. The collection may hold dots; the database never does."""

    database: str
    collection: str

    def __post_init__(self) -> None:
        if not self.database or not self.collection or "." in self.database:
            raise ValueError(f"not a collection's full name: {self.database!r}.{self.collection!r}")

    @classmethod
    def parse(cls, text: str) -> Namespace:
        """``"shop.orders"`` -> ``Namespace("shop", "orders")``; raises ValueError that shows the text."""
        if not is_name(text):
            raise ValueError(f"not a collection's full name (database.collection): {text!r}")
        database, _, collection = text.partition(".")
        return cls(database, collection)

    def __str__(self) -> str:
        return f"{self.database}.{self.collection}"


def is_name(text: str) -> bool:
    """Whether `Namespace.parse` takes this ``text``."""
    database, _, collection = text.partition(".")
    return bool(database and collection) and not collection.endswith(".")


def listed(names: Sequence[str]) -> str:
    """As many ``names`` of collections as somebody reads, and how many more there are."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return (", ".join(names[:_LISTED]) or "none") + more

"""A data file of a table's version, with Delta's own object of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streaming.delta.file_index import DataFile
from streaming.delta.file_matching import OldFile


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of the table: Delta's own object (``add``), what the log says of it, and its deletion ``vector`` as it
    stands there."""

    add: Any
    said: DataFile
    vector: Mapping[str, Any] | None

    @property
    def name(self) -> str:
        """In the table's folder."""
        return self.said.facts.path

    def as_old(self) -> OldFile:
        """As those take it who read it without the JVM."""
        return OldFile(self.name, self.vector, self.said.low, self.said.high)

    def loses_all(self, rows: int) -> bool:
        """Whether no row is left when so many go."""
        return self.said.counted and rows == self.said.facts.rows - self.said.facts.marked

"""What a landing did to a state table, as the history of the table tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streaming.delta.comparison import NOTHING_FOUND, Found
from streaming.delta.delta_log import Commit


@dataclass(frozen=True, slots=True)
class Landed:
    """What a landing did. ``wrote`` is False when the table records this batch, or a later one, already.

    ``source_rows`` are the rows it was given, whatever became of them, without READs that equal their rows: these are
    counted in what the READs have ``found``.
    """

    wrote: bool
    version: int
    source_rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    found: Found = NOTHING_FOUND

    @classmethod
    def of(cls, commit: Commit, found: Mapping[str, int] | None = None) -> Landed:
        """What a commit did; ``found``: what it says of its READs."""
        reads = NOTHING_FOUND if found is None else Found.from_json(found)
        if commit.operation == "MERGE":
            return cls(
                True,
                commit.version,
                commit.count("numSourceRows"),
                commit.count("numTargetRowsInserted"),
                commit.count("numTargetRowsUpdated"),
                commit.count("numTargetRowsDeleted"),
                reads,
            )
        written = commit.count("numOutputRows")
        return cls(True, commit.version, written, inserted=written, found=reads)

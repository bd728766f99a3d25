"""What a landing did to a state table, as the history of the table tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.delta.comparison import NOTHING_FOUND, Found
from streaming.delta.log_commits import Commit


@dataclass(frozen=True, slots=True)
class Landed:
    """What a landing did. ``wrote`` is False when the table records this batch, or a later one, already.

    ``source_rows`` are the rows it was given, whatever became of them, without READs that equal their rows: these are
    counted in what the READs have ``found``. ``changed_bytes`` are those of rows that it wrote because they have
    changed, ``copied_bytes`` those of others in files that were written anew (a MERGE tells them; none are copied where
    old rows are marked). What it cost is no part of what it did, so landings are equal without it.
    """

    wrote: bool
    version: int
    source_rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    found: Found = NOTHING_FOUND
    changed_bytes: int = field(default=0, compare=False)
    copied_bytes: int = field(default=0, compare=False)

    @classmethod
    def of(cls, commit: Commit, found: Mapping[str, int] | None = None) -> Landed:
        """What a commit did; ``found``: what it says of its READs."""
        reads = NOTHING_FOUND if found is None else Found.from_json(found)
        if commit.operation == "MERGE":
            inserted, updated = (commit.count(f"numTargetRows{name}") for name in ("Inserted", "Updated"))
            copied, size = commit.count("numTargetRowsCopied"), commit.count("numTargetBytesAdded")
            of_copied = size * copied // max(1, copied + inserted + updated)
            return cls(
                True,
                commit.version,
                commit.count("numSourceRows"),
                inserted,
                updated,
                commit.count("numTargetRowsDeleted"),
                reads,
                changed_bytes=size - of_copied,
                copied_bytes=of_copied,
            )
        written = commit.count("numOutputRows")
        return cls(True, commit.version, written, inserted=written, found=reads)

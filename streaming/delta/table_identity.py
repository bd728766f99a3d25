"""Which table it is, whose it is, and what others have done to it since this engine looked last.

Delta gives a table an id, and each commit one of its own. A `TableMark` holds both: the table, and the newest version
that was landed, or looked at and found sound. What a later look finds is held against it (`altered`):

    missing    no table is there
    another    a table of another id is there
    older      the version of the mark is not there, or is another commit: the folder was restored from a copy
    changed    a commit behind the mark, not this engine's, changes data
    unknown    the log no longer tells all that came behind the mark

Commits that change no data are accepted: OPTIMIZE, VACUUM, new columns, properties. A table's `Owner` is the one engine
that writes to it, known by its name and by an id in its state. Where the state was removed, the name finds the table
again, and the other id says that the table holds rows that nobody remembers.

Pure: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_APPLICATION = "snapshotter:"
PART_READS = ":reads"


@dataclass(frozen=True, slots=True)
class TableMark:
    """A version of a table: Delta's id of the table, the version's number, and Delta's id of its commit ("" where the
    writer gave it none)."""

    table_id: str
    version: int
    commit: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"table": self.table_id, "version": self.version, "commit": self.commit}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableMark:
        return cls(value["table"], value["version"], value.get("commit", ""))


@dataclass(frozen=True, slots=True)
class Owner:
    """An engine: its name, and the id that its state keeps."""

    engine: str
    id: str

    def to_text(self) -> str:
        """As a table's property holds it."""
        return json.dumps({"engine": self.engine, "id": self.id})

    @classmethod
    def from_text(cls, text: str) -> Owner:
        """Raises ValueError for a text that is not one of `to_text`."""
        value = json.loads(text)
        if not isinstance(value, dict) or not {"engine", "id"} <= value.keys():
            raise ValueError(f"not an owner: {text[:200]!r}")
        return cls(str(value["engine"]), str(value["id"]))


class Alteration(StrEnum):
    """What has happened to a table, as the module says."""

    MISSING = "missing"
    ANOTHER = "another"
    OLDER = "older"
    CHANGED = "changed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Version:
    """A commit behind a mark. ``ours``: this engine's. ``takes_over``: it made this engine the table's owner,
    which then reads the collection again."""

    number: int
    operation: str
    changes_data: bool
    ours: bool = False
    takes_over: bool = False


def altered(
    mark: TableMark, newest: TableMark | None, at_mark: str | None, behind: Iterable[Version]
) -> tuple[Alteration, Version | None] | None:
    """What has happened behind the mark, with the commit that shows it; None for nothing that matters.

    ``newest``: the table's newest version now, None without a table. ``at_mark``: the id of the commit that now has the
    number of the mark, None where the log no longer has it. ``behind``: the commits of higher numbers, newest first, as
    far as the log has them.
    """
    if newest is None:
        return Alteration.MISSING, None
    if newest.table_id != mark.table_id:
        return Alteration.ANOTHER, None
    if newest.version < mark.version or (at_mark is not None and mark.commit not in ("", at_mark)):
        return Alteration.OLDER, None
    expected = newest.version
    # The commits must follow one another down to the mark: what a gap hides is unknown.
    for version in behind:
        if version.number != expected:
            break
        if version.ours and version.takes_over:
            return None
        if version.changes_data and not version.ours:
            return Alteration.CHANGED, version
        expected -= 1
    return None if expected == mark.version else (Alteration.UNKNOWN, None)


def engine_of(app_id: str) -> str | None:
    """The name of the engine in an application id (``snapshotter:<name>:<checkpoint>``); None for another writer's."""
    name, colon, _ = app_id.removesuffix(PART_READS).removeprefix(_APPLICATION).rpartition(":")
    return name if app_id.startswith(_APPLICATION) and colon else None


def is_of(owner: Owner, app_id: str, by: Owner | None) -> bool:
    """Whether a commit is this owner's: of a landing under ``app_id``, by ``by`` where it says so (commits of earlier
    versions name the engine only)."""
    return engine_of(app_id) == owner.engine if by is None else by == owner

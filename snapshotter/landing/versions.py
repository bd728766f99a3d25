"""The versions of a state table, as their commits tell them: when each was committed, and up to which position in the
change stream its rows reach.

Both are the commit's own words, in the same file as what it did, so they are true of a copy of the table as well, and
for readers that never heard of the engine. A version that lands nothing (an OPTIMIZE, new columns) has no position of
its own: its rows are those of the landing before it.

The log is read as text, without Spark: a landing of ours is one line of JSON in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from snapshotter.landing.origin import Origin
from streaming.delta.landed import Landed
from streaming.delta.log_commits import commit_of
from streaming.delta.table_guard import landing_mark
from streaming.delta.table_identity import engine_of
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

LOG = "_delta_log"
_DIGITS = 20
_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class Version:
    """``at``: when it was committed (None where its writer did not say). Of a landing besides: its ``engine`` and
    ``batch``, the ``position`` that its rows reach, what it has ``landed``; ``loading`` where something of the
    collection had still to be read when the batch began, so that rows may be missing, or older than that."""

    number: int
    operation: str
    at: datetime | None
    engine: str | None = None
    batch: int | None = None
    position: ClusterTime | None = None
    landed: Landed | None = None
    loading: bool = False

    def to_json(self) -> dict[str, Any]:
        position, landed = self.position, self.landed
        return {
            "version": self.number,
            "operation": self.operation,
            "landed_at": None if self.at is None else self.at.isoformat(),
            "position": None if position is None else str(position),
            "cluster_time": None if position is None else position.to_int(),
            "position_at": None if position is None else time_of(position).isoformat(),
            "engine": self.engine,
            "batch": self.batch,
            "inserted": None if landed is None else landed.inserted,
            "updated": None if landed is None else landed.updated,
            "deleted": None if landed is None else landed.deleted,
            "loading": self.loading,
        }


def time_of(position: ClusterTime) -> datetime:
    """The second that a position lies in."""
    return datetime.fromtimestamp(position.t, UTC)


def version_of(number: int, text: str, namespace: Namespace) -> Version:
    """What the file of a commit, its ``text``, says of the version ``number`` of the table of ``namespace``."""
    commit = commit_of(number, filter(None, text.split("\n")))
    at = None if commit.timestamp_ms is None else datetime.fromtimestamp(commit.timestamp_ms / 1_000, UTC)
    mark = landing_mark(commit)
    if mark is None:
        return Version(number, commit.operation, at)
    said, owner = mark["metadata"], mark.get("owner") or {}
    origin = Origin.from_json(said)
    return Version(
        number,
        commit.operation,
        at,
        engine=owner.get("engine") or said.get("engine") or engine_of(mark["app_id"]),
        batch=mark["batch"],
        position=ClusterTime.from_json(said["position"]) if "position" in said else None,
        landed=Landed.of(commit, mark.get("found")),
        loading=origin is not None and (origin.unsettled is None or namespace in origin.unsettled),
    )


def numbers(names: Sequence[str]) -> list[int]:
    """The versions that files of these ``names`` in a table's log tell of, newest first."""
    stems = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return sorted((int(stem) for stem in stems if len(stem) == _DIGITS and stem.isdecimal()), reverse=True)


def versions(
    names: Sequence[str], read: Callable[[str], str | None], namespace: Namespace
) -> Iterator[Version]:
    """The versions of the table of ``namespace``, newest first, as far as its log still has them. ``names``: the files
    in the log; ``read`` gives the text of one."""
    for number in numbers(names):
        text = read(f"{number:0{_DIGITS}}{_SUFFIX}")
        if text is not None:  # else it was cleaned up meanwhile
            yield version_of(number, text, namespace)


def reaching(found: Iterator[Version], position: ClusterTime) -> tuple[Version | None, Version | None]:
    """The newest landing whose rows reach no further than ``position``, and the one that came next, among versions that
    are ``found`` newest first; None for none."""
    later = None
    for version in found:
        if version.position is None:
            continue
        if version.position <= position:
            return version, later
        later = version
    return None, later


def landed_by(found: Iterator[Version], moment: datetime) -> Version | None:
    """The newest version that was committed at ``moment`` or before it."""
    return next((version for version in found if version.at is not None and version.at <= moment), None)

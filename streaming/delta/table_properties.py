"""How new tables are made: which properties they have, which others a configuration may give them, and why not more.

Names that begin with `delta.` are Delta's: those that change how a table is kept, and not what an engine relies on, are
listed. Some cost speed, for only Delta's own writer serves what they ask for. Names of anybody's own are free.

Pure: standard library only.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from streaming.column_names import CLUSTER_TIME, KEY
from streaming.delta.catalog_names import CatalogTemplate
from streaming.delta.upkeep_plan import SAFE_HOURS

VECTORS = "delta.enableDeletionVectors"
STATISTICS = "delta.dataSkippingStatsColumns"
POLICY = "delta.checkpointPolicy"
INTERVAL = "delta.checkpointInterval"
LEFT_TO_UPKEEP: Mapping[str, str] = {INTERVAL: "10000"}
"""Of a table whose landings write no checkpoint of the log, but where upkeep has not for so many commits."""
PLAN_PROPERTY = "snapshotter.plan"
"""Which columns a table has for its documents (`streaming.layout.TablePlan`), in every one of ours."""
READER, ANY = "snapshotter.reader", "any"
"""Of a table that was made without deletion vectors on purpose."""

_SWITCH = re.compile(r"true|false", re.IGNORECASE)
_NUMBER = re.compile(r"[1-9]\d*")
_HOURS = {"week": 168, "day": 24, "hour": 1, "minute": 1 / 60, "second": 1 / 3_600}
_UNITS = "|".join(_HOURS)
_PIECE = re.compile(rf"(\d+)\s+({_UNITS})", re.IGNORECASE)
_LOG_RETENTION = "delta.logRetentionDuration"
_TIME = re.compile(rf"(interval\s+)?\d+\s+({_UNITS})s?(\s+\d+\s+({_UNITS})s?)*", re.IGNORECASE)
_COMPACT = re.compile(r"true|false|auto", re.IGNORECASE)
_EXPECTED = {
    _SWITCH: "true or false",
    _NUMBER: "a whole number above 0",
    _TIME: "a time, as interval 7 days",
    _COMPACT: "true, false or auto",
}
ALLOWED: Mapping[str, re.Pattern[str]] = {
    "delta.autoOptimize.autoCompact": _COMPACT,
    "delta.autoOptimize.optimizeWrite": _SWITCH,
    "delta.checkpoint.writeStatsAsJson": _SWITCH,
    "delta.checkpoint.writeStatsAsStruct": _SWITCH,
    INTERVAL: _NUMBER,
    POLICY: re.compile("classic|v2"),
    "delta.enableChangeDataFeed": _SWITCH,
    "delta.enableExpiredLogCleanup": _SWITCH,
    "delta.enableInCommitTimestamps": _SWITCH,
    "delta.enableRowTracking": _SWITCH,
    _LOG_RETENTION: _TIME,
}
"""Delta's own names, with what their values look like."""

REFUSED: Mapping[str, str] = {
    VECTORS: "the engine sets it: delta.reader says whether tables have deletion vectors",
    STATISTICS: "the engine sets it to the columns that it looks for rows by",
    "delta.dataSkippingNumIndexedCols": f"the engine sets {STATISTICS} in its place",
    "delta.deletedFileRetentionDuration": "the engine sets it: that is delta.retention.hours",
    "delta.setTransactionRetentionDuration": "a table that forgets which batches have landed would land them twice",
    "delta.appendOnly": "rows could be neither updated nor deleted",
    "delta.minReaderVersion": "it follows from what a table has",
    "delta.minWriterVersion": "it follows from what a table has",
}
_REFUSED_PREFIXES = {
    "snapshotter.": "the engine keeps what it knows of a table there",
    "delta.constraints.": "a document that breaks one would keep its whole batch from landing",
    "delta.columnMapping.": "files that workers write name columns as they are",
    "delta.enableIcebergCompat": "it wants column mapping, and files that workers write name columns as they are",
    "delta.universalFormat": "it wants column mapping, and files that workers write name columns as they are",
    "delta.feature.": "it follows from what a table has",
    "delta.coordinatedCommits.": "the engine commits to the table's own log",
    "option.": "Spark keeps it for itself",
}
_OF_SPARK = frozenset(
    ("provider", "location", "path", "owner", "external", "is_managed_location", "comment", "collation")
)
SLOWER = frozenset(
    ("delta.enableChangeDataFeed", "delta.enableInCommitTimestamps", "delta.enableRowTracking", POLICY)
)
"""Those that only Delta's own writer serves, where they are on."""


@dataclass(frozen=True, slots=True)
class TableForm:
    """How new tables are made. ``vectors``: with deletion vectors, which not every reader knows; without them a change
    rewrites the files that hold its row. ``properties``: further ones. ``catalog``: how tables are called in Spark's
    catalogue; None: they are in none. ``own_checkpoints``: upkeep writes those of the log, each of which takes longer
    than a landing, beside landings; else every tenth landing does."""

    vectors: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    catalog: CatalogTemplate | None = None
    own_checkpoints: bool = False

    @property
    def all_properties(self) -> dict[str, str]:
        """With those that every table has."""
        # The first indexed columns would be the documents' own: each costs time at every write, none prunes a MERGE.
        ours = {VECTORS: str(self.vectors).lower(), STATISTICS: f"{KEY},{CLUSTER_TIME}"}
        apart = LEFT_TO_UPKEEP if self.own_checkpoints else {}
        return {**apart, **self.properties, **ours, **({} if self.vectors else {READER: ANY})}


USUAL = TableForm()


def refusals(given: Mapping[str, str], *, any_reader: bool) -> Iterator[tuple[str, str]]:
    """Of the properties that are ``given`` those that no new table can have, with a clause that says why.
    ``any_reader``: tables are for readers that know no deletion vectors, too."""
    for name, value in given.items():
        if (why := _why_not(name, value.strip())) is not None:
            yield name, why
        elif any_reader and name == POLICY and value.strip() == "v2":
            yield name, "readers for which delta.reader=any is set may not know such checkpoints"


def slower(given: Mapping[str, str]) -> list[str]:
    """Those that keep the engine from its own, quicker way of writing."""
    return sorted(
        n for n, v in given.items() if n in SLOWER and v.strip().lower() not in ("false", "classic")
    )


def _why_not(name: str, value: str) -> str | None:
    if not name or any(c.isspace() or c in "'\"=${}" for c in name):
        return "is no name of a property"
    if "${" in value:
        return "Spark would substitute a variable in it"
    if name in REFUSED:
        return f"is refused: {REFUSED[name]}"
    for prefix, why in _REFUSED_PREFIXES.items():
        if name.lower().startswith(prefix.lower()):
            return f"is refused: {why}"
    if name.lower() in _OF_SPARK:
        return "is refused: Spark keeps it for itself"
    if not name.lower().startswith("delta."):
        return None
    if name not in ALLOWED:
        known = {other.partition(".")[2]: other for other in (*ALLOWED, *REFUSED)}
        near = difflib.get_close_matches(name.partition(".")[2], known, 1)
        return "is no property of Delta's that new tables may have; " + (
            f"did you mean {known[near[0]]}?" if near else f"those are: {', '.join(sorted(ALLOWED))}"
        )
    pattern = ALLOWED[name]
    if pattern.fullmatch(value) is None:
        return f"must be {_EXPECTED.get(pattern, ' or '.join(pattern.pattern.split('|')))}"
    if name == _LOG_RETENTION and _hours(value) < SAFE_HOURS:
        return "must be interval 7 days at least: Delta keeps no log for less than files that were removed"
    return None


def _hours(value: str) -> float:
    return sum(int(number) * _HOURS[unit.lower()] for number, unit in _PIECE.findall(value))

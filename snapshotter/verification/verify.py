"""A collection and its state table compared at one moment: every document, by key and content.

Both sides become (``_key``, 128-bit hash of the canonical content), each by code of its own: the
collection's from raw BSON (``canonical``), the table's from its columns and ``_rescued_data``
(``canonical_rows``). Rules about fields are carried out once more, on the collection's side (``selected``).
Spark groups them by key; a key is in order when both sides have it exactly once, with
equal hashes. So a missing field beside a null one, a number that was cut, a field that was dropped, a row
that came twice all show.

Either nothing is written meanwhile; or ``at`` names the cluster time that the table stands for, and the
collection is read as of then; or, without ``at``, keys that differ are looked at again, on both sides
afresh, a few times: on a busy collection a key may differ once because its change is still on the way, but
not each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pymongo.errors import PyMongoError
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from snapshotter.verification.canonical_diff import FieldDifference, differences
from snapshotter.verification.verify_jobs import Source, source_contents, table_contents
from streaming.delta.delta_log import TableLog
from streaming.delta.state_table import PLAN_PROPERTY
from streaming.fields.rules import CollectionRules, Kind
from streaming.fields.shape import NO_SHAPE, Shape
from streaming.keys.shard_keys import ShardKey, shard_key_of
from streaming.layout import AnyLayout
from streaming.mongo.deployment import connect
from streaming.mongo.errors import DefiniteError, as_source_error
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

RECHECKED_MAX = 10_000
"""So many differing keys are looked at again. Where there are more, changes on the way are not the reason."""

_HIDDEN = "a value that is not shown, by the rules about fields"

MISSING, EXTRA, DIFFERENT, REPEATED = "missing", "extra", "different", "repeated"


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A key that is not in order. ``kind``: missing in the table, extra in it, different, or repeated.

    ``fields`` are the paths that differ, of a key that is different.
    """

    key: str
    kind: str
    fields: tuple[FieldDifference, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.kind}: {self.key}", *(f"    {item}" for item in self.fields)])


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What was compared, and what was found. ``str()`` is a report for people.

    ``missing``, ``extra``, ``different`` and ``repeated`` count keys: in the collection only, in the table
    only, on both sides with unequal contents, more than once on a side. ``differing`` names them (at most
    ``RECHECKED_MAX``); ``examples`` are the first of them with what differs.
    """

    documents: int
    rows: int
    missing: int = 0
    extra: int = 0
    different: int = 0
    repeated: int = 0
    differing: tuple[str, ...] = ()
    examples: tuple[KeyDifference, ...] = field(default=())

    @property
    def equal(self) -> bool:
        """Whether the table is the collection."""
        return not (self.missing or self.extra or self.different or self.repeated)

    def __str__(self) -> str:
        lines = [f"{self.documents:,} documents, {self.rows:,} rows"]
        counts = {
            MISSING: self.missing,
            EXTRA: self.extra,
            DIFFERENT: self.different,
            REPEATED: self.repeated,
        }
        if not self.equal:
            lines.append(", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count))
        return "\n".join([*lines, *map(str, self.examples)])


def verify_collection(
    spark: SparkSession,
    uri: str,
    namespace: Namespace,
    table_path: str,
    layout: AnyLayout,
    *,
    fields: CollectionRules | None = None,
    shape: Shape = NO_SHAPE,
    at: ClusterTime | None = None,
    sample: int = 20,
    rounds: int = 3,
    before_round: Callable[[], None] | None = None,
) -> VerifyResult:
    """Compare the collection at ``uri`` with the state table at ``table_path``, whose rows ``layout`` reads. ``fields``
    says what of the documents is left out, renamed or hashed, and ``shape`` which shape rows have.

    ``at``: read the collection as of this cluster time (the server keeps 300 s of history by default).
    Without it, keys that differ are checked again up to ``rounds`` times. ``before_round`` is called before
    each of them, to give changes on the way time to land. ``sample``: for so many differing keys the
    contents are compared field by field. A table that is not there has no rows.

    Raises DefiniteError when the table is not one of ours, or ``at`` is too long ago; other errors of
    ``streaming.mongo.errors`` when the collection can't be read.
    """
    try:
        shard_key = shard_key_of(connect(uri), namespace)
    except PyMongoError as error:
        raise as_source_error(error, f"cannot ask for the shard key of {namespace}") from error
    sides = _Sides(spark, _source(uri, namespace, at, shard_key, fields, shape), table_path, layout)
    first = sides.compare(None)
    if first.equal:
        return first
    found = first
    if at is None and len(first.differing) < RECHECKED_MAX:
        for _ in range(rounds):
            if found.equal:
                break
            if before_round is not None:
                before_round()
            found = sides.compare(frozenset(found.differing))
    return VerifyResult(
        first.documents,
        first.rows,
        found.missing,
        found.extra,
        found.different,
        found.repeated,
        found.differing,
        _shown(sides.examples(found.differing[:sample]), fields, shape),
    )


def _source(
    uri: str,
    namespace: Namespace,
    at: ClusterTime | None,
    shard_key: ShardKey,
    fields: CollectionRules | None,
    shape: Shape,
) -> Source:
    rules, salt = ((), b"") if fields is None else (fields.rules, fields.salt)
    said = tuple((rule.kind.value, rule.path, rule.renamed) for rule in rules)
    delimiter = shape.delimiter.encode() if shape.flatten else None
    reshaped = (delimiter, shape.arrays) if shape else None
    return Source(uri, namespace, at, shard_key, said, salt, reshaped)


def _shown(
    found: tuple[KeyDifference, ...], fields: CollectionRules | None, shape: Shape
) -> tuple[KeyDifference, ...]:
    """Without the values of fields that are left out or hashed: a table may have them from before there were rules.
    Where names are joined (``shape``), any part of one may be of such a path."""
    if fields is None:
        return found

    def masked(difference: FieldDifference) -> FieldDifference:
        names = [part.replace("~1", "/").replace("~0", "~") for part in difference.path.split("/")[1:]]
        if not _covered(names, fields, shape):
            return difference
        sides = (None if side is None else _HIDDEN for side in (difference.source, difference.table))
        return FieldDifference(difference.path, *sides)

    return tuple(replace(one, fields=tuple(map(masked, one.fields))) for one in found)


def _covered(names: list[str], fields: CollectionRules, shape: Shape) -> bool:
    """Whether a field at the path ``names`` is left out or hashed, or lies in one that is. In a row of another shape
    places in arrays are names, and names are joined: by any joint that may be one of the rule's path."""
    if shape.arrays:
        names = [name.removeprefix("_") if re.fullmatch(r"_\d+", name) else name for name in names]
    if fields.covers(tuple(names)) or fields.covers(tuple(name for name in names if not name.isdigit())):
        return True
    if not shape.flatten or not names:
        return False
    joint = re.escape(shape.delimiter)
    place = rf"(?:{joint}_\d+)*{joint}"
    hidden = (rule.path for rule in fields.rules if rule.kind is not Kind.RENAME)
    return any(re.match(rf"{place.join(map(re.escape, path))}(?:{joint}|\Z)", names[0]) for path in hidden)


class _Sides:
    """A collection and a table, read as often as asked."""

    def __init__(self, spark: SparkSession, source: Source, table_path: str, layout: AnyLayout) -> None:
        self._spark, self._source, self._path, self._layout = spark, source, table_path, layout

    def compare(self, keys: frozenset[str] | None) -> VerifyResult:
        """Compare all documents, or those with these keys."""
        counts = Observation()
        grouped = _by_key(source_contents(self._spark, self._source, keys), self._table(keys))
        observed = grouped.observe(
            counts,
            F.sum("sources").alias("documents"),
            F.sum("tables").alias("rows"),
            *(F.sum((F.col("kind") == kind).cast("long")).alias(kind) for kind in _KINDS),
        )
        wrong = observed.where("kind is not null").select("_key")
        differing = wrong.mapInArrow(_first_of_each_partition, wrong.schema)
        names = tuple(sorted(row[0] for row in differing.collect()))[:RECHECKED_MAX]
        found: dict[str, Any] = {name: count or 0 for name, count in counts.get.items()}
        return VerifyResult(**found, differing=names)

    def examples(self, names: tuple[str, ...]) -> tuple[KeyDifference, ...]:
        """What exactly differs at these keys. They are read once more, so one may be in order by now."""
        if not names:
            return ()
        keys = frozenset(names)
        sources = _collected(source_contents(self._spark, self._source, keys, whole=True))
        tables = _collected(self._table(keys, whole=True))
        return tuple(_difference(key, sources.get(key, []), tables.get(key, [])) for key in names)

    def _table(self, keys: frozenset[str] | None, whole: bool = False) -> DataFrame:
        newest = TableLog(self._spark, self._path).newest()
        if newest is None:
            return self._spark.createDataFrame([], "`_key` STRING, content BINARY")
        text = newest.table_property(PLAN_PROPERTY)
        if text is None:
            raise DefiniteError(
                f"the table at {self._path} was not made by snapshotter: no property {PLAN_PROPERTY}"
            )
        table = self._spark.read.format("delta").load(self._path)
        return table_contents(table, self._layout, self._layout.plan_from_json(text), keys, whole)


_KINDS = (MISSING, EXTRA, DIFFERENT, REPEATED)


def _by_key(source: DataFrame, table: DataFrame) -> DataFrame:
    """One row a key: how often each side has it, and in ``kind`` what is wrong with it (null: nothing)."""
    nothing = F.lit(None).cast("binary")
    documents = source.select(
        "_key", F.lit(1).alias("source"), F.col("content").alias("document"), nothing.alias("row")
    )
    both = documents.union(table.select("_key", F.lit(0), nothing, "content"))
    grouped = both.groupBy("_key").agg(
        F.sum("source").alias("sources"),
        F.sum(F.lit(1) - F.col("source")).alias("tables"),
        F.max("document").alias("document"),
        F.max("row").alias("row"),
    )
    kind = (
        F.when((F.col("sources") > 1) | (F.col("tables") > 1), REPEATED)
        .when(F.col("tables") == 0, MISSING)
        .when(F.col("sources") == 0, EXTRA)
        .when(F.col("document") != F.col("row"), DIFFERENT)
    )
    return grouped.select("_key", "sources", "tables", kind.alias("kind"))


def _first_of_each_partition(batches: Any) -> Any:
    """Bounds what a driver must hold when everything differs."""
    left = RECHECKED_MAX
    for batch in batches:
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)


def _collected(contents: DataFrame) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for key, content in contents.collect():
        found.setdefault(key, []).append(bytes(content))
    return found


def _difference(key: str, sources: list[bytes], tables: list[bytes]) -> KeyDifference:
    if len(sources) > 1 or len(tables) > 1:
        return KeyDifference(key, REPEATED)
    if not tables:
        return KeyDifference(key, MISSING)
    if not sources:
        return KeyDifference(key, EXTRA)
    return KeyDifference(key, DIFFERENT, tuple(differences(sources[0], tables[0])))

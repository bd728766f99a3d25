"""A collection and its state table compared at one moment: every document, by key and content.

Both sides become (``_key``, 128-bit hash of the canonical content), each by code of its own: the
collection's from raw BSON (``canonical``), the table's from its columns and ``_rescued_data``
(``canonical_rows``). Rules about fields are carried out once more, on the collection's side (``selected``).
They are grouped by key (``comparison``), in Spark, or without it where the table is small. So a missing field
beside a null one, a number that was cut, a field that was dropped, a row that came twice all show.

Either nothing is written meanwhile; or ``at`` names the cluster time that the table stands for, and the
collection is read as of then; or, without ``at``, keys that differ are looked at again, on both sides
afresh, a few times: on a busy collection a key may differ once because its change is still on the way, but
not each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pymongo.errors import PyMongoError

from snapshotter.verification import small_table
from snapshotter.verification.canonical_diff import FieldDifference
from snapshotter.verification.collection import Source
from snapshotter.verification.comparison import RECHECKED_MAX, KeyDifference, Sides, VerifyResult, examples
from snapshotter.verification.small_table import NeedsSpark
from streaming.fields.rules import CollectionRules, Kind
from streaming.fields.shape import NO_SHAPE, Shape
from streaming.keys.shard_keys import ShardKey, shard_key_of
from streaming.layout import AnyLayout
from streaming.mongo.deployment import connect
from streaming.mongo.errors import as_source_error
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HIDDEN = "a value that is not shown, by the rules about fields"


def verify_collection(
    spark: SparkSession | None,
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
    """Compare the collection at ``uri`` with the state table at ``table_path``, whose rows ``layout`` reads, by
    ``spark``, or without it in this process. ``fields`` says what of the documents is left out, renamed or hashed, and
    ``shape`` which shape rows have.

    ``at``: read the collection as of this cluster time (the server keeps 300 s of history by default).
    Without it, keys that differ are checked again up to ``rounds`` times. ``before_round`` is called before
    each of them, to give changes on the way time to land. ``sample``: for so many differing keys the
    contents are compared field by field. A table that is not there has no rows.

    Raises DefiniteError when the table is not one of ours, or ``at`` is too long ago; other errors of
    ``streaming.mongo.errors`` when the collection can't be read; without ``spark`` `NeedsSpark` where it takes that.
    """
    try:
        shard_key = shard_key_of(connect(uri), namespace)
    except PyMongoError as error:
        raise as_source_error(error, f"cannot ask for the shard key of {namespace}") from error
    sides = _sides(spark, _source(uri, namespace, at, shard_key, fields, shape), table_path, layout)
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
        _shown(examples(sides, found.differing[:sample]), fields, shape),
    )


def _sides(spark: SparkSession | None, source: Source, table_path: str, layout: AnyLayout) -> Sides:
    if spark is not None:
        from snapshotter.verification.by_spark import SparkSides

        return SparkSides(spark, source, table_path, layout)
    small_table.look(table_path)  # what no package would help with is said first
    try:
        from snapshotter.verification.by_duckdb import DuckdbSides
    except ImportError as error:
        raise NeedsSpark(f"small tables need no Spark with DuckDB: {small_table.HOW}") from error
    return DuckdbSides(source, table_path, layout)


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

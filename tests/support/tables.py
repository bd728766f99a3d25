"""An independent reader: state tables as delta-rs sees them, put together to documents, against the collection.

Nothing of the product takes part but its plan of columns, read from the table's own property: which column is an
ObjectId, say. Numbers compare by value, as MongoDB compares them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import bson
import pyarrow as pa
import pyarrow.parquet as pq
from bson import Binary, Decimal128, ObjectId, json_util
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS
from deltalake import DeltaTable, QueryBuilder
from pymongo import MongoClient
from pymongo.read_concern import ReadConcern

_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_MS, tz_aware=True
)
_JSON = json_util.CANONICAL_JSON_OPTIONS.with_options(datetime_conversion=DatetimeConversion.DATETIME_MS)
_OURS = ("_key", "_rescued_data", "_cluster_time", "_source_ts", "_op")
_MISSING = object()


def landing_marks(path: Path | str) -> list[dict[str, Any]]:
    """Of each landing in a table, oldest first, what its commit says of itself (`table_guard`'s mark)."""
    marks = []
    for commit in sorted((Path(path) / "_delta_log").glob("[0-9]*.json")):
        information = json.loads(commit.read_text().splitlines()[0])["commitInfo"]
        mark = json.loads(information.get("userMetadata", "{}"))
        if "landing" in mark:
            marks.append(mark)
    return marks


def added(path: Path | str) -> dict[str, dict[str, Any]]:
    """By name, what the commits of a table say of the files that they have added."""
    logs = sorted(Path(path, "_delta_log").glob("*.json"))
    actions = (json.loads(line) for log in logs for line in log.read_text(encoding="utf-8").splitlines())
    return {action["add"]["path"]: action["add"] for action in actions if "add" in action}


def rows(path: Path | str, columns: str = "*", version: int | None = None) -> list[dict[str, Any]]:
    """The table's rows, read by delta-rs."""
    builder = QueryBuilder().register("t", DeltaTable(str(path), version=version))
    return pa.table(builder.execute(f"SELECT {columns} FROM t")).to_pylist()


def difference(uri: str, database: str, collection: str, path: Path | str) -> list[str]:
    """What differs between a collection that is at rest and its table; [] when they are equal."""
    with MongoClient[Any](uri) as client:
        source = client[database].get_collection(
            collection, codec_options=_CODEC, read_concern=ReadConcern("majority")
        )
        wanted = {_text(document["_id"]): _text(document) for document in source.find()}
    if not DeltaTable.is_deltatable(str(path)):
        return [f"no table at {path} for {len(wanted)} documents"] if wanted else []
    found_rows = [row for row in rows(path) if not row.get("_deleted")]
    plan = json.loads(DeltaTable(str(path)).metadata().configuration["snapshotter.plan"])["columns"]
    documents = [_document(plan, row) for row in found_rows]
    found = {_text(document["_id"]): _text(document) for document in documents}
    differences = []
    if len(found) != len(found_rows):
        differences.append(f"{len(found_rows)} rows of {len(found)} ids")
    differences += [f"missing: {wanted[i]}" for i in wanted.keys() - found.keys()]
    differences += [f"too much: {found[i]}" for i in found.keys() - wanted.keys()]
    both = wanted.keys() & found.keys()
    differences += [f"document {wanted[i]}\n     row {found[i]}" for i in both if wanted[i] != found[i]]
    return differences


def _document(plan: list[Mapping[str, Any]], row: Mapping[str, Any]) -> Any:
    document = {}
    for column in plan:
        value = _value(column["type"], row[column["name"]])
        if value is not _MISSING:
            document[column["name"]] = value
    whole: Any = document
    entries = json.loads(row["_rescued_data"]) if row["_rescued_data"] else {}
    for pointer, rendered in entries.items():
        value = json_util.loads(json.dumps({"v": rendered}), json_options=_JSON)["v"]
        if pointer == "":
            whole = value
            continue
        *above, last = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
        node = whole
        for part in above:
            node = node[int(part)] if isinstance(node, list) else node[part]
        node[int(last) if isinstance(node, list) else last] = value
    return whole


def _value(kind: Any, value: Any) -> Any:
    """A column's value as BSON would have it; null is a missing field."""
    if value is None:
        return _MISSING
    if isinstance(kind, str):
        return ObjectId(value) if kind == "objectId" else value
    if "array" in kind:
        items = [_value(kind["array"], item) for item in value]
        return [None if item is _MISSING else item for item in items]
    fields = {f["name"]: _value(f["type"], value[f["name"]]) for f in kind["struct"]}
    return {name: item for name, item in fields.items() if item is not _MISSING}


def _text(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """A value as JSON that is equal for equal values, and only for them."""
    match value:
        case None | bool() | str():
            return value
        case Decimal128() | Decimal() | int() | float():
            return {"number": _number(value)}
        case DatetimeMS():
            return {"date": int(value)}
        case datetime():
            return {"date": round(value.timestamp() * 1000)}
        case bytes():
            return {"binary": [value.subtype if isinstance(value, Binary) else 0, bytes(value).hex()]}
        case Mapping():
            return {name: _plain(value[name]) for name in sorted(value)}
        case list():
            return [_plain(item) for item in value]
        case _:
            return {type(value).__name__: bson.encode({"": value}).hex()}


def _number(value: Any) -> str:
    plain = value.to_decimal() if isinstance(value, Decimal128) else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return str(plain)
    if isinstance(plain, Decimal) and not plain.is_finite():
        return str(plain).lower()
    return str(Fraction(plain))


def time_types(folder: Path) -> set[str]:
    """By which types of Parquet's the data files in the table's folder have times."""
    schemas = [pq.ParquetFile(file).schema for file in folder.glob("*.parquet")]
    columns = [schema.column(at) for schema in schemas for at in range(len(schema))]
    return {
        c.physical_type for c in columns if c.physical_type == "INT96" or c.logical_type.type == "TIMESTAMP"
    }


def age(folder: Path, at: float, versions: int = 1) -> None:
    """The first so many versions of the table there seem to have been made at this time, in seconds since 1970."""
    for version in range(versions):
        os.utime(folder / "_delta_log" / f"{version:020}.json", (at + version, at + version))

"""A second layout: each document whole, as raw BSON in one column. The port of layouts is held against it, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from streaming.bson.elements import document_end, starts_of
from streaming.canonical.documents import canonical_document
from streaming.column_names import KEY, RESCUED_DATA, Path
from streaming.decode.keys import key_at, strictly_ascending
from streaming.keys.shard_keys import ShardKey
from streaming.layout import Decoded, Missing

DOCUMENT = "document"


@dataclass(frozen=True, slots=True)
class WholePlan:
    """There is but one."""

    names: tuple[str, ...] = (DOCUMENT,)

    def merge(self, observed: WholePlan) -> WholePlan:
        return self

    def joined(self, observed: WholePlan) -> WholePlan:
        return self

    def refuse(self, paths: Iterable[Path]) -> WholePlan:
        raise AssertionError(f"{list(paths)}: it adds no column")

    def to_json(self) -> str:
        return '{"layout":"whole"}'


@dataclass(frozen=True, slots=True)
class WholeDecoder:
    schema: pa.Schema
    shard_key: ShardKey

    def decode(self, raw: bytes) -> Decoded[WholePlan]:
        starts = starts_of(raw)
        keys = [key_at(raw, at, self.shard_key) for at in starts]
        return self.decode_documents(keys, [raw[at : document_end(raw, at)] for at in starts])

    def decode_documents(
        self, keys: Sequence[str] | pa.StringArray, documents: Sequence[bytes | None]
    ) -> Decoded[WholePlan]:
        named = pa.array(keys, pa.string())
        columns = [named, pa.array(documents, pa.binary()), pa.nulls(len(documents), pa.string())]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return Decoded(batch, strictly_ascending(named), WholePlan(), 0)


@dataclass(frozen=True, slots=True)
class Whole:
    """As `streaming.layout.Layout`."""

    name: str = "whole"

    def least_plan(self) -> WholePlan:
        return WholePlan()

    def plan_from_json(self, text: str) -> WholePlan:
        if text != WholePlan().to_json():
            raise ValueError(f"not a plan of whole documents: {text!r}")
        return WholePlan()

    def observe(self, raw: bytes) -> WholePlan:
        return WholePlan()

    def arrow_schema(self, plan: WholePlan) -> pa.Schema:
        return pa.schema([(KEY, pa.string()), (DOCUMENT, pa.binary()), (RESCUED_DATA, pa.string())])

    def spark_schema(self, plan: WholePlan) -> StructType:
        types = {KEY: StringType(), DOCUMENT: BinaryType(), RESCUED_DATA: StringType()}
        return StructType([StructField(name, type_) for name, type_ in types.items()])

    def comments(self, plan: WholePlan) -> Mapping[str, str]:
        return {DOCUMENT: "the whole document"}

    def missing_columns(self, table: StructType, plan: WholePlan) -> list[Missing]:
        return [] if DOCUMENT in table.names else [Missing((DOCUMENT,), f"{DOCUMENT} BINARY FIRST")]

    def others_fields(self, table: StructType, old: WholePlan, new: WholePlan) -> list[Path]:
        return []

    def decoder(self, plan: WholePlan, shard_key: ShardKey = ()) -> WholeDecoder:
        return WholeDecoder(self.arrow_schema(plan), shard_key)

    def reshape(self, rows: DataFrame, have: WholePlan, want: WholePlan) -> DataFrame:
        return rows

    def documents(self, plan: WholePlan, rows: pa.RecordBatch) -> list[bytes]:
        return [canonical_document(raw) for raw in rows.column(DOCUMENT).to_pylist()]


WHOLE = Whole()

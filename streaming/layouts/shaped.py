"""A layout for documents in another shape (`streaming.fields.shape`): each is reshaped before the layout behind it sees
it, so its columns are those of the new shape. All else is that layout's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streaming.fields.shape import Shape
from streaming.layout import AnyLayout, Decoded, Decoder, Missing

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from streaming.column_names import Path
    from streaming.keys.shard_keys import ShardKey


@dataclass(frozen=True, slots=True)
class _ShapedDecoder:
    decoder: Decoder[Any]
    shape: Shape

    def decode(self, raw: bytes) -> Decoded[Any]:
        return self.decoder.decode(self.shape.documents(raw))

    def decode_documents(
        self, keys: Sequence[str] | pa.StringArray, documents: Sequence[bytes | None]
    ) -> Decoded[Any]:
        shaped = [None if document is None else self.shape.document(document) for document in documents]
        return self.decoder.decode_documents(keys, shaped)


@dataclass(frozen=True, slots=True)
class Shaped:
    """As `streaming.layout.Layout`: ``layout``, for documents of this ``shape``. Decoding raises ConfigurationError for
    a document that has none."""

    layout: AnyLayout
    shape: Shape

    @property
    def name(self) -> str:
        return str(self.layout.name)

    def least_plan(self) -> Any:
        return self.layout.least_plan()

    def plan_from_json(self, text: str) -> Any:
        return self.layout.plan_from_json(text)

    def observe(self, raw: bytes) -> Any:
        return self.layout.observe(self.shape.documents(raw))

    def arrow_schema(self, plan: Any) -> pa.Schema:
        return self.layout.arrow_schema(plan)

    def spark_schema(self, plan: Any) -> StructType:
        return self.layout.spark_schema(plan)

    def comments(self, plan: Any) -> Mapping[str, str]:
        return self.layout.comments(plan)

    def missing_columns(self, table: StructType, plan: Any) -> list[Missing]:
        return self.layout.missing_columns(table, plan)

    def others_fields(self, table: StructType, old: Any, new: Any) -> list[Path]:
        """As `Layout.others_fields`."""
        return self.layout.others_fields(table, old, new)

    def decoder(self, plan: Any, shard_key: ShardKey = ()) -> Decoder[Any]:
        """As `Layout.decoder`. Raises ConfigurationError for a collection that is sharded by more than `_id`."""
        self.shape.check(shard_key)
        return _ShapedDecoder(self.layout.decoder(plan, shard_key), self.shape)

    def reshape(self, rows: DataFrame, have: Any, want: Any) -> DataFrame:
        """As `Layout.reshape`."""
        return self.layout.reshape(rows, have, want)

    def documents(self, plan: Any, rows: pa.RecordBatch) -> list[bytes]:
        """As `Layout.documents`: the content of documents in the new shape."""
        return self.layout.documents(plan, rows)

"""The port of a table's layout: what columns a collection's table has, how a document becomes a row, and how a row
becomes a document again.

Each layout is a package below `streaming.layouts`; `streaming.layouts.columns` is the first one. Code that reads, lands
or verifies knows this port only, and is handed the layout when an engine is put together. Every table has `_key` and
`_rescued_data` beside the columns of its plan; what else a state table has is its own (`streaming.delta`).

Conformance: `tests/conformance/test_layouts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from streaming.column_names import Path

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from streaming.keys.shard_keys import ShardKey


class TablePlan(Protocol):
    """Which columns a table has for its collection's documents: a value that can be pickled. It only ever grows, so
    rows of an older plan land in a table of a newer one."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns at the top level, in the table's order."""

    def merge(self, observed: Self, /) -> Self:
        """This plan with what ``observed`` adds: nothing that is there is moved, changed or removed, and what either
        has refused is not added. Equal to this plan where that is nothing."""

    def joined(self, observed: Self, /) -> Self:
        """This plan with what ``observed`` adds, where both were observed and no table has either: a type that has to
        hold the values of both may change for it."""

    def refuse(self, paths: Iterable[Path], /) -> Self:
        """This plan without these fields, now and after any merge. The table must not have them."""

    def to_json(self) -> str:
        """One line; equal plans give equal text."""


P = TypeVar("P", bound=TablePlan)
P_co = TypeVar("P_co", bound=TablePlan, covariant=True)


@dataclass(frozen=True, slots=True)
class Missing:
    """A field that a plan has and a table lacks: where it is, and its entry of ALTER TABLE … ADD COLUMNS (…)."""

    path: Path
    ddl: str


@dataclass(frozen=True, slots=True)
class Decoded(Generic[P_co]):
    """Documents as rows, in their order. ``batch`` has the layout's ``arrow_schema`` of the plan. ``keys_sorted``: the
    keys are strictly ascending, so none comes twice. ``unknown``: what the plan would gain from the fields that it does
    not know (they are rescued here). ``rescued``: how many rows have ``_rescued_data``."""

    batch: pa.RecordBatch
    keys_sorted: bool
    unknown: P_co
    rescued: int


class Decoder(Protocol[P_co]):
    """Decodes under one plan. Nothing of a document is lost: what fits no column is in ``_rescued_data``."""

    def decode(self, raw: bytes) -> Decoded[P_co]:
        """Concatenated documents (below 2 GiB). Raises MalformedBson when the bytes are no documents, MissingId when
        one has no ``_id``."""

    def decode_documents(
        self, keys: Sequence[str] | pa.StringArray, documents: Sequence[bytes | None]
    ) -> Decoded[P_co]:
        """Single documents whose keys are known. None gives a row with its key and nothing else."""


class Layout(Protocol[P]):
    """Without state, and can be pickled."""

    @property
    def name(self) -> str: ...

    def least_plan(self) -> P:
        """The plan that every other one contains: merged into another it changes nothing."""

    def plan_from_json(self, text: str) -> P:
        """The plan that ``to_json`` wrote. Raises ValueError for anything else, with the part that is wrong."""

    def observe(self, raw: bytes) -> P:
        """The plan that concatenated documents would like."""

    def arrow_schema(self, plan: P) -> pa.Schema:
        """``_key``, the plan's columns, ``_rescued_data``."""

    def spark_schema(self, plan: P) -> StructType:
        """The same for Spark."""

    def comments(self, plan: P) -> Mapping[str, str]:
        """What each of the plan's columns holds, in a few words for people, without quotes."""

    def missing_columns(self, table: StructType, plan: P) -> list[Missing]:
        """What to add to a table so that it has the plan's columns, the table's own kept last."""

    def others_fields(self, table: StructType, old: P, new: P) -> list[Path]:
        """Fields that ``new`` (which grew from ``old``, the table's plan) would add where the table has a field of such
        a name already: it is not ours."""

    def decoder(self, plan: P, shard_key: ShardKey = ()) -> Decoder[P]:
        """``shard_key``: the fields that identify a document besides ``_id`` (`streaming.keys.shard_keys`)."""

    def reshape(self, rows: DataFrame, have: P, want: P) -> DataFrame:
        """``rows`` that were decoded under the plan ``have``, with the columns of ``want``, which grew from it; their
        other columns stay as they are."""

    def documents(self, plan: P, rows: pa.RecordBatch) -> list[bytes]:
        """The content of each row's document, as canonical bytes (`streaming.canonical.documents`). It shares no code
        with the decoder, which is verified by it. Raises UnreadableRescuedData where a row's columns and rescued data
        do not fit one another."""


AnyLayout = Layout[Any]
"""For code that only hands plans back to the layout that made them."""

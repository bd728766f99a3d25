"""A table's side of ``verify``: the contents of its rows by key, by the plan that the table itself names."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from snapshotter.verification.comparison import CONTENTS
from streaming.canonical.documents import content_hash
from streaming.column_names import KEY, RESCUED_DATA
from streaming.delta.table_properties import PLAN_PROPERTY
from streaming.layout import AnyLayout, TablePlan
from streaming.mongo.errors import DefiniteError


def plan_of(layout: AnyLayout, text: str | None, path: str) -> Any:
    """The plan of the table at ``path``, as ``layout`` reads the ``text`` of its property. Raises DefiniteError where
    it has none."""
    if text is None:
        raise DefiniteError(f"the table at {path} was not made by snapshotter: no property {PLAN_PROPERTY}")
    return layout.plan_from_json(text)


def columns_of(plan: TablePlan) -> list[str]:
    """What is read of each row, in this order."""
    return [KEY, *plan.names, RESCUED_DATA]


def contents(rows: pa.RecordBatch, layout: AnyLayout, plan: TablePlan, whole: bool) -> pa.RecordBatch:
    """`CONTENTS` of ``rows``, which have `columns_of` the plan by any names. ``layout`` makes documents of them.
    ``whole``: contents are canonical bytes, not hashes."""
    documents = layout.documents(plan, rows.rename_columns(columns_of(plan)))
    if not whole:
        documents = [content_hash(document) for document in documents]
    return pa.RecordBatch.from_arrays([rows.column(0), pa.array(documents, pa.binary())], schema=CONTENTS)

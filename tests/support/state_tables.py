"""State tables of typed columns, as most tests want them."""

from __future__ import annotations

from functools import partial

from streaming.decode.streamed_rows import table_schema
from streaming.delta.state_merge import DELETION_VECTORS
from streaming.delta.state_table import StateTable
from streaming.layouts.columns.layout import COLUMNS

columns_table = partial(StateTable, COLUMNS)
state_schema = partial(table_schema, COLUMNS)
MERGED = {DELETION_VECTORS: "false"}
"""Settings under which Delta's own MERGE lands what our own writer would."""

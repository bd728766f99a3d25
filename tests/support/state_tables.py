"""State tables of typed columns, as most tests want them."""

from __future__ import annotations

from functools import partial

from streaming.decode.streamed_rows import table_schema
from streaming.delta.state_table import StateTable
from streaming.layouts.columns.layout import COLUMNS

columns_table = partial(StateTable, COLUMNS)
state_schema = partial(table_schema, COLUMNS)

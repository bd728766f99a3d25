"""What an event says of itself beside its document: its transaction, and what an update has changed.

A state table has it only where a configuration adds such columns (`streaming.delta.further_columns`). Then it goes with
the row of the event as one more column, `NAME`, which the table takes its columns from and never has itself. A row that
no event has written, a READ's, has none.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType

NAME = "_said"
TRUNCATED = StructType([StructField("field", StringType()), StructField("size", IntegerType())])
TYPE = StructType(
    [
        StructField("transaction_id", StringType()),
        StructField("total_order", LongType()),
        StructField("data_collection_order", LongType()),
        StructField("lsid", StringType()),
        StructField("txn_number", LongType()),
        StructField("wall_ms", LongType()),
        StructField("removed", ArrayType(StringType())),
        StructField("updated", StringType()),
        StructField("truncated", ArrayType(TRUNCATED)),
    ]
)
ARROW_TYPE: pa.DataType = to_arrow_type(TYPE, timezone="UTC")

OF_SOURCE = ("operation_type", "update_description", "lsid", "txn_number")
"""The columns of the source that it is made of, beside those of every event."""
OF_TRANSACTIONS = ("total_order", "data_collection_order")
"""And those that come of a look at all events of a transaction."""

Details = Callable[[pa.RecordBatch], pa.Array]
"""Makes an array of `ARROW_TYPE` of events with all of these columns."""

"""What events say of themselves, as columns of state tables have it: in the words of the envelope.

Where the envelope leaves out a field, or a whole part, there is null: of an event outside of transactions, of an update
that was a replacement, of a list of fields that is empty.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streaming.decode.change_details import ARROW_TYPE, OF_SOURCE, OF_TRANSACTIONS, Details
from streaming.events.envelope import JsonSerialization, session_text, transaction_id, update_texts


def details_of(serialization: JsonSerialization) -> Details:
    """What makes them, with the changed fields of updates written as ``serialization`` says."""
    return partial(_details, serialization)


def _details(serialization: JsonSerialization, events: pa.RecordBatch) -> pa.Array:
    walls = pc.cast(events.column("wall_time"), pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    rows = zip(events.select([*OF_SOURCE, *OF_TRANSACTIONS]).to_pylist(), walls.to_pylist(), strict=True)
    return pa.array([_of(serialization, row, wall) for row, wall in rows], ARROW_TYPE)


def _of(serialization: JsonSerialization, row: dict[str, Any], wall: int | None) -> dict[str, Any]:
    found: dict[str, Any] = {"wall_ms": wall}
    if row["txn_number"] is not None and row["lsid"] is not None:
        found |= {
            "transaction_id": transaction_id(row["lsid"], row["txn_number"]),
            "lsid": session_text(row["lsid"]),
            "txn_number": row["txn_number"],
            **{name: row[name] for name in OF_TRANSACTIONS},
        }
    if row["operation_type"] == "update" and row["update_description"] is not None:
        update = update_texts(serialization, row["update_description"])
        found |= {
            "removed": update["removedFields"],
            "updated": update["updatedFields"],
            "truncated": update["truncatedArrays"],
        }
    return found

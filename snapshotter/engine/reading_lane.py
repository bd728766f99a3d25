"""How the lane of a run reads: by the engine's options (`snapshotter.reading.request_lane`)."""

from __future__ import annotations

from typing import Any

from snapshotter.engine.run_context import RunContext
from snapshotter.reading.document_errors import DocumentFailures

_CHUNK_MARGIN = 4
"""By how much the first chunks, planned by the size of an average document, may be larger than what chunks aim at."""
_READ_AT_ONCE = 32_000
"""How many documents of small chunks one job reads."""


def how_to_read(context: RunContext) -> dict[str, Any]:
    """What a `Lane` is made of, but for what is the run's own."""
    config = context.config
    exact = config.limits.chunk_docs
    return {
        "spark": context.spark,
        "client": context.client,
        "uri": config.uri,
        "layout": config.layout,
        "plan_for": context.tables.plan,
        "folder_for": context.tables.folder if config.limits.writes_files else lambda _: None,
        "rows_in": context.tables.keys_within,
        "captures": config.captures_data,
        "failures": DocumentFailures(config.failures.fails, context.hints.request_batch),
        "readers": config.limits.readers,
        "reads_shared": 1 if exact is None else max(1, _READ_AT_ONCE // exact),
        "fetch_size": config.fetch_size,
        "fields": config.fields,
        "tells": None if config.envelope is None else config.envelope.serialization,
        "chunk_bytes": None if exact is not None else _CHUNK_MARGIN * config.limits.chunk_bytes_target,
    }

"""What targets have in common that only append rows to a small table beside the engine's state.

Rows come with a batch, in one commit that records it: Delta skips a batch that is sent again. Such a table takes
whatever a batch tells of itself, so it asks nothing of the events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql import SparkSession

from snapshotter.landing.frames import frame_of
from snapshotter.landing.targets.target import Identity, Need, Promise
from streaming.delta.state_merge import append, session_of_few


class AppendedTable:
    """The table at ``path``, made by its first row. ``app_id`` as for state tables: asked for in a batch. ``folder`` is
    its name, and that of its folder; ``schema`` that of its rows."""

    folder: ClassVar[str]
    schema: ClassVar[pa.Schema]

    def __init__(self, spark: SparkSession, path: str, app_id: Callable[[], str]) -> None:
        self._session = session_of_few(spark)
        self._path = path
        self._app_id = app_id

    @property
    def name(self) -> str:
        return self.folder

    @property
    def promises(self) -> Promise:
        return Promise.EXACTLY_ONCE

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset()

    def append(self, rows: Sequence[Mapping[str, Any]], identity: Identity) -> None:
        """Append these rows, as the batch of this ``identity``."""
        frame = frame_of(self._session, pa.Table.from_pylist(list(rows), self.schema)).coalesce(1)
        said = json.dumps(identity.metadata)
        append(self._path, frame, f"{self._app_id()}:{self.folder}", identity.batch_id, said)

"""What targets have in common that only append rows to a small table beside the engine's state.

Rows come with a batch, in one commit that records it: Delta skips a batch that is sent again. Such a table takes
whatever a batch tells of itself, so it asks nothing of the events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
import structlog
from pyspark.sql import SparkSession

from snapshotter.landing.frames import frame_of
from snapshotter.landing.targets.target import Identity, Need, Promise
from snapshotter.log import OLD_COMMITS, warn_of
from streaming.delta.small_table import SmallTable
from streaming.delta.state_merge import session_of_few

_log = structlog.get_logger("snapshotter.landing")


class AppendedTable:
    """The table at ``path``, made by its first row. ``app_id`` as for state tables: asked for in a batch. ``folder`` is
    its name, and that of its folder; ``schema`` that of its rows."""

    folder: ClassVar[str]
    schema: ClassVar[pa.Schema]

    def __init__(self, spark: SparkSession, path: str, app_id: Callable[[], str]) -> None:
        self._session = session_of_few(spark)
        self._table = SmallTable(self._session, path, partial(warn_of, _log, OLD_COMMITS, table=self.folder))
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
        self._table.append(frame, f"{self._app_id()}:{self.folder}", identity.batch_id, said)

"""Heartbeats as a target: a row now and then with the position, in a Delta table beside the engine's state
(``heartbeat.interval.ms``).

The position needs none of them: it moves with the server's own time, also while nothing that is captured changes. They
are for whoever watches the tables, and cannot see from a quiet one whether anybody still follows the stream. So a batch
without any event brings one too, once the interval is over; there are never more of them than batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import SparkSession

from snapshotter.landing.targets.appended import AppendedTable
from snapshotter.landing.targets.target import Contents, Landed
from streaming.positions import ClusterTime

FOLDER = "heartbeats"
SCHEMA = pa.schema(
    [
        ("server_name", pa.string()),
        ("ts_ms", pa.int64()),
        ("_cluster_time", pa.int64()),
        ("resume_token", pa.string()),
        ("batch", pa.int64()),
    ]
)
"""``ts_ms``: when it was written, by the engine's clock; ``_cluster_time``: all up to it is in the tables with this
batch; ``resume_token``: base64, of the last split of the batch."""


class HeartbeatTable(AppendedTable):
    """The table at ``path`` of the source ``server_name``, with a row every ``interval_ms`` at most. ``app_id`` as for
    state tables. ``now`` gives seconds from any origin."""

    folder, schema = FOLDER, SCHEMA

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        app_id: Callable[[], str],
        server_name: str,
        interval_ms: int,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(spark, path, app_id)
        self._server_name = server_name
        self._interval_ms = interval_ms
        self._now = now
        self._beat: float | None = None

    def land(self, contents: Contents) -> Landed:
        """Append a heartbeat, if the last one is long enough ago."""
        now = self._now()
        if self._beat is not None and (now - self._beat) * 1_000 < self._interval_ms:
            return Landed()
        said = contents.identity.metadata
        row = {
            "server_name": self._server_name,
            "ts_ms": int(time.time() * 1_000),
            "_cluster_time": ClusterTime.from_json(said["position"]).to_int(),
            "resume_token": said.get("resume_token"),
            "batch": contents.identity.batch_id,
        }
        self.append([row], contents.identity)
        self._beat = now
        return Landed()

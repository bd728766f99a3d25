"""The outbox as a target: a batch's events as records for Kafka topics, in one commit (`snapshotter.outbox`).

Each event is one record, in the envelope of Debezium's; a delete's tombstone follows it. With
``provide.transaction.metadata`` the transactions of the batch are told too, and with ``heartbeat.interval.ms`` a
heartbeat comes when it is due, with a batch that may have nothing else. Where nothing is to be sent nothing is
written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from snapshotter.landing.frames import frame_of
from snapshotter.landing.targets.target import Contents, Landed, Need, Promise
from snapshotter.landing.targets.transactions import told_in
from snapshotter.outbox import records
from snapshotter.outbox.table import Outbox
from snapshotter.outbox.topics_config import TopicsConfig
from streaming.events.envelope import Envelope, of_events, transaction_orders
from streaming.positions import ClusterTime


class OutboxTarget:
    """Appends to ``outbox`` what ``config`` says of the events, told as ``envelope`` says. ``app_id`` as for state
    tables. ``now`` gives seconds from any origin."""

    def __init__(
        self,
        outbox: Outbox,
        config: TopicsConfig,
        envelope: Envelope,
        app_id: Callable[[], str],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outbox, self._config, self._envelope, self._app_id = outbox, config, envelope, app_id
        self._now = now
        self._beat: float | None = None

    @property
    def name(self) -> str:
        return "outbox"

    @property
    def promises(self) -> Promise:
        return Promise.EXACTLY_ONCE

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.DOCUMENTS, Need.BEFORE_IMAGES, Need.ORDER})

    def land(self, contents: Contents) -> Landed:
        """Append the batch's records: of all its events, whatever becomes of single collections."""
        at_ns, beats = time.time_ns(), self._beats()
        transactions = list(told_in(contents)) if self._config.transactions else []
        events = contents.events.where(F.col("op").isNotNull())
        streams = not events.isEmpty()
        if not (streams or transactions or beats):
            return Landed()
        orders = transaction_orders(contents.events) if transactions else None

        def frame(stretch: int) -> DataFrame:
            told = list(records.of_transactions(transactions, self._config, stretch))
            told += [self._heartbeat(contents.identity.metadata, at_ns, stretch)] if beats else []
            parts = []
            if streams:
                envelopes = of_events(events, self._envelope, at_ns, orders)
                parts.append(records.of_envelopes(envelopes, self._config, stretch))
            if told:
                made = pa.Table.from_pylist(told, records.ARROW_SCHEMA)
                parts.append(frame_of(contents.events.sparkSession, made).coalesce(1))
            return parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])

        identity = contents.identity
        self._outbox.append(frame, f"{self._app_id()}:{self.name}", identity.batch_id, identity.metadata)
        if beats:
            self._beat = self._now()
        return Landed()

    def _beats(self) -> bool:
        """Whether a heartbeat is due."""
        every = self._config.heartbeat_ms
        if not every:
            return False
        return self._beat is None or (self._now() - self._beat) * 1_000 >= every

    def _heartbeat(self, said: Mapping[str, Any], at_ns: int, stretch: int) -> dict[str, Any]:
        position = ClusterTime.from_json(said["position"]).to_int()
        return records.heartbeat(self._config, at_ns // 1_000_000, position, stretch)

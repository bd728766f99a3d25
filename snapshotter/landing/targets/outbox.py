"""The outbox as a target: a batch's events as records for Kafka topics, in one commit (`snapshotter.outbox`).

Each event is one record, in the envelope of Debezium's; a delete's tombstone follows it. Each READ of a window that
closes is one too, unless an event supersedes it. With ``provide.transaction.metadata`` the batch's transactions are
told too, and with ``heartbeat.interval.ms`` a heartbeat comes when it is due, with a batch that may have nothing else.
Where nothing is to be sent nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from hashlib import sha256
from typing import Any

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from snapshotter.landing.frames import frame_of, in_landing_pool
from snapshotter.landing.targets.side_by_side import lost_reads
from snapshotter.landing.targets.target import (
    Contents,
    Identity,
    Landed,
    Need,
    Promise,
)
from snapshotter.landing.targets.telling import Task, Tell
from snapshotter.landing.targets.told_reads import ToldReads, write
from snapshotter.landing.targets.transactions import told_in
from snapshotter.outbox import records
from snapshotter.outbox.table import SCHEMA, Outbox, Place, Records
from snapshotter.outbox.topics_config import TopicsConfig
from streaming.delta.new_files import NewFile
from streaming.events.envelope import Envelope, of_events, transaction_orders
from streaming.events.read_envelopes import ReadTeller
from streaming.json_text import to_text
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

_log = structlog.get_logger("snapshotter.topics")
_DIGEST_DIGITS = 16


class OutboxTarget:
    """Appends to ``outbox`` what ``config`` says of the events, told as ``envelope`` says. ``app_id`` as for state
    tables. ``now`` gives seconds from any origin, ``clock`` nanoseconds since 1970."""

    def __init__(
        self,
        outbox: Outbox,
        config: TopicsConfig,
        envelope: Envelope,
        app_id: Callable[[], str],
        now: Callable[[], float] = time.monotonic,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._outbox, self._config, self._envelope, self._app_id = outbox, config, envelope, app_id
        self._now, self._clock = now, clock
        self._beat: float | None = None
        self._landed: int | None = None
        self._seen: set[Namespace] = set()

    @property
    def name(self) -> str:
        return "outbox"

    @property
    def promises(self) -> Promise:
        return Promise.EXACTLY_ONCE

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.DOCUMENTS, Need.BEFORE_IMAGES, Need.ORDER})

    @property
    def _app(self) -> str:
        return f"{self._app_id()}:{self.name}"

    def recorded(self, namespaces: Iterable[Namespace], batch_id: int) -> frozenset[Namespace]:
        """As `EventTarget.recorded`: a batch has one commit here, for all collections."""
        newest = self._outbox.recorded(self._app)
        return frozenset(namespaces) if newest is not None and newest >= batch_id else frozenset()

    def land(self, contents: Contents) -> Landed:
        """As `Target.land`: all of the batch, or nothing, where READs are lost. Of its events all are appended,
        whatever becomes of single collections; of READs those of the collections that are to land."""
        in_landing_pool(contents.events.sparkSession)
        if self._landed == contents.identity.batch_id:
            return Landed()
        self._notice(contents.collections)
        at_ns, beats, identity = self._clock(), self._beats(), contents.identity
        try:
            told = self._told(contents, at_ns, beats=beats)
            if told is not None:
                self._outbox.append(told, self._app, identity.batch_id, identity.metadata)
        except Exception as error:
            lost = [lost_reads(one, error) for one in contents.collections.values()]
            if not any(lost):
                raise
            return Landed(lost=frozenset().union(*lost))
        self._landed = contents.identity.batch_id
        if beats:
            self._beat = self._now()
        return Landed()

    def replay(
        self, told: DataFrame, marks: Mapping[Namespace, Mapping[str, str]], identity: Identity
    ) -> frozenset[str]:
        """As `EventTarget.replay`. The commit names what it holds, so that the same again adds nothing."""
        every = sorted(mark for ops in marks.values() for mark in ops)
        digest = sha256(to_text(every).encode()).hexdigest()[:_DIGEST_DIGITS]

        def made(place: Place) -> Records:
            return Records(records.of_envelopes(told, self._config, place.number))

        self._outbox.append(made, f"{self._app}:replays:{digest}", 0, identity.metadata)
        return frozenset(every)

    def _told(self, contents: Contents, at_ns: int, *, beats: bool) -> Callable[[Place], Records] | None:
        """The batch's records, given their place; None where there are none."""
        transactions = list(told_in(contents)) if self._config.transactions else []
        orders = transaction_orders(contents.events) if transactions else None
        reads = any(
            not closing.superseded for one in contents.collections.values() for closing in one.closings
        )
        events = contents.events.where(F.col("op").isNotNull())
        envelopes = None if events.isEmpty() else of_events(events, self._envelope, at_ns, orders)
        if not (reads or envelopes is not None or transactions or beats):
            return None

        def made(place: Place) -> Records:
            number = place.number
            told = list(records.of_transactions(transactions, self._config, number))
            told += [self._heartbeat(contents.identity.metadata, at_ns, number)] if beats else []
            parts, files = self._reads(contents, at_ns, place)
            if envelopes is not None:
                parts.append(records.of_envelopes(envelopes, self._config, number))
            if told:
                table = pa.Table.from_pylist(told, records.ARROW_SCHEMA)
                parts.append(frame_of(contents.events.sparkSession, table).coalesce(1))
            return Records(reduce(DataFrame.unionByName, parts) if parts else None, files)

        return made

    def _reads(self, contents: Contents, at_ns: int, place: Place) -> tuple[list[DataFrame], list[NewFile]]:
        """The records of READs: frames, and files, which one job writes for all collections."""
        spark, envelope = contents.events.sparkSession, self._envelope
        every = {name: ToldReads(spark, one, envelope) for name, one in contents.collections.items()}
        folder = place.make_folder() if any(reads.in_files for reads in every.values()) else None
        frames: list[DataFrame] = []
        tasks: list[Task] = []
        for namespace, reads in every.items():
            of = records.ReadRecords(ReadTeller(envelope, at_ns, namespace), self._config.names.of(namespace))
            in_stretch = replace(of, stretch=place.number)
            if (found := reads.frame(in_stretch.batches, SCHEMA, written=folder is not None)) is not None:
                frames.append(found)
            if folder is not None and reads.in_files:
                tasks += reads.tasks(Tell(of.batches, records.FILE_SCHEMA, records.DISTINCT))
        written = () if folder is None else write(spark, tasks, folder)
        return frames, [replace(file, partition=place.partition) for file in written]

    def _notice(self, namespaces: Collection[Namespace]) -> None:
        """Say it, once, where collections come to share a topic."""
        if self._seen.issuperset(namespaces):
            return
        self._seen.update(namespaces)
        for topic, those in self._config.names.shared(self._seen).items():
            names = tuple(map(str, those))
            if self._outbox.shared.get(topic) != names:
                self._outbox.shared[topic] = names
                _log.warning("collections share a topic", topic=topic, collections=names)

    def _beats(self) -> bool:
        """Whether a heartbeat is due."""
        every = self._config.heartbeat_ms
        if not every:
            return False
        return self._beat is None or (self._now() - self._beat) * 1_000 >= every

    def _heartbeat(self, said: Mapping[str, Any], at_ns: int, stretch: int) -> dict[str, Any]:
        position = ClusterTime.from_json(said["position"]).to_int()
        return records.heartbeat(self._config, at_ns // 1_000_000, position, stretch)

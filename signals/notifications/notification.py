"""What operators are notified of, in Debezium's documented shape.

A notification is a value: the id of the request it belongs to, what kind of snapshot that is (the aggregate type), what
happened (the type), a map of texts, and a moment. ``Subject`` makes them, with exactly the additional data that is
documented for each aggregate type and type. Beside Debezium's there are three types of our own: ``FAILED``, which says
why, ``STOPPED``, for a request that an operator ended, and ``SUSPENDED``, for a collection whose changes no longer
land.

A blocking snapshot is reported as an ``Initial Snapshot``, as Debezium does. Every notification, an initial snapshot's
too, carries its request's own id, so that those of two requests can be told apart.

Pure: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Aggregate(StrEnum):
    """What a notification is about. ``INITIAL`` stands for blocking snapshots too; ``POSITION`` is ours, and so are
    ``ENGINE``, for the health of the engine as a whole, and ``DEAD_LETTERS``."""

    INITIAL = "Initial Snapshot"
    INCREMENTAL = "Incremental Snapshot"
    POSITION = "Position"
    ENGINE = "Engine"
    DEAD_LETTERS = "Dead Letters"


class Kind(StrEnum):
    """What happened. From ``STOPPED`` on they are ours, but for ``SKIPPED``."""

    STARTED = "STARTED"
    IN_PROGRESS = "IN_PROGRESS"
    PAUSED = "PAUSED"
    RESUMED = "RESUMED"
    TABLE_SCAN_COMPLETED = "TABLE_SCAN_COMPLETED"
    COMPLETED = "COMPLETED"
    ABORTED = "ABORTED"
    STOPPED = "STOPPED"
    SKIPPED = "SKIPPED"
    FAILED = "FAILED"
    SUSPENDED = "SUSPENDED"
    GAP_OPENED = "GAP_OPENED"
    GAP_CLOSED = "GAP_CLOSED"


class ScanStatus(StrEnum):
    """How a collection's scan ended, of ``TABLE_SCAN_COMPLETED``."""

    SUCCEEDED = "SUCCEEDED"
    EMPTY = "EMPTY"
    SKIPPED = "SKIPPED"
    NO_PRIMARY_KEY = "NO_PRIMARY_KEY"
    SQL_EXCEPTION = "SQL_EXCEPTION"
    UNKNOWN_SCHEMA = "UNKNOWN_SCHEMA"


DOCUMENTED = frozenset(
    {
        "connector_name",
        "data_collections",
        "current_collection_in_progress",
        "maximum_key",
        "last_processed_key",
        "scanned_collection",
        "total_rows_scanned",
        "status",
        "failed_collection",
        "error",
    }
)
"""Every name of additional data."""
NO_KEY = "<null>"
"""What stands for a key where there is none."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One thing that happened to one request. ``timestamp_ms`` is milliseconds since the epoch."""

    id: str
    aggregate_type: str
    type: str
    additional_data: Mapping[str, str]
    timestamp_ms: int

    def key_to_json(self) -> str:
        """The key of a record: one request's records have one key, so a topic keeps their order."""
        return json.dumps({"id": self.id}, ensure_ascii=False)

    def to_json(self) -> str:
        """The value of a record."""
        return json.dumps(
            {
                "id": self.id,
                "aggregate_type": self.aggregate_type,
                "type": self.type,
                "additional_data": dict(self.additional_data),
                "timestamp": self.timestamp_ms,
            },
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str) -> Notification:
        """The notification of a record's value. Raises ValueError for a text that is none."""
        try:
            value = json.loads(text)
            data = {str(name): str(item) for name, item in value["additional_data"].items()}
            # Debezium's documentation shows the timestamp as text, its records have a number.
            return cls(value["id"], value["aggregate_type"], value["type"], data, int(value["timestamp"]))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"is no notification ({error!r}): {text[:200]!r}") from error


@dataclass(frozen=True, slots=True)
class Subject:
    """The request that notifications are about. ``connector`` is ``topic.prefix``; ``collections`` are all that the
    request names, in its order. Everywhere ``at_ms`` is milliseconds since the epoch."""

    id: str
    aggregate: Aggregate
    connector: str
    collections: tuple[str, ...] = ()

    def started(self, at_ms: int) -> Notification:
        return self._made(Kind.STARTED, at_ms, self._listed())

    def paused(self, at_ms: int) -> Notification:
        return self._made(Kind.PAUSED, at_ms, self._listed())

    def resumed(self, at_ms: int) -> Notification:
        return self._made(Kind.RESUMED, at_ms, self._listed())

    def in_progress(
        self, at_ms: int, collection: str, *, maximum_key: str = NO_KEY, last_processed_key: str = NO_KEY
    ) -> Notification:
        """By ``at_ms`` a chunk of ``collection`` has landed: all ids up to ``last_processed_key``, of those up to
        ``maximum_key``. Both are texts for people; only incremental snapshots have them."""
        data = {"current_collection_in_progress": collection}
        if self.aggregate is Aggregate.INCREMENTAL:
            data |= {"maximum_key": maximum_key, "last_processed_key": last_processed_key}
        return self._made(Kind.IN_PROGRESS, at_ms, self._listed() | data)

    def table_scan_completed(
        self, at_ms: int, collection: str, status: ScanStatus, *, rows: int = 0
    ) -> Notification:
        """By ``at_ms`` the reading of ``collection`` has ended, as ``status`` says. ``rows`` were read, superseded ones
        included; only incremental snapshots tell them."""
        data = {"scanned_collection": collection, "status": status.value}
        if self.aggregate is Aggregate.INCREMENTAL:
            data["total_rows_scanned"] = str(rows)
        return self._made(Kind.TABLE_SCAN_COMPLETED, at_ms, self._listed() | data)

    def completed(self, at_ms: int) -> Notification:
        return self._made(Kind.COMPLETED, at_ms, {})

    def skipped(self, at_ms: int) -> Notification:
        """There is nothing to do; of an initial snapshot: the mode asks for none."""
        return self._made(Kind.SKIPPED, at_ms, {})

    def aborted(self, at_ms: int, collections: Iterable[str]) -> Notification:
        """The request has ended, and these collections were not read to their end."""
        return self._made(Kind.ABORTED, at_ms, self._listed(collections))

    def stopped(self, at_ms: int, collections: Iterable[str]) -> Notification:
        """An operator has ended the reading of these collections."""
        return self._made(Kind.STOPPED, at_ms, self._listed(collections))

    def failed(self, at_ms: int, error: str, collection: str | None = None) -> Notification:
        """At ``at_ms`` ``collection``, or the request as a whole, could not be read further; ``error`` says why."""
        data = {"error": error} | ({"failed_collection": collection} if collection else {})
        return self._made(Kind.FAILED, at_ms, self._listed() | data)

    def suspended(self, at_ms: int, collection: str, error: str) -> Notification:
        """From ``at_ms`` on nothing of ``collection`` lands; ``error`` says why."""
        return self._made(Kind.SUSPENDED, at_ms, {"error": error, "failed_collection": collection})

    def gap(self, kind: Kind, at_ms: int, error: str) -> Notification:
        """At ``at_ms`` a gap has opened or closed (``kind``). ``error`` is what the source said of the position."""
        return self._made(kind, at_ms, {"error": error} if error else {})

    def _listed(self, collections: Iterable[str] | None = None) -> dict[str, str]:
        """Only incremental snapshots list their collections: Debezium lists none for MongoDB's initial ones."""
        if self.aggregate is Aggregate.INITIAL:
            return {}
        return {"data_collections": ",".join(self.collections if collections is None else collections)}

    def _made(self, kind: Kind, at_ms: int, data: Mapping[str, str]) -> Notification:
        whole = {"connector_name": self.connector, **data}
        return Notification(self.id, self.aggregate.value, kind.value, whole, at_ms)


def of_health(engine: str, health: str, connector: str, at_ms: int, data: Mapping[str, str]) -> Notification:
    """At ``at_ms`` the ``health`` of an ``engine`` has become another: ``ACTIVE``, ``PAUSED`` or ``BROKEN`` is the
    type, and ``data`` says more of it. ``connector`` is ``topic.prefix``."""
    whole = {"connector_name": connector, "health": health, **data}
    return Notification(engine, Aggregate.ENGINE.value, health.upper(), whole, at_ms)


def of_dead_letters(connector: str, at_ms: int, data: Mapping[str, str]) -> Notification:
    """At ``at_ms`` a batch has written dead letters, of the type ``WRITTEN``; ``data`` has the ``batch``, and says how
    many and why. ``connector`` is ``topic.prefix``."""
    whole = {"connector_name": connector, **data}
    identity = f"dead-letters-{data['batch']}"
    return Notification(identity, Aggregate.DEAD_LETTERS.value, "WRITTEN", whole, at_ms)

"""Snapshots from a notebook or a script: ask for one, control it, wait for it, see what became of earlier ones.

    from signals import SnapshotClient

    client = SnapshotClient("mongodb://…", "shop.signals")
    request = client.execute("shop.orders", filters={"shop.orders": {"status": "open"}})
    print(client.wait(request).rows)

It needs MongoDB and nothing else: no Spark, and no access to the engine. Signals go into the signal collection (or into
a Kafka topic), and the engine writes what becomes of them into the status collection beside it. Every signal is checked
here first, by the engine's own parser, so that a mistake is an error at once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from bson import MaxKey, ObjectId
from bson.codec_options import CodecOptions
from pymongo import MongoClient
from pymongo.collection import Collection

from signals.actions import (
    Action,
    Condition,
    ExecuteSnapshot,
    IdRange,
    Log,
    PauseSnapshot,
    PauseStream,
    Restart,
    ResumeSnapshot,
    ResumeStream,
    SnapshotType,
    StopSnapshot,
    Write,
    fields_of,
)
from signals.channels.source_channel import SourceChannel
from signals.client.kafka_sender import KafkaSender
from signals.client.progress_bar import showing
from signals.errors import MalformedSignal, shown
from signals.outcomes import STATUS_SUFFIX, SnapshotStatus, current, foremost
from signals.parsing.extended_json import NotExtendedJson, canonical
from signals.parsing.payload_fields import write_of
from signals.parsing.signal import parse_signal

if TYPE_CHECKING:
    import pandas as pd

_POLL_SECONDS = 0.2
_OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(document_class=dict, tz_aware=True)
COLUMNS = (
    *("id", "state", "origin", "engine", "collection", "collection_state", "rows", "dropped", "deleted"),
    *("chunks", "estimated", "error", "next_step", "updated_at"),
)
"""Of ``history_frame``."""


class NoStatusCollection(RuntimeError):
    """This client knows no status collection to read the outcome from."""


class Sender(Protocol):
    """What carries signals to the engine."""

    def send(self, action: Action) -> str:
        """Send it, and return its id; it is not lost when this returns."""


class SnapshotClient:
    """``client``: a connection string, or a MongoClient, which stays the caller's. ``signal_collection`` is the
    engine's ``signal.data.collection``, as ``database.collection``. With ``sender`` signals go another way, and the
    signal collection is only what the status collection lies beside."""

    def __init__(
        self, client: MongoClient[Any] | str, signal_collection: str, sender: Sender | None = None
    ) -> None:
        mongo: MongoClient[Any] = MongoClient(client) if isinstance(client, str) else client
        source = SourceChannel(mongo, signal_collection)  # checks the name, too
        database, _, name = signal_collection.partition(".")
        self._statuses: Collection[dict[str, Any]] | None = mongo[database].get_collection(
            name + STATUS_SUFFIX, codec_options=_OPTIONS
        )
        self._sender: Sender = sender or source

    @classmethod
    def over_kafka(
        cls,
        bootstrap_servers: str,
        topic: str,
        prefix: str,
        client: MongoClient[Any] | str | None = None,
        signal_collection: str | None = None,
        producer: Mapping[str, str] | None = None,
    ) -> Self:
        """Send through a Kafka ``topic`` at ``bootstrap_servers`` (``host:port``, separated by commas).

        ``prefix`` is the engine's ``topic.prefix``: it ignores messages with another key. ``producer``: more properties
        for Kafka's client, by librdkafka's names. The outcome can only be read with ``client`` and
        ``signal_collection``; one without the other raises ValueError."""
        sender = KafkaSender(bootstrap_servers, topic, prefix, producer)
        if client is not None and signal_collection is not None:
            return cls(client, signal_collection, sender)
        if client is not None or signal_collection is not None:
            raise ValueError(
                "the outcome is read with a client and a signal_collection: give both, or neither"
            )
        made = cls.__new__(cls)
        made._sender, made._statuses = sender, None
        return made

    # Signals

    def execute(
        self,
        *collections: str,
        filters: Mapping[str, Mapping[str, Any] | str] | None = None,
        keys: Iterable[Any] = (),
        id_range: tuple[Any, Any] | None = None,
        reconcile: bool = False,
        write: str = Write.CHANGED,
        priority: int = 0,
        blocking: bool = False,
        dry_run: bool = False,
        id: str | None = None,
    ) -> str:
        """Read ``collections`` again (names, or regular expressions for whole names); returns the request's id.

        ``filters``: a query document for each collection, or its Extended JSON text. ``keys``: single ids.
        ``id_range``: the first and the last id, both included, None for no end on that side. ``reconcile`` deletes rows
        in what is read that are missing at source. ``write``: "changed" writes what differs from the table's rows, and
        "all" whatever is read. Requests of a higher ``priority`` come first; it may be negative.
        ``blocking``: nothing else is read meanwhile, and the stream waits. ``dry_run``: nothing is read, and the
        ``answer`` of the status says what would be. Raises SignalError for what no signal can say, DuplicateSignal for
        an ``id`` that is in use.
        """
        low, high = id_range or (None, None)
        ends = (None if low is None else _text(low), None if high is None else _text(high))
        return self._send(
            ExecuteSnapshot(
                id or str(ObjectId()),
                collections,
                additional_conditions=tuple(
                    Condition(name, query if isinstance(query, str) else _text(query))
                    for name, query in (filters or {}).items()
                ),
                type=SnapshotType.BLOCKING if blocking else SnapshotType.INCREMENTAL,
                keys=tuple(map(_text, keys)),
                range=None if id_range is None else IdRange(*ends),
                reconcile=reconcile,
                write=write_of("execute", {"write": write}),
                priority=priority,
                dry_run=dry_run,
            )
        )

    def stop(self, *collections: str, requests: Iterable[str] = (), id: str | None = None) -> str:
        """End these requests at once, or only some collections of theirs; none named: all. What has landed stays."""
        return self._send(StopSnapshot(id or str(ObjectId()), collections, requests=_ids(requests)))

    def pause(self, requests: Iterable[str] = (), id: str | None = None) -> str:
        """Read no further for these requests (none named: for all) until told to resume, also over a restart."""
        return self._send(PauseSnapshot(id or str(ObjectId()), _ids(requests)))

    def resume(self, requests: Iterable[str] = (), id: str | None = None) -> str:
        """Go on with these requests (none named: with all that are paused). One that is named also goes on where it
        failed."""
        return self._send(ResumeSnapshot(id or str(ObjectId()), _ids(requests)))

    def pause_stream(self, id: str | None = None) -> str:
        """Land nothing more, also after a restart, until `resume_stream`. The engine still takes signals."""
        return self._send(PauseStream(id or str(ObjectId())))

    def resume_stream(self, id: str | None = None) -> str:
        """Go on where `pause_stream` stopped."""
        return self._send(ResumeStream(id or str(ObjectId())))

    def restart(self, id: str | None = None) -> str:
        """End the engine's run and begin another one, in its process."""
        return self._send(Restart(id or str(ObjectId())))

    def log(self, message: str, id: str | None = None) -> str:
        """Write a message to the engine's log; ``{}`` in it stands for the position in the stream."""
        return self._send(Log(id or str(ObjectId()), message))

    def _send(self, action: Action) -> str:
        return self._sender.send(parse_signal(*fields_of(action)))

    # What becomes of them

    def status(self, request_id: str, engine: str | None = None) -> SnapshotStatus | None:
        """How far a request is; None where the engine has said nothing about it yet. Where several engines share the
        signal collection, what ``engine`` says, or else the one that is still at it, or has not rejected it."""
        of_all = {"$gte": {"id": request_id}, "$lte": {"id": request_id, "engine": MaxKey()}}
        found = self._known().find({"$or": [{"_id": request_id}, {"_id": of_all}]})
        return foremost(s for s in current(found) if engine in (None, s.engine))

    def wait(
        self,
        request_id: str,
        timeout_seconds: float = 3_600,
        progress: bool = True,
        engine: str | None = None,
    ) -> SnapshotStatus:
        """Wait until the request ``request_id`` has ended, ``completed`` or ``stopped``; ``engine`` as for `status`.

        ``progress`` shows a bar, on a terminal and in a notebook. Raises SnapshotRejected or SnapshotFailed with the
        reason, and TimeoutError after ``timeout_seconds``; the request goes on then.
        """
        self._known()
        deadline = time.monotonic() + timeout_seconds
        with showing(progress) as show:
            while True:
                status = self.status(request_id, engine)
                if status is not None:
                    show(status)
                    if status.ended:
                        break
                if time.monotonic() > deadline:
                    raise TimeoutError(_late(request_id, status, timeout_seconds))
                time.sleep(_POLL_SECONDS)
        status.raise_if_bad()
        return status

    def history(self) -> list[SnapshotStatus]:
        """All requests that the engine has written about, the one that changed last at the end."""
        return current(self._known().find().sort([("updated_at", 1), ("_id", 1)]))

    def history_frame(self) -> pd.DataFrame:
        """The history as a table: a row for each collection of each request, one for a request without any."""
        import pandas as pd

        rows = [row for status in self.history() for row in _rows(status)]
        return pd.DataFrame(rows, columns=list(COLUMNS))

    def _known(self) -> Collection[dict[str, Any]]:
        if self._statuses is None:
            raise NoStatusCollection(
                "signals go through Kafka, and nothing comes back that way: make the client with client= and "
                "signal_collection= as well, and the outcome is read from the status collection"
            )
        return self._statuses


def _ids(requests: Iterable[str]) -> tuple[str, ...]:
    return (requests,) if isinstance(requests, str) else tuple(requests)


def _text(value: object) -> str:
    try:
        return canonical(value)
    except NotExtendedJson as error:
        raise MalformedSignal(f"{shown(value)} is nothing that MongoDB stores: {error}") from error


def _late(request_id: str, status: SnapshotStatus | None, seconds: float) -> str:
    if status is not None:
        return f"request {request_id!r} is {status.state} after {seconds:.0f} s; it goes on: wait again, or stop it"
    return (
        f"the engine has said nothing about request {request_id!r} in {seconds:.0f} s: check that it runs, that its "
        f"signal.data.collection is this one, and that engine.status.collection is on"
    )


def _rows(status: SnapshotStatus) -> list[dict[str, Any]]:
    whole = {
        "id": status.id,
        "state": status.state,
        "origin": status.origin,
        "engine": status.engine,
        "error": status.error,
        "next_step": status.next_step,
        "updated_at": status.updated_at,
    }
    return [
        {
            **whole,
            "collection": c.name,
            "collection_state": c.state,
            "rows": c.rows,
            "dropped": c.dropped,
            "deleted": c.deleted,
            "chunks": c.chunks,
            "estimated": c.estimated,
            "error": c.error,
        }
        for c in status.collections
    ] or [whole]

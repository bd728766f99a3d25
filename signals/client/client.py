"""Snapshots from a notebook or a script: ask for one, control it, wait for it, see what became of earlier ones.

    from signals import SnapshotClient

    with SnapshotClient("mongodb://…", "shop.signals") as client:
        request = client.execute_snapshot("shop.orders", filters={"shop.orders": {"status": "open"}})
        print(client.wait(request).rows)

It needs MongoDB and nothing else: no Spark, and no access to the engine. Signals go into the signal collection (or into
a Kafka topic), and the engine writes what becomes of them into the status collection beside it. Every signal is checked
here first, by the engine's own parser, so that a mistake is an error at once; so is a signal collection that there is
not, for what is sent there would be waited for in vain.

What is asked for has the same names and parameters as in an engine inside a program (`snapshotter.Snapshotter`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, overload

from bson import MaxKey, ObjectId
from bson.codec_options import CodecOptions
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from signals.actions import (
    Action,
    Log,
    PauseSnapshot,
    PauseStream,
    Restart,
    ResumeSnapshot,
    ResumeStream,
    StopSnapshot,
    Write,
    fields_of,
)
from signals.channels.source_channel import SourceChannel
from signals.client.kafka_sender import KafkaSender
from signals.client.progress_bar import showing
from signals.errors import SignalError, listed, unnamed
from signals.outcomes import ENDED, STATUS_SUFFIX, History, SnapshotFailed, SnapshotStatus, current, foremost
from signals.parsing.signal import parse_signal
from signals.parsing.snapshot_actions import (
    Filter,
    IdRangeOfValues,
    execute_action,
    given_keys,
    one_by_one,
)

if TYPE_CHECKING:
    import pandas as pd

_POLL_SECONDS = 0.2
_OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(document_class=dict, tz_aware=True)
COLUMNS = (
    *("id", "state", "origin", "engine", "collection", "collection_state", "rows", "dropped", "deleted"),
    *("chunks", "estimated", "error", "next_step", "updated_at"),
    *("kind", "asked", "accepted", "started", "ended", "took"),
)
"""Of ``history_frame``."""


class NoStatusCollection(RuntimeError):
    """This client knows no status collection to read the outcome from."""


class WrongSignalCollection(ValueError):
    """There is no such collection, so nobody reads signals from it."""


class UnknownRequest(SignalError):
    """A command about a request that there is not; the message has those that there are."""


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
        self._own = mongo if isinstance(client, str) else None
        self._where = (
            f"signals by {signal_collection}" if sender is None else f"status beside {signal_collection}"
        )
        self._is_there = False

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
        made._sender, made._statuses, made._own = sender, None, None
        made._where, made._is_there = f"signals by the Kafka topic {topic}", True
        return made

    def close(self) -> None:
        """Let go of the connection, if this client has made it; requests go on."""
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SnapshotClient, {self._where}>"

    # Signals

    def execute_snapshot(
        self,
        *collections: str,
        filters: Mapping[str, Filter] | None = None,
        keys: object = None,
        id_range: IdRangeOfValues | None = None,
        reconcile: bool = False,
        write: str = Write.CHANGED,
        priority: int = 0,
        blocking: bool = False,
        request_id: str | None = None,
    ) -> str:
        """Read ``collections`` again (names, or regular expressions for whole names); returns the request's id.

        ``filters``: a query document for each collection, or its Extended JSON text. ``keys``: single ids, in a list or
        the like; what is no such thing is one id. ``id_range``: the first and the last id, both included, None for no
        end on that side. ``reconcile`` deletes rows in what is read that are missing at source. ``write``: "changed"
        writes what differs from the table's rows, and "all" whatever is read. Requests of a higher ``priority`` come
        first; it may be negative. ``blocking``: nothing else is read meanwhile, and the stream waits. ``request_id`` is
        made up if None. Raises SignalError for what no signal can say, DuplicateSignal for an id that is in use,
        WrongSignalCollection.
        """
        how = {"reconcile": reconcile, "write": write, "priority": priority, "blocking": blocking}
        return self._execute(request_id, collections, filters=filters, keys=keys, id_range=id_range, **how)

    def dry_run(
        self,
        *collections: str,
        filters: Mapping[str, Filter] | None = None,
        keys: object = None,
        id_range: IdRangeOfValues | None = None,
        reconcile: bool = False,
        timeout_seconds: float = 3_600,
    ) -> Mapping[str, Any]:
        """What `execute_snapshot` would read with the same ``filters``, ``keys``, ``id_range`` and ``reconcile``: ids,
        documents, bytes, seconds. It reads nothing, and waits for the answer, ``timeout_seconds`` at most."""
        what = {"filters": filters, "keys": keys, "id_range": id_range, "reconcile": reconcile}
        asked = self._execute(None, collections, **what, dry_run=True)
        try:
            return self.wait(asked, timeout_seconds, progress=False).answer or {}
        except (SnapshotFailed, TimeoutError) as error:  # nobody has seen its id
            error.args = (str(error).replace(f"request {asked!r}", "the dry run"),)
            raise

    def stop_snapshot(
        self, *requests: str, collections: Iterable[str] = (), signal_id: str | None = None
    ) -> str:
        """End these requests (none named: all), or only some ``collections`` of theirs, at once. What has landed stays.
        Returns the signal's id (``signal_id``, or one that is made up), as all of these do. Raises UnknownRequest."""
        self._must_exist(requests)
        return self.stop(*_ids(collections), requests=requests, id=signal_id)

    def pause_snapshot(self, *requests: str, signal_id: str | None = None) -> str:
        """Read no further for these requests (none named: for all) until told to resume, also over a restart. Raises
        UnknownRequest."""
        self._must_exist(requests)
        return self.pause(requests, signal_id)

    def resume_snapshot(self, *requests: str, signal_id: str | None = None) -> str:
        """Go on with these requests (none named: with all that are paused). One that is named also goes on where it
        failed. Raises UnknownRequest."""
        self._must_exist(requests)
        return self.resume(requests, signal_id)

    def execute(
        self,
        *collections: str,
        filters: Mapping[str, Filter] | None = None,
        keys: object = (),
        id_range: IdRangeOfValues | None = None,
        reconcile: bool = False,
        write: str = Write.CHANGED,
        priority: int = 0,
        blocking: bool = False,
        dry_run: bool = False,
        id: str | None = None,
    ) -> str:
        """The older name of `execute_snapshot`, with its ``collections``, ``filters``, ``keys`` (an empty list means
        every id here), ``id_range``, ``reconcile``, ``write``, ``priority`` and ``blocking``. ``dry_run``: nothing is
        read, and the ``answer`` of the status says what would be. ``id``: the request's."""
        what = {"filters": filters, "keys": given_keys(keys) or None, "id_range": id_range}
        how = {"reconcile": reconcile, "write": write, "priority": priority, "blocking": blocking}
        return self._execute(id, collections, **what, **how, dry_run=dry_run)

    def stop(self, *collections: str, requests: Iterable[str] = (), id: str | None = None) -> str:
        """The older name of `stop_snapshot`: of these ``collections``, or of all."""
        return self._send(
            StopSnapshot(id or _made_up(), collections, requests=_ids(requests)), given=id is not None
        )

    def pause(self, requests: Iterable[str] = (), id: str | None = None) -> str:
        """The older name of `pause_snapshot`."""
        return self._send(PauseSnapshot(id or _made_up(), _ids(requests)), given=id is not None)

    def resume(self, requests: Iterable[str] = (), id: str | None = None) -> str:
        """The older name of `resume_snapshot`."""
        return self._send(ResumeSnapshot(id or _made_up(), _ids(requests)), given=id is not None)

    def pause_stream(self, signal_id: str | None = None, *, id: str | None = None) -> str:
        """Land nothing more, also after a restart, until `resume_stream`. The engine still takes signals. ``id`` is the
        older name of ``signal_id``; so it is below."""
        given = signal_id or id
        return self._send(PauseStream(given or _made_up()), given=given is not None)

    def resume_stream(self, signal_id: str | None = None, *, id: str | None = None) -> str:
        """Go on where `pause_stream` stopped."""
        given = signal_id or id
        return self._send(ResumeStream(given or _made_up()), given=given is not None)

    def restart(self, signal_id: str | None = None, *, id: str | None = None) -> str:
        """End the engine's run and begin another one, in its process."""
        given = signal_id or id
        return self._send(Restart(given or _made_up()), given=given is not None)

    def log(self, message: str, signal_id: str | None = None, *, id: str | None = None) -> str:
        """Write a message to the engine's log; ``{}`` in it stands for the position in the stream. ``signal_id`` (once
        ``id``) is made up if None."""
        given = signal_id or id
        return self._send(Log(given or _made_up(), message), given=given is not None)

    def _execute(self, given: str | None, collections: tuple[str, ...], **parts: Any) -> str:
        signal_id = given or _made_up()
        with unnamed(None if given else signal_id):
            action = execute_action(signal_id, collections, **parts)
        return self._send(action, given=given is not None)

    def _send(self, action: Action, *, given: bool) -> str:
        with unnamed(None if given else action.id):
            checked = parse_signal(*fields_of(action))
            if isinstance(self._sender, SourceChannel):
                self._check_place()
            return self._sender.send(checked)

    def _check_place(self) -> None:
        """Raises WrongSignalCollection where there is no such collection, and something in its database shows that
        another one was meant. (With no sign of that it is made by the first signal: its engine may have read none yet.)
        """
        if self._is_there or self._statuses is None:
            return
        statuses = self._statuses
        name = statuses.name.removesuffix(STATUS_SUFFIX)
        try:
            names = statuses.database.list_collection_names(authorizedCollections=True)
        except OperationFailure:
            names = [name]  # who may not look cannot tell
        self._is_there = name in names or statuses.name in names
        others = [n.removesuffix(STATUS_SUFFIX) for n in names if n.endswith(STATUS_SUFFIX)]
        meant = [n for n in others if n in names] or get_close_matches(name, names, 1)
        if not self._is_there and meant:
            database = statuses.database.name
            raise WrongSignalCollection(
                f"there is no signal collection {database}.{name}; did you mean {database}.{meant[0]}? It is what "
                f"the engine's signal.data.collection names; one that is new has to be created first"
            )

    def _must_exist(self, requests: Iterable[str]) -> None:
        """Raises MalformedSignal for what is no id, and UnknownRequest for an id that neither the engine has told of
        nor a signal has, where the engine tells of anything."""
        one_by_one("ids of requests", requests)
        if self._statuses is None or not requests:
            return
        statuses = self._known()
        told = [
            status.id for status in current(statuses.find().sort([("updated_at", -1)])) if not status.command
        ]
        signals = statuses.database[statuses.name.removesuffix(STATUS_SUFFIX)]
        missing = [r for r in requests if r not in told and signals.find_one({"_id": r}, {"_id": 1}) is None]
        if missing and told:
            raise UnknownRequest(f"there is no request {', '.join(missing)}; there are {listed(told)}")

    # What becomes of them

    @overload
    def status(self, request_id: str, engine: str | None = None) -> SnapshotStatus | None: ...

    @overload
    def status(self, request_id: None = None, engine: str | None = None) -> History: ...

    def status(
        self, request_id: str | None = None, engine: str | None = None
    ) -> SnapshotStatus | History | None:
        """How far a request is; None where the engine has said nothing about it yet. Where several engines share the
        signal collection, what ``engine`` says, or else the one that is still at it, or has not rejected it. Without a
        ``request_id``: all requests that have not ended."""
        if request_id is None:
            going_on = (
                self._known().find({"state": {"$nin": sorted(ENDED)}}).sort([("updated_at", 1), ("_id", 1)])
            )
            return History(s for s in current(going_on) if engine in (None, s.engine))
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

    def history(self) -> History:
        """All requests and commands that the engine has written about, the one that changed last at the end: of each
        what it was, when it was asked for, accepted, started and ended, and how long it took."""
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
        self._check_place()
        return self._statuses


def _ids(requests: Iterable[str]) -> tuple[str, ...]:
    return (requests,) if isinstance(requests, str) else tuple(requests)


def _made_up() -> str:
    return str(ObjectId())


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
        "kind": status.kind,
        "asked": status.asked_at,
        "accepted": status.accepted_at,
        "started": status.started_at,
        "ended": status.ended_at,
        "took": status.took_seconds,
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

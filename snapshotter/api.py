"""An engine inside a program or a notebook.

    from snapshotter import Snapshotter

    with Snapshotter("snapshotter.toml") as engine:
        request = engine.execute_snapshot("shop.orders")
        engine.wait(request)
        engine.catch_up()
        engine.table("shop.orders").rows().show()

What is asked for has the same names and parameters as in the client of an engine that runs elsewhere
(`snapshotter.SnapshotClient`). It runs on a thread of this process, and in this process's Spark session if there is one
to give it. What ends it is raised by whatever waits for it, never lost on its thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, overload

from bson import ObjectId
from pyspark.sql import DataFrame, SparkSession

from signals.actions import Log, PauseStream, Restart, ResumeStream, StopSnapshot, Write
from signals.errors import unnamed
from signals.notifications.notification import Notification
from signals.outcomes import REJECTED, History, SnapshotStatus
from signals.parsing.snapshot_actions import Filter, IdRangeOfValues, execute_action, one_by_one
from snapshotter.configuration.settings import Settings
from snapshotter.core.values.commands import Pause, Resume, Stop
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.engine import assembly
from snapshotter.errors import DefiniteError
from snapshotter.reading.catalogue import RequestRefused
from snapshotter.reporting.answers import DryRun
from snapshotter.reporting.progress_view import line
from snapshotter.reporting.status import EngineState, Status
from snapshotter.reporting.status_collection import status_of
from snapshotter.reporting.views import View
from snapshotter.reporting.window_log import LandedWindow
from snapshotter.table import Table
from snapshotter.verification.comparison import VerifyResult
from snapshotter.verification.verify import verify_collection
from streaming.mongo.deployment import majority_time
from streaming.namespaces import Namespace, listed
from streaming.positions import ORIGIN, ClusterTime

T = TypeVar("T")
_POLL_SECONDS = 0.05


class Snapshotter:
    """``settings``: a file's path, options by their dotted names, or Settings. Without ``spark`` it makes a session
    from the ``spark.*`` options, at the start or when one is first asked for, and stops it in the end. ``view`` shows
    the status as it is written; None shows nothing, and a view that is given is the caller's to open."""

    def __init__(
        self,
        settings: Settings | Mapping[str, object] | Path | str,
        spark: SparkSession | None = None,
        view: View | None = None,
    ) -> None:
        if isinstance(settings, Mapping):
            settings = Settings.from_options(settings)
        elif not isinstance(settings, Settings):
            settings = Settings.load(settings)
        self.settings = settings
        self.engine = assembly.assemble(settings, spark, view)
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def spark(self) -> SparkSession:
        """The session that was given, or the engine's own."""
        return self.engine.spark

    def start(self) -> Self:
        """Start, and return once the first batch has come, or where the stream is paused. Raises what keeps it from
        starting."""
        if self._thread is not None:
            raise DefiniteError(
                "this engine has been started already", "make a new Snapshotter to start again"
            )
        try:
            self.engine.prepare()
        except BaseException:
            self.engine.session.stop()
            raise
        self._thread = threading.Thread(
            target=self._run, name=f"snapshotter-{self.settings.name}", daemon=True
        )
        self._thread.start()
        self.until("the first batch", lambda: self.progress_batch() >= 0 or self.engine.rests)
        return self

    def stop(self) -> None:
        """End cleanly: windows in flight close and land first. Raises what ended the engine before."""
        self.engine.stop()
        if self._thread is not None:
            self._thread.join()
        self.engine.session.stop()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """The same as `stop`, by the name that ends a client too."""
        self.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Snapshotter {line(self.status())}>"

    def _repr_html_(self) -> str:
        return self.status()._repr_html_()

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
        """Read collections (names or regular expressions) again while changes flow; returns the request's id.

        ``filters``: a query document for each collection, or its Extended JSON text. ``keys`` (a list and the like, or
        one id) or ``id_range`` (lowest and highest, both included; None for no end): only these ids of the one
        collection that is named. ``reconcile``: rows that are missing at source are deleted. ``write``: "changed"
        writes what differs from the table's rows, "all" whatever is read. A higher ``priority`` comes first.
        ``blocking``: nothing else is read meanwhile, and the stream waits. ``request_id`` is made up if None; one that
        is known is not carried out again. Raises SignalError, which says why.
        """
        signal_id = request_id or str(ObjectId())
        with unnamed(None if request_id else signal_id):
            self.engine.execute_snapshot(
                execute_action(
                    signal_id,
                    collections,
                    filters=filters,
                    keys=keys,
                    id_range=id_range,
                    reconcile=reconcile,
                    write=write,
                    priority=priority,
                    blocking=blocking,
                )
            )
        return signal_id

    def dry_run(
        self,
        *collections: str,
        filters: Mapping[str, Filter] | None = None,
        keys: object = None,
        id_range: IdRangeOfValues | None = None,
        reconcile: bool = False,
    ) -> DryRun:
        """What `execute_snapshot` would read with the same ``filters``, ``keys``, ``id_range`` and ``reconcile``: ids,
        documents, bytes, seconds. It reads nothing. Raises SignalError where that would be refused."""
        signal_id = str(ObjectId())
        with unnamed(signal_id):
            return self.engine.dry_run(
                execute_action(
                    signal_id,
                    collections,
                    filters=filters,
                    keys=keys,
                    id_range=id_range,
                    reconcile=reconcile,
                    dry_run=True,
                )
            )

    def pause_snapshot(self, *requests: str, signal_id: str | None = None) -> str:
        """Open no more windows for these requests (none named: all that have not ended). Windows in flight land.
        Returns the signal's id, as all of these do. Raises RequestRefused for a request that there is not."""
        self._must_exist(requests)
        command = Pause(signal_id or str(ObjectId()), frozenset(requests) or None)
        self.engine.command(command)
        return command.id

    def resume_snapshot(self, *requests: str, signal_id: str | None = None) -> str:
        """Go on with these requests (none named: all that are paused). One that is named also goes on where it
        failed."""
        self._must_exist(requests)
        command = Resume(signal_id or str(ObjectId()), frozenset(requests) or None)
        self.engine.command(command)
        return command.id

    pause, resume = pause_snapshot, resume_snapshot
    """Their older names."""

    def stop_snapshot(
        self, *requests: str, collections: Iterable[str] = (), signal_id: str | None = None
    ) -> str:
        """End these requests (none named: all), or only some ``collections`` of theirs, at once. What has landed
        stays."""
        self._must_exist(requests)
        name = signal_id or str(ObjectId())
        if names := (collections,) if isinstance(collections, str) else tuple(collections):
            self.engine.act(StopSnapshot(name, names, requests=requests))
        else:
            self.engine.command(Stop(name, frozenset(requests) or None))
        return name

    def log(self, message: str, signal_id: str | None = None) -> str:
        """Write a message to the engine's log; ``{}`` in it stands for the position in the stream."""
        action = Log(signal_id or str(ObjectId()), message)
        self.engine.act(action)
        return action.id

    def _must_exist(self, requests: Iterable[str]) -> None:
        one_by_one("ids of requests", requests)
        known = [request.id for request in self.engine.ledger.standing().requests]
        if missing := [request for request in requests if request not in known]:
            there = f"there are {listed(known[::-1])}" if known else "there is none"
            raise RequestRefused(f"there is no request {', '.join(missing)}; {there}; nothing was changed")

    def pause_stream(self, signal_id: str | None = None) -> None:
        """Land nothing more, also in the next process, until `resume_stream`. Signals are still taken."""
        self.engine.act(PauseStream(signal_id or str(ObjectId())))

    def resume_stream(self, signal_id: str | None = None) -> None:
        """Go on where `pause_stream` stopped."""
        self.engine.act(ResumeStream(signal_id or str(ObjectId())))

    def restart(self, signal_id: str | None = None) -> None:
        """End the run under way and begin another; or do not wait for an automatic restart."""
        self.engine.act(Restart(signal_id or str(ObjectId())))

    def on_notification(self, listener: Callable[[Notification], None]) -> None:
        """Call ``listener`` with every notification from now on, on a thread of its own: it may block, and no data
        waits for it. One that raises is called again with the same notification, after a pause."""
        self.engine.notifier.listen(listener)

    def windows(self, request_id: str | None = None) -> list[LandedWindow]:
        """The snapshot windows that have landed since this engine was made, at most the newest 10,000, in the order in
        which they did; with ``request_id`` only its own."""
        return self.engine.windows.listed(request_id)

    @overload
    def status(self, request_id: str) -> SnapshotStatus | None: ...

    @overload
    def status(self, request_id: None = None) -> Status: ...

    def status(self, request_id: str | None = None) -> SnapshotStatus | Status | None:
        """How far a request is, as a client sees it; None for one that the engine does not know. Without a
        ``request_id``: what the engine says of itself, as of at most a second ago."""
        if request_id is None:
            newest = self.engine.status.newest
            return newest or Status(name=self.settings.name, state=EngineState.STARTING)
        found = next((r for r in self.engine.ledger.standing().requests if r.id == request_id), None)
        if found is None:
            why = dict(self.engine.signal_outcomes.refused).get(request_id)
            rejected = SnapshotStatus(request_id, REJECTED, reason=why, engine=self.settings.name)
            return None if why is None else rejected
        return self._told(found)

    def history(self) -> History:
        """All requests that the engine knows, in the order in which they came: of each what it was, when it was asked
        for, accepted, started and ended, and how long it took."""
        return History(map(self._told, self.engine.ledger.standing().requests))

    def _told(self, found: RequestProgress) -> SnapshotStatus:
        run = self.engine.run_state
        progress = run.progress if run is not None else Progress()
        told = status_of(found, self.settings.name, rests=progress.resting(found))
        seen = self.engine.status.times.look(found)
        return replace(
            told,
            updated_at=datetime.now(UTC),
            asked_at=seen.asked,
            accepted_at=seen.accepted,
            started_at=seen.started,
            ended_at=seen.ended,
        )

    def table(self, collection: str) -> Table:
        """The table of ``database.collection``, which the engine's own session reads."""
        return Table.of(collection, self.settings.warehouse(), lambda: self.spark)

    def table_path(self, collection: str) -> str:
        """Where the Delta table of ``database.collection`` lies."""
        return self.table(collection).path

    def live_rows(self, collection: str) -> DataFrame:
        """The rows of the documents that ``database.collection`` has: with soft deletes its table holds others as well,
        where ``_deleted`` is true."""
        return self.table(collection).rows()

    def verify(self, collection: str) -> VerifyResult:
        """Compare every document of ``database.collection`` with its row, while the engine runs. Documents may change
        meanwhile: what differs is looked at again a few times, each time once the stream has caught up."""

        def caught_up() -> None:
            self.catch_up()

        return verify_collection(
            self.spark,
            self.settings.connection_uri(),
            Namespace.parse(collection),
            self.table_path(collection),
            self.engine.config.layout,
            fields=self.engine.config.fields.of(Namespace.parse(collection)),
            shape=self.engine.config.shape,
            before_round=caught_up,
        )

    def wait(self, request_id: str, timeout_seconds: float = 3_600) -> RequestProgress:
        """Wait until the request has ended, and return how. Raises DefiniteError if it was refused or time is up, and
        what ended the engine if that has ended. A request that failed is returned, not raised."""

        def ended() -> RequestProgress | None:
            run = self.engine.run_state
            known = run.standing().requests if run is not None else ()
            request = next((r for r in known if r.id == request_id), None)
            refused = dict(self.engine.signal_outcomes.refused).get(request_id)
            if refused is not None and request is None:
                raise DefiniteError(refused)
            if request is None and self.engine.journal.forgotten(request_id, self.engine.store.newest):
                raise DefiniteError(
                    f"request {request_id} has ended, and the engine no longer knows how: it remembers the newest ones",
                    "look for it in the status collection, or in the notifications that were sent",
                )
            # Saved, and announced: a batch has noted that it has ended.
            if request is None or request.ended_in is None or self.engine.announcer.pending(request_id):
                return None
            return request

        return self.until(f"the end of request {request_id}", ended, timeout_seconds)

    def catch_up(self, timeout_seconds: float = 3_600) -> ClusterTime:
        """Wait until everything that is committed at the source by now has landed; returns that moment."""
        head = majority_time(self.engine.client)
        self.until(f"the stream to reach {head}", lambda: self.position() >= head, timeout_seconds)
        return head

    def position(self) -> ClusterTime:
        """All up to here has landed."""
        run = self.engine.run_state
        return run.progress.position if run is not None else ORIGIN

    def progress_batch(self) -> int:
        run = self.engine.run_state
        return run.progress.batch_id if run is not None and run.started else -1

    def lag_seconds(self) -> int:
        """How far what has landed is behind the head of the stream."""
        run = self.engine.run_state
        if run is None or run.progress.batch_id < 0:
            return 0
        return round(run.head.behind(run.progress.position))

    def until(self, what: str, ready: Callable[[], T | None], timeout_seconds: float = 3_600) -> T:
        """Wait until ``ready`` returns something true, and return that; ``what`` names it in messages. Raises what
        ended the engine, or DefiniteError after ``timeout_seconds``."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            found = ready()
            if found:
                return found
            if self._error is not None:
                raise self._error
            if self._thread is None or not self._thread.is_alive():
                raise DefiniteError(f"the engine has ended while waiting for {what}")
            if time.monotonic() > deadline:
                raise DefiniteError(f"waited {timeout_seconds:.0f} s for {what} in vain")
            time.sleep(_POLL_SECONDS)

    def _run(self) -> None:
        try:
            self.engine.run()
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits
            self._error = error

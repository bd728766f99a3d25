"""The outcome of signals, written back to MongoDB: one document a signal and engine, beside the signal collection.

So whoever inserted a signal can watch it where it was inserted, and needs no access to the engine. It is a report, not
state: nothing is decided by it. After a batch's progress is saved, reports are only put into a map; one thread writes
the newest report about each request from there. MongoDB may be away for as long as it likes.

Invariants
- A report waits for nothing, and is at most one document a request, and ``_SIGNALS_MAX`` about other signals,
  however slow MongoDB is.
- A finished state is not overwritten by an older one: a batch that is repeated, or an engine that has lost its lock,
  finds it finished. A request that goes on after a failure (``attempt`` is higher) is newer; so is one of a state
  that began anew (another ``checkpoint``).
- No engine writes into another's document: engines may share a signal collection.
- A refusal never hides a request that carries the same id; it is noted there, as ``id_reused``.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import structlog
from pymongo import MongoClient, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern

from signals.outcomes import COMPLETED, ENDED, FAILED, REJECTED, TIMES, CollectionStatus, SnapshotStatus
from snapshotter.core.rules.signal_batch import AFFECTED_SHOWN
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.errors import cause_of, redact
from snapshotter.reporting.answers import DryRun
from snapshotter.reporting.outcomes import SignalOutcome
from snapshotter.reporting.request_states import AFTER_REFUSAL, STATES, after_failure, state_of, type_of
from snapshotter.reporting.request_times import RequestTimes, Times
from snapshotter.reporting.status import RequestState
from streaming.mongo.errors import classify
from streaming.mongo.server_codes import Kind
from streaming.namespaces import Namespace

OPTION = "engine.status.collection"
_log = structlog.get_logger("snapshotter.status")
_FLUSH_SECONDS = 10.0
_RETRY_SECONDS = 0.5
_RETRY_SECONDS_MAX = 60.0
_ATTEMPTS = 5  # at what does not look as if it would pass
_AT_ONCE = 500
_SIGNALS_MAX = 10_000
_ID_MAX = 1_024
_TEXT_MAX = 2_000
_FILTER_MAX = 200
_UNREADABLE = "unknown"

Waiting = dict[tuple[str, str], UpdateOne]


class StatusCollection:
    """Documents in ``namespace`` about the signals of ``engine``; without a ``namespace`` nothing is written. ``life``
    names the checkpoint that the engine works from: a document of another one is overwritten, whatever it says.
    ``retry_seconds`` is the first pause after a failure; each further one is twice as long. ``times`` knows when
    requests came and went."""

    def __init__(
        self,
        client: MongoClient[Any],
        namespace: Namespace | None,
        engine: str,
        life: Callable[[], str],
        retry_seconds: float = _RETRY_SECONDS,
        times: RequestTimes | None = None,
    ) -> None:
        self.times = times or RequestTimes()
        self.error: str | None = None
        self._collection: Collection[Any] | None = None
        if namespace is not None:
            self._collection = client[namespace.database].get_collection(
                namespace.collection, write_concern=WriteConcern("majority")
            )
        self._engine = engine
        self._life = life
        self._retry_seconds = retry_seconds
        self._reported: dict[str, tuple[RequestProgress, bool]] = {}
        self._requests: Waiting = {}
        self._signals: OrderedDict[tuple[str, str], UpdateOne] = OrderedDict()
        self._changed = threading.Condition()
        self._closing = False
        self._thread: threading.Thread | None = None

    @property
    def on(self) -> bool:
        """Whether anything is written; a missing privilege switches it off."""
        return self._collection is not None

    # What the engine calls

    def saved(self, progress: Progress) -> None:
        """Report what has changed in a progress that is durable. Neither waits nor raises."""
        self.times.looked(progress.requests)
        if not self.on:
            return
        try:
            now = {r.id: (r, progress.resting(r)) for r in progress.requests}
            changed = {name: what for name, what in now.items() if self._reported.get(name) != what}
            if changed:
                life = self._life()
                updates = {
                    ("request", n): _update(*what, self._engine, life, self.times.of(n))
                    for n, what in changed.items()
                }
                with self._changed:
                    self._requests.update(updates)
                    self._changed.notify_all()
            self._reported = now
        except Exception:  # noqa: BLE001 - what cannot be reported must not stop what happens
            _log.exception("a request's outcome cannot be reported")

    def refused(self, signal_id: str, why: str) -> None:
        """Report that a signal was refused. One whose id could not be read has nobody to report it to."""
        if self.on and signal_id != _UNREADABLE:
            self._offer(("refusal", signal_id), _refused(signal_id, why, self._engine))

    def handled(self, outcome: SignalOutcome) -> None:
        """Report what became of a command, of a message for the log, or of a dry run."""
        if self.on:
            told = _handled(outcome, self._engine, self.times.sent(outcome.id))
            self._offer(("handled", outcome.id), told, newer=not outcome.again)

    def open(self) -> None:
        """Begin to write."""
        if self.on and self._thread is None:
            self._closing = False
            self._thread = threading.Thread(target=self._run, name="status-collection", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write what waits, for a few seconds at most, and end."""
        if self._thread is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(_FLUSH_SECONDS)
        if self._thread.is_alive() or self._requests or self._signals:
            _log.warning(
                "the outcome of some requests was not written in time; the next start writes it",
                error=self.error or "",
            )
        self._thread = None

    def _offer(self, name: tuple[str, str], newest: UpdateOne, *, newer: bool = True) -> None:
        with self._changed:
            if newer or name not in self._signals:
                self._signals[name] = newest
            if len(self._signals) > _SIGNALS_MAX:
                (_, signal_id), _ = self._signals.popitem(last=False)
                _log.warning("signals come faster than is written of them; one is left out", id=signal_id)
            self._changed.notify_all()

    # The thread

    def _run(self) -> None:
        failures = 0
        while (batch := self._take()) and (collection := self._collection) is not None:
            last_try = self._closing
            try:
                _write(collection, batch)
            except PyMongoError as error:
                failures += 1
                if classify(error).kind is Kind.PERMISSION:
                    self._switch_off(collection, error)
                elif not classify(error).retriable and failures >= _ATTEMPTS:
                    _give_up(collection, batch, error)
                    failures = 0
                else:
                    self._again(batch, error, failures)
                    if last_try:
                        return
            else:
                self.error, failures = None, 0

    def _take(self) -> Waiting:
        """Wait for reports, and take some; an empty map is the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._requests or self._signals or self._closing)
            requests, signals = self._requests, self._signals
            taken = {name: requests.pop(name) for name in list(islice(requests, _AT_ONCE))}
            for name in list(islice(signals, _AT_ONCE - len(taken))):
                taken[name] = signals.pop(name)
            return taken

    def _again(self, batch: Waiting, error: PyMongoError, failures: int) -> None:
        """Put the batch back, where nothing newer has come meanwhile, and pause."""
        pause = min(self._retry_seconds * 2 ** min(failures - 1, 10), _RETRY_SECONDS_MAX)
        self.error = f"{type(error).__name__}: {cause_of(error)}"
        _log.warning(
            "the outcome of signals was not written, and is tried again", error=self.error, wait_seconds=pause
        )
        with self._changed:
            ours = {name: write for name, write in batch.items() if name[0] == "request"}
            self._requests = {**ours, **self._requests}
            others = {name: write for name, write in batch.items() if name not in ours}
            self._signals = OrderedDict({**others, **self._signals})
            self._changed.wait_for(lambda: self._closing, pause)

    def _switch_off(self, collection: Collection[Any], error: PyMongoError) -> None:
        _log.warning(
            f"the outcome of signals is not written back any more: this user may not insert and update in "
            f"{collection.full_name}; grant insert and update there, or set {OPTION}=false",
            error=cause_of(error),
        )
        with self._changed:
            self._collection = None
            self._requests.clear()
            self._signals.clear()


def _write(collection: Collection[Any], batch: Waiting) -> None:
    try:
        collection.bulk_write(list(batch.values()), ordered=False)
    except BulkWriteError as error:
        for failed in (error.details or {}).get("writeErrors", ())[:1]:  # its code says whose fault it is
            raise OperationFailure(failed["errmsg"], failed["code"]) from error
        raise


def _give_up(collection: Collection[Any], batch: Waiting, error: PyMongoError) -> None:
    _log.warning(
        f"the outcome of some signals cannot be written to {collection.full_name} and is left out; if that goes on, "
        f"set {OPTION}=false",
        ids=[name[1] for name in batch][:10],
        error=cause_of(error),
    )


def _update(request: RequestProgress, rests: bool, engine: str, life: str, times: Times) -> UpdateOne:
    """An update to a request's document that leaves it as it is where it says something newer, or the same. Its
    ``times`` come along with what is new; one that stands there already stays."""
    status = status_of(request, engine, rests=rests)
    attempt = sum(task.resumed for task in request.tasks)
    theirs = {"$ifNull": ["$attempt", -1]}
    keeps: list[Any] = [{"$gt": [theirs, attempt]}]
    if not status.ended:
        finished = {"$in": ["$state", sorted(ENDED - {REJECTED})]}
        keeps.append({"$and": [{"$eq": [theirs, attempt]}, finished]})
    # An id is the operator's, and may begin with a dollar: literals everywhere.
    same_life = {"$eq": ["$checkpoint", {"$literal": life}]}
    newer_there = {"$and": [same_life, {"$or": keeps}]}
    content = {**status.to_document(), "attempt": attempt, "checkpoint": life}
    # A start reports everything again; what says nothing new keeps its time.
    said_already = {"$eq": ["$$ROOT", {"$mergeObjects": ["$$ROOT", {"$literal": content}]}]}
    keep = {"$or": [newer_there, said_already]}
    now = {"$literal": {**content, "updated_at": datetime.now(UTC)}}
    same_attempt = {"$and": [same_life, {"$eq": [theirs, attempt]}]}
    new = {"$mergeObjects": ["$$ROOT", now, _standing(times, status.ended, same_life, same_attempt)]}
    return UpdateOne(
        {"_id": content["_id"]}, [{"$replaceWith": {"$cond": [keep, "$$ROOT", new]}}], upsert=True
    )


def _standing(times: Times, ended: bool, same_life: object, same_attempt: object) -> dict[str, Any]:
    """The times of a request in its document: those that stand there, else ours. What has not ``ended`` has no end."""
    ours = dict(
        zip(TIMES, (times.asked, times.accepted, times.started, times.ended if ended else None), strict=True)
    )
    stays = {**dict.fromkeys(TIMES, same_life), "ended_at": same_attempt if ended else False}
    return {
        name: {"$cond": [stays[name], {"$ifNull": [f"${name}", {"$literal": at}]}, {"$literal": at}]}
        for name, at in ours.items()
    }


def _refused(signal_id: str, why: str, engine: str) -> UpdateOne:
    """A rejected signal, or a note at the request that has its id."""
    name, reason = _text(signal_id, _ID_MAX), _reason(why)
    status = SnapshotStatus(name, REJECTED, reason=reason, next_step=AFTER_REFUSAL, engine=engine)
    document = {**status.to_document(), "updated_at": datetime.now(UTC)}
    is_request = {"$ne": [{"$ifNull": ["$state", REJECTED]}, REJECTED]}
    noted = {"$mergeObjects": ["$$ROOT", {"id_reused": {"$literal": reason}}]}
    new = {"$mergeObjects": ["$$ROOT", {"$literal": document}]}
    return UpdateOne(
        {"_id": document["_id"]}, [{"$replaceWith": {"$cond": [is_request, noted, new]}}], upsert=True
    )


def _handled(outcome: SignalOutcome, engine: str, asked: datetime | None) -> UpdateOne:
    """A command that was applied, or a dry run that was answered; ``asked``: when its signal was sent. One that was
    applied before, perhaps by a process that could not report it, is reported where nothing stands yet."""
    name = _text(outcome.id, _ID_MAX)
    status = SnapshotStatus(
        name,
        COMPLETED,
        engine=engine,
        command=outcome.kind,
        kind=outcome.kind,
        requests=tuple(_text(i, _ID_MAX) for i in outcome.affected.requests),
        requests_met=None if outcome.again else outcome.affected.count,
        unknown=tuple(_text(i, _ID_MAX) for i in outcome.unknown[:AFFECTED_SHOWN]),
    )
    if outcome.answer is not None:
        status = _answered(status, outcome.answer)
    now = datetime.now(UTC)
    document = {**status.to_document(), "updated_at": now}
    if not outcome.again:
        document |= {"asked_at": asked, "accepted_at": now, "ended_at": now}
    new: dict[str, Any] = {"$mergeObjects": ["$$ROOT", {"$literal": document}]}
    if outcome.again:
        reported = {"$ne": [{"$ifNull": ["$state", REJECTED]}, REJECTED]}
        new = {"$cond": [reported, "$$ROOT", new]}
    return UpdateOne({"_id": document["_id"]}, [{"$replaceWith": new}], upsert=True)


def _answered(status: SnapshotStatus, answer: DryRun) -> SnapshotStatus:
    if answer.error is not None:
        return replace(status, state=FAILED, reason=_reason(answer.error), requests_met=None)
    given = answer.model_dump(mode="json", exclude={"id", "answered_at", "error"})
    return replace(status, answer=given, requests_met=None)


def status_of(request: RequestProgress, engine: str, *, rests: bool = False) -> SnapshotStatus:
    """A request's progress as its status document has it. ``engine`` is the engine's name, and part of the document's
    id. ``rests``: it waits for suspended collections."""
    return SnapshotStatus(
        id=request.id,
        state=str(RequestState.SUSPENDED if rests else state_of(request)),
        origin=str(request.origin),
        collections=tuple(
            CollectionStatus(
                name=str(task.namespace),
                state=str(STATES[task.state]),
                rows=task.rows,
                dropped=task.superseded,
                deleted=task.deleted,
                inserted=task.inserted,
                changed=task.changed,
                unchanged=task.unchanged,
                chunks=task.chunks,
                estimated=task.estimated,
                filter=None if task.filter is None else _text(task.filter, _FILTER_MAX),
                keys=len(task.keys) or None,
                range=task.range is not None,
                error=_reason(task.error) if task.error else None,
            )
            for task in request.tasks
        ),
        next_step=after_failure(request) if request.failed else None,
        engine=engine,
        kind=type_of(request),
        unknown=request.unknown[:AFFECTED_SHOWN],
    )


def _reason(text: str) -> str:
    """Without credentials. Cut before they are searched for: a text may have megabytes."""
    return _text(redact(text[: 2 * _TEXT_MAX]))


def _text(text: str, most: int = _TEXT_MAX) -> str:
    """The text as MongoDB can hold it: without halves of surrogate pairs, and not too long."""
    plain = text.encode("utf-8", "replace").decode("utf-8")
    return plain if len(plain) <= most else f"{plain[:most]}…"

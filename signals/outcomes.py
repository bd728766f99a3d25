"""What became of a signal: the documents of the status collection, as values.

Beside the signal collection lies its status collection, with one document for each signal and engine: engines may share
a signal collection, and each says what became of a signal there. The engine writes it, operators and clients read it.
Both use these values, so that the fields are named in one place. (Earlier versions wrote one document a signal, with
the signal's id as its own. Such documents are read, and no longer written.)

The state of a request is ``queued``, ``running``, ``paused``, ``suspended`` (it waits until one of its collections
lands again), or one of those in ``ENDED``. A command that was applied (``pause-snapshot`` and the like, also ``log``)
is ``completed``, and so is a dry run that was answered. A signal that was refused is ``rejected``, and ``reason`` says
why; why a request failed is in the errors of its collections.

Statuses show themselves: in one line, and in a notebook as a table.

No server, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any

from signals.texts import duration, html_table, moment, narrowed

STATUS_SUFFIX = "_status"
"""The status collection is called like the signal collection, with this."""

REJECTED = "rejected"
FAILED = "failed"
COMPLETED = "completed"
STOPPED = "stopped"
ENDED = frozenset({COMPLETED, STOPPED, FAILED, REJECTED})


class SnapshotFailed(Exception):
    """A request that did not come to a good end. ``status`` is all that is known of it."""

    def __init__(self, message: str, status: SnapshotStatus) -> None:
        super().__init__(message)
        self.status = status


class SnapshotRejected(SnapshotFailed):
    """A signal that was refused: nothing was started."""


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """One collection of a request. ``rows`` have landed: ``inserted`` are new, ``changed`` took the place of other
    rows, ``unchanged`` equal what was there. ``dropped`` were read and superseded; ``deleted`` are rows that a request
    with ``reconcile`` found missing at source.

    ``estimated`` is how many documents there are, where MongoDB has an estimate. What narrows it: a ``filter`` (its
    beginning), the number of single ``keys``, a ``range`` of ids.
    """

    name: str
    state: str
    rows: int = 0
    dropped: int = 0
    deleted: int = 0
    chunks: int = 0
    estimated: int | None = None
    error: str | None = None
    inserted: int = 0
    changed: int = 0
    unchanged: int = 0
    filter: str | None = None
    keys: int | None = None
    range: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class SnapshotStatus:
    """One request, or one ``command`` (None for a request). ``origin`` is ``signal``, ``initial`` or ``rename``;
    ``kind`` how it reads (``incremental``, ``blocking``, ``initial``), or the command's name; empty where an earlier
    version wrote it. ``id_reused`` is the reason why another signal under the same id was refused later on.

    ``asked_at`` is when its signal was sent, ``accepted_at`` when the engine took it, ``started_at`` when reading
    began, and ``ended_at`` when it ended, however it did: by the clocks of whoever saw it, None where nobody did.

    A command's ``requests`` are the ids of those that it made a difference to, the first hundred of ``requests_met``
    (None where that is no longer known); its ``unknown`` are ids that it named and no request has. A request's
    ``unknown`` are names and patterns of no captured collection: the others are read.

    A dry run's (``command`` "dry-run") ``answer`` is what would be read: ``documents``, ``bytes`` and ``seconds``, and
    the same for each of its ``collections``, with the ``first`` and the ``last`` id. None: not known.
    """

    id: str
    state: str
    origin: str = "signal"
    collections: tuple[CollectionStatus, ...] = ()
    reason: str | None = None
    next_step: str | None = None
    updated_at: datetime | None = None
    engine: str = ""
    id_reused: str | None = None
    command: str | None = None
    requests: tuple[str, ...] = ()
    requests_met: int | None = None
    unknown: tuple[str, ...] = ()
    answer: Mapping[str, Any] | None = None
    kind: str = ""
    asked_at: datetime | None = None
    accepted_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None

    def __repr__(self) -> str:
        return f"<{text_of(self)}>"

    def _repr_html_(self) -> str:
        error = f": {self.error}" if self.error else ""
        rows = [_cells(c) for c in self.collections]
        return html_table(f"{text_of(self, brief=True)}{error}", _HEADINGS if rows else (), rows)

    @property
    def took_seconds(self) -> float | None:
        """From the start to the end; of what has not ended, to the newest word of it. None where that is not known."""
        until = self.ended_at or (None if self.ended else self.updated_at)
        if self.started_at is None or until is None:
            return None
        return max(0.0, (until - self.started_at).total_seconds())

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def rows(self) -> int:
        """Of all collections."""
        return sum(c.rows for c in self.collections)

    @property
    def dropped(self) -> int:
        """Of all collections."""
        return sum(c.dropped for c in self.collections)

    @property
    def deleted(self) -> int:
        """Of all collections."""
        return sum(c.deleted for c in self.collections)

    @property
    def error(self) -> str | None:
        """Why it was rejected, or what failed."""
        return self.reason or "; ".join(f"{c.name}: {c.error}" for c in self.collections if c.error) or None

    def raise_if_bad(self) -> None:
        """Raises SnapshotRejected or SnapshotFailed for what came to a bad end."""
        then = f"; next: {self.next_step}" if self.next_step else ""
        if self.state == REJECTED:
            raise SnapshotRejected(f"request {self.id!r} was rejected: {self.error}{then}", self)
        if self.state == FAILED:
            raise SnapshotFailed(f"request {self.id!r} failed: {self.error}{then}", self)

    def to_document(self) -> dict[str, Any]:
        """All but the times and ``id_reused``, which are the writer's to set."""
        document = {
            "_id": key_of(self.id, self.engine),
            "id": self.id,
            **{name: getattr(self, name) for name in _WRITTEN},
        }
        lists = {"requests": list(self.requests), "unknown": list(self.unknown)}
        return {**document, **lists, "collections": [asdict(c) for c in self.collections]}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> SnapshotStatus:
        """The status in a document of the status collection. Fields that this version does not know are left out."""
        known = {
            name: document[name]
            for name in (*_WRITTEN, *TIMES, "updated_at", "id_reused")
            if name in document
        }
        for name in (*TIMES, "updated_at"):
            if (at := known.get(name)) is not None and at.tzinfo is None:
                known[name] = at.replace(tzinfo=UTC)
        known["collections"] = tuple(
            CollectionStatus(**{name: c[name] for name in _COLLECTION if name in c})
            for c in document.get("collections", ())
        )
        for name in ("requests", "unknown"):
            known[name] = tuple(document.get(name) or ())
        key = document["_id"]
        return cls(id=str(key["id"] if isinstance(key, Mapping) else key), **known)


class History(list[SnapshotStatus]):
    """Statuses in their order, as a list; shown as a table."""

    def __repr__(self) -> str:
        return "\n".join(map(text_of, self)) or "nothing was asked for"

    def _repr_html_(self) -> str:
        headings = (
            "id",
            "kind",
            "state",
            "asked",
            "started",
            "ended",
            "took",
            "rows",
            "collections",
            "error",
        )
        rows = [
            (
                *(s.id, s.kind or s.command or "", s.state, moment(s.asked_at), moment(s.started_at)),
                *(moment(s.ended_at), duration(s.took_seconds), f"{s.rows:,}"),
                *(", ".join(c.name for c in s.collections), s.error or ""),
            )
            for s in self
        ]
        return html_table(f"{len(self)} requests and commands", headings, rows)


def text_of(status: SnapshotStatus, *, brief: bool = False) -> str:
    """A status in one line: what it is, its state, when it ran, and of each collection how far it is; ``brief``:
    without collections."""
    parts = [f"{status.id} {status.state}", *_what(status)]
    if status.started_at is not None:
        parts.append(f"started {moment(status.started_at)}")
        parts.append(f"took {duration(status.took_seconds)}{'' if status.ended else ' so far'}")
    if brief:
        return " · ".join(parts)
    for c in status.collections:
        of = f" of about {c.estimated:,}" if c.estimated and c.state != COMPLETED else ""
        parts.append(f"{c.name} {c.state}: {c.rows:,} rows{of}")
    return " · ".join([*parts, *([status.error] if status.error else [])])


def _what(status: SnapshotStatus) -> list[str]:
    kind = status.kind or status.command
    parts = narrowed(
        filters=any(c.filter for c in status.collections),
        keys=any(c.keys for c in status.collections),
        ranges=any(c.range for c in status.collections),
    )
    return [", ".join([kind, *parts])] if kind else []


_HEADINGS = (
    "collection",
    "state",
    "rows",
    "changed",
    "unchanged",
    "dropped",
    "deleted",
    "estimated",
    "error",
)


def _cells(c: CollectionStatus) -> tuple[object, ...]:
    counts = (c.rows, c.changed, c.unchanged, c.dropped, c.deleted)
    estimated = "" if c.estimated is None else f"{c.estimated:,}"
    return (c.name, c.state, *(f"{count:,}" for count in counts), estimated, c.error or "")


def key_of(signal_id: str, engine: str) -> dict[str, str]:
    """The ``_id`` of the document in which an engine reports on a signal."""
    return {"id": signal_id, "engine": engine}


def current(documents: Iterable[Mapping[str, Any]]) -> History:
    """The statuses in these documents, in their order; without those of earlier versions that their engine has written
    anew since."""
    found = list(documents)
    anew = {(d["_id"]["id"], d["_id"]["engine"]) for d in found if isinstance(d["_id"], Mapping)}
    return History(
        SnapshotStatus.from_document(d)
        for d in found
        if isinstance(d["_id"], Mapping) or (d["_id"], d.get("engine", "")) not in anew
    )


def foremost(statuses: Iterable[SnapshotStatus]) -> SnapshotStatus | None:
    """The status that counts, of those that several engines give one signal: that of an engine still at it goes first,
    then one that is no rejection (an engine rejects what it does not capture), then the newest.
    None where there is none."""
    never = datetime.min.replace(tzinfo=UTC)
    return max(
        statuses,
        key=lambda s: (not s.ended, s.state != REJECTED, s.updated_at or never),
        default=None,
    )


_WRITTEN = (
    *("state", "origin", "collections", "reason", "next_step", "engine"),
    *("command", "requests", "requests_met", "unknown", "answer", "kind"),
)
TIMES = ("asked_at", "accepted_at", "started_at", "ended_at")
"""Of a request, as its document has them."""
_COLLECTION = tuple(field.name for field in fields(CollectionStatus))

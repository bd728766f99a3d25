"""What became of a signal: the documents of the status collection, as values.

Beside the signal collection lies its status collection, with one document for each signal and engine: engines may share
a signal collection, and each says what became of a signal there. The engine writes it, operators and clients read it.
Both use these values, so that the fields are named in one place. (Earlier versions wrote one document a signal, with
the signal's id as its own. Such documents are read, and no longer written.)

The state of a request is ``queued``, ``running``, ``paused``, ``suspended`` (it waits until one of its collections
lands again), or one of those in ``ENDED``. A command that was applied (``pause-snapshot`` and the like, also ``log``)
is ``completed``, and so is a dry run that was answered. A signal that was refused is ``rejected``, and ``reason`` says
why; why a request failed is in the errors of its collections.

No server, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any

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

    ``estimated`` is how many documents there are, where MongoDB has an estimate.
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


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """One request, or one ``command`` (None for a request). ``origin`` is ``signal``, ``initial`` or ``rename``;
    ``id_reused`` is the reason why another signal under the same id was refused later on.

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
        """All but ``updated_at`` and ``id_reused``, which are the writer's to set."""
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
        known = {name: document[name] for name in (*_WRITTEN, "updated_at", "id_reused") if name in document}
        if (at := known.get("updated_at")) is not None and at.tzinfo is None:
            known["updated_at"] = at.replace(tzinfo=UTC)
        known["collections"] = tuple(
            CollectionStatus(**{name: c[name] for name in _COLLECTION if name in c})
            for c in document.get("collections", ())
        )
        for name in ("requests", "unknown"):
            known[name] = tuple(document.get(name) or ())
        key = document["_id"]
        return cls(id=str(key["id"] if isinstance(key, Mapping) else key), **known)


def key_of(signal_id: str, engine: str) -> dict[str, str]:
    """The ``_id`` of the document in which an engine reports on a signal."""
    return {"id": signal_id, "engine": engine}


def current(documents: Iterable[Mapping[str, Any]]) -> list[SnapshotStatus]:
    """The statuses in these documents, in their order; without those of earlier versions that their engine has written
    anew since."""
    found = list(documents)
    anew = {(d["_id"]["id"], d["_id"]["engine"]) for d in found if isinstance(d["_id"], Mapping)}
    return [
        SnapshotStatus.from_document(d)
        for d in found
        if isinstance(d["_id"], Mapping) or (d["_id"], d.get("engine", "")) not in anew
    ]


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
    *("command", "requests", "requests_met", "unknown", "answer"),
)
_COLLECTION = tuple(field.name for field in fields(CollectionStatus))

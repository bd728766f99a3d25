"""What an operator can ask for, as frozen values.

A signal is three fields: an id, a type, and data. Here are the types that exist, each a value whose fields
have been checked; ``signals.parsing.signal`` makes them from documents and ``fields_of`` turns them back, so that
what one side sends is what the other side reads.

Collections are named by patterns, kept exactly as they were written (trimmed). ``signals.matching.selection``
matches them against the collections that exist. A filter is kept as the text of a query document in MongoDB
Extended JSON, an id of a document as the text of its value in canonical Extended JSON.

Pure: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class SnapshotType(StrEnum):
    """How a snapshot runs: in windows while the stream goes on, or with the stream waiting."""

    INCREMENTAL = "incremental"
    BLOCKING = "blocking"


class Write(StrEnum):
    """Which of the documents that are read are written: those that differ from the table's rows, or all of them."""

    CHANGED = "changed"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Condition:
    """Only documents that match ``filter`` are read from the collections that ``data_collection`` matches.

    ``data_collection`` is a regular expression, matched whole and without regard to case; the first
    condition that matches a collection is the one that counts. ``filter`` is a query document as Extended
    JSON text.
    """

    data_collection: str
    filter: str


@dataclass(frozen=True, slots=True)
class IdRange:
    """The ids from ``minimum`` to ``maximum``, both included, in MongoDB's order of all types; None: no end
    on that side. At least one is given.
    """

    minimum: str | None = None
    maximum: str | None = None


@dataclass(frozen=True, slots=True)
class ExecuteSnapshot:
    """Read these collections again. ``data_collections`` are patterns, at least one.

    ``keys`` or ``range`` narrow it to some ids of the one collection that is named. With ``reconcile``, rows in what is
    read that are missing at source are deleted from the table. ``write``: what is written where the table has rows.
    Requests of a higher ``priority`` come first. With ``dry_run`` nothing is read: the sender is told what would be.
    """

    id: str
    data_collections: tuple[str, ...]
    type: SnapshotType = SnapshotType.INCREMENTAL
    additional_conditions: tuple[Condition, ...] = ()
    keys: tuple[str, ...] = ()
    range: IdRange | None = None
    reconcile: bool = False
    write: Write = Write.CHANGED
    priority: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class StopSnapshot:
    """Give up the snapshot of these collections, in these requests; where none is named, in all of them."""

    id: str
    data_collections: tuple[str, ...] = ()
    type: SnapshotType = SnapshotType.INCREMENTAL
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PauseSnapshot:
    """Open no more windows for these requests (none named: for all) until told to resume. The stream goes on.

    ``ignored`` are fields that the signal had and that mean nothing to it, as in Debezium."""

    id: str
    requests: tuple[str, ...] = ()
    ignored: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class ResumeSnapshot:
    """Go on where a pause stopped: with these requests, or with all where none is named. ``ignored`` as for a pause."""

    id: str
    requests: tuple[str, ...] = ()
    ignored: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class PauseStream:
    """Land nothing more until told to resume, also after a restart. The engine keeps its name and takes signals."""

    id: str


@dataclass(frozen=True, slots=True)
class ResumeStream:
    """Land again, from where a pause of the stream stopped."""

    id: str


@dataclass(frozen=True, slots=True)
class Restart:
    """End the run under way, and begin another one in the same process; while the engine waits to be restarted by
    itself, do not wait."""

    id: str


@dataclass(frozen=True, slots=True)
class Log:
    """Write ``message`` to the log; ``{}`` in it stands for the position in the stream."""

    id: str
    message: str


@dataclass(frozen=True, slots=True)
class CustomAction:
    """What another package does at a signal of its own ``type`` (`signals.action_plugins`). ``data`` is a JSON text."""

    id: str
    type: str
    data: str = "{}"


StreamAction = PauseStream | ResumeStream | Restart
"""What is about the engine as a whole, and about no request."""
Action = ExecuteSnapshot | StopSnapshot | PauseSnapshot | ResumeSnapshot | StreamAction | Log | CustomAction

TYPE_NAMES: Mapping[type[Action], str] = {
    ExecuteSnapshot: "execute-snapshot",
    StopSnapshot: "stop-snapshot",
    PauseSnapshot: "pause-snapshot",
    ResumeSnapshot: "resume-snapshot",
    PauseStream: "pause-stream",
    ResumeStream: "resume-stream",
    Restart: "restart",
    Log: "log",
}

WATERMARK_TYPES = frozenset({"snapshot-window-open", "snapshot-window-close"})
"""The types of documents that bound a snapshot window. They lie in the signal collection, and are no
signals.
"""


def fields_of(action: Action) -> tuple[str, str, dict[str, object]]:
    """``(id, type, data)`` of an action: what a channel writes. ``parse_signal`` of these gives the action
    back.
    """
    data: dict[str, object] = {}
    if isinstance(action, CustomAction):
        return action.id, action.type, json.loads(action.data)
    match action:
        case ExecuteSnapshot():
            data = _execute_fields(action)
        case StopSnapshot():
            data = {"type": action.type.value}
            if action.data_collections:
                data["data-collections"] = list(action.data_collections)
        case Log():
            data = {"message": action.message}
        case PauseSnapshot() | ResumeSnapshot() | PauseStream() | ResumeStream() | Restart():
            pass
    if isinstance(action, (StopSnapshot, PauseSnapshot, ResumeSnapshot)) and action.requests:
        data["requests"] = list(action.requests)
    return action.id, TYPE_NAMES[type(action)], data


def _execute_fields(action: ExecuteSnapshot) -> dict[str, object]:
    data: dict[str, object] = {"data-collections": list(action.data_collections), "type": action.type.value}
    if action.additional_conditions:
        data["additional-conditions"] = [
            {"data-collection": c.data_collection, "filter": c.filter} for c in action.additional_conditions
        ]
    if action.keys:
        data["keys"] = [json.loads(key) for key in action.keys]
    if action.range is not None:
        ends = {"min": action.range.minimum, "max": action.range.maximum}
        data["range"] = {end: json.loads(text) for end, text in ends.items() if text is not None}
    if action.reconcile:
        data["reconcile"] = True
    if action.write is not Write.CHANGED:
        data["write"] = action.write.value
    if action.priority:
        data["priority"] = action.priority
    if action.dry_run:
        data["dry-run"] = True
    return data


def to_json(action: Action) -> str:
    """The signal as one JSON object ``{"id", "type", "data"}``: the form of files and of messages."""
    signal_id, kind, data = fields_of(action)
    return json.dumps({"id": signal_id, "type": kind, "data": data}, ensure_ascii=False)

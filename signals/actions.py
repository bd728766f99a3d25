"""What an operator can ask for, as frozen values.

A signal is three fields: an id, a type, and data. Here are the types that exist, each a value whose fields
have been checked; ``signals.parsing`` makes them from documents and ``fields_of`` turns them back, so that
what one side sends is what the other side reads.

Collections are named by patterns, kept exactly as they were written (trimmed). ``signals.selection``
matches them against the collections that exist. A filter is kept as the text of a query document in MongoDB
Extended JSON.

Pure: standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class SnapshotType(StrEnum):
    """How a snapshot runs: beside the stream in windows, or with the stream waiting."""

    INCREMENTAL = "incremental"
    BLOCKING = "blocking"


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
class ExecuteSnapshot:
    """Read these collections again. ``data_collections`` are patterns, at least one."""

    id: str
    data_collections: tuple[str, ...]
    type: SnapshotType = SnapshotType.INCREMENTAL
    additional_conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class StopSnapshot:
    """Give up the snapshot of these collections; with none named, of all of them."""

    id: str
    data_collections: tuple[str, ...] = ()
    type: SnapshotType = SnapshotType.INCREMENTAL


@dataclass(frozen=True, slots=True)
class PauseSnapshot:
    """Open no more windows until told to resume. The stream goes on."""

    id: str


@dataclass(frozen=True, slots=True)
class ResumeSnapshot:
    """Go on where a pause stopped."""

    id: str


@dataclass(frozen=True, slots=True)
class Log:
    """Write ``message`` to the log; ``{}`` in it stands for the position in the stream."""

    id: str
    message: str


Action = ExecuteSnapshot | StopSnapshot | PauseSnapshot | ResumeSnapshot | Log

TYPE_NAMES: Mapping[type[Action], str] = {
    ExecuteSnapshot: "execute-snapshot",
    StopSnapshot: "stop-snapshot",
    PauseSnapshot: "pause-snapshot",
    ResumeSnapshot: "resume-snapshot",
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
    match action:
        case ExecuteSnapshot():
            data = {"data-collections": list(action.data_collections), "type": action.type.value}
            if action.additional_conditions:
                data["additional-conditions"] = [
                    {"data-collection": c.data_collection, "filter": c.filter}
                    for c in action.additional_conditions
                ]
        case StopSnapshot():
            data = {"type": action.type.value}
            if action.data_collections:
                data["data-collections"] = list(action.data_collections)
        case Log():
            data = {"message": action.message}
        case PauseSnapshot() | ResumeSnapshot():
            pass
    return action.id, TYPE_NAMES[type(action)], data


def to_json(action: Action) -> str:
    """The signal as one JSON object ``{"id", "type", "data"}``: the form of files and of messages."""
    signal_id, kind, data = fields_of(action)
    return json.dumps({"id": signal_id, "type": kind, "data": data}, ensure_ascii=False)

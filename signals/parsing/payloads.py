"""The data of each type of signal: what it may hold, and the action that it makes.

An unknown field is refused, because a misspelt ``additional-conditions`` that is ignored reads a whole
collection nobody asked for. For the same reason nothing is guessed: a list of ids or of requests that is
there but empty, or null, is an error and not "all of them". (For ``data-collections`` alone an empty list
means something, because it always did: nothing to an execute, everything to a stop.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from signals.actions import (
    Action,
    ExecuteSnapshot,
    Log,
    PauseSnapshot,
    PauseStream,
    Restart,
    ResumeSnapshot,
    ResumeStream,
    SnapshotType,
    StopSnapshot,
)
from signals.errors import MalformedSignal, NothingRequested, listed, shown
from signals.matching.selection import named_collection
from signals.parsing.document_ids import keys_of, range_of
from signals.parsing.filters import EVERYTHING
from signals.parsing.payload_fields import (
    conditions_of,
    data_fields,
    flag_of,
    patterns_of,
    priority_of,
    requests_of,
    snapshot_type_of,
    write_of,
)

_EXECUTE_FIELDS = (
    *("data-collections", "type", "additional-conditions"),
    *("keys", "range", "reconcile", "write", "priority", "dry-run", "surrogate-key"),
)
_IGNORED = ("data-collections", "type")
MESSAGE_MAX = 10_000
"""Characters of what a ``log`` signal has written to the log."""


def _execute(signal_id: str, data: object) -> Action:
    where = f"signal {signal_id!r}"
    fields = data_fields(where, data, *_EXECUTE_FIELDS)
    if fields.get("surrogate-key"):
        raise MalformedSignal(
            f"{where}: surrogate-key does not exist for MongoDB, got {shown(fields['surrogate-key'])}"
        )
    patterns = patterns_of(where, fields.get("data-collections"))
    if not patterns:
        raise NothingRequested(
            f"{where}: data-collections names no collection "
            f"(got {shown(fields.get('data-collections'))}), so nothing is read"
        )
    action = ExecuteSnapshot(
        signal_id,
        patterns,
        snapshot_type_of(where, fields),
        conditions_of(where, fields.get("additional-conditions"), patterns),
        keys=keys_of(fields["keys"], where) if "keys" in fields else (),
        range=range_of(fields["range"], where) if "range" in fields else None,
        reconcile=flag_of(where, fields, "reconcile"),
        write=write_of(where, fields),
        priority=priority_of(where, fields.get("priority", 0)),
        dry_run=flag_of(where, fields, "dry-run"),
    )
    _check_together(where, action)
    return action


def _check_together(where: str, action: ExecuteSnapshot) -> None:
    """What makes sense by itself, but not beside the rest. Raises MalformedSignal."""
    extras = {
        "keys": bool(action.keys),
        "range": action.range is not None,
        "reconcile": action.reconcile,
        "priority": action.priority != 0,
        "dry-run": action.dry_run,
    }
    given = [name for name, there in extras.items() if there]
    if action.type is SnapshotType.BLOCKING and given:
        raise MalformedSignal(
            f"{where}: {', '.join(given)} goes with type incremental only, not with blocking"
        )
    if action.keys and action.range is not None:
        raise MalformedSignal(f"{where}: keys and range exclude each other; send two signals")
    if (action.keys or action.range is not None) and (
        len(action.data_collections) != 1 or named_collection(action.data_collections[0]) is None
    ):
        raise MalformedSignal(
            f"{where}: {given[0]} has ids of one collection, so data-collections must be the plain name of one "
            f"(database.collection, special characters in double quotes), got {listed(action.data_collections)}"
        )
    if action.reconcile and any(c.filter != EVERYTHING for c in action.additional_conditions):
        raise MalformedSignal(
            f"{where}: reconcile and additional-conditions exclude each other: a document that a filter leaves "
            "out is not gone, and its row must not be deleted"
        )


def _stop(signal_id: str, data: object) -> Action:
    where = f"signal {signal_id!r}"
    fields = data_fields(where, data, "data-collections", "type", "requests")
    patterns = patterns_of(where, fields.get("data-collections"))
    return StopSnapshot(signal_id, patterns, snapshot_type_of(where, fields), requests_of(where, fields))


def _pause(signal_id: str, data: object) -> Action:
    where = f"signal {signal_id!r}"
    return PauseSnapshot(signal_id, *_of_requests(where, data))


def _resume(signal_id: str, data: object) -> Action:
    where = f"signal {signal_id!r}"
    return ResumeSnapshot(signal_id, *_of_requests(where, data))


def _of_requests(where: str, data: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The requests that are named, and the fields that Debezium takes and that change nothing: a pause is never of some
    collections only."""
    fields = data_fields(where, data, "requests", *_IGNORED)
    return requests_of(where, fields), tuple(name for name in _IGNORED if name in fields)


def _log(signal_id: str, data: object) -> Action:
    where = f"signal {signal_id!r}"
    message = data_fields(where, data, "message").get("message")
    if not isinstance(message, str):
        raise MalformedSignal(f"{where}: message must be a string, got {shown(message)}")
    if len(message) > MESSAGE_MAX:
        raise MalformedSignal(f"{where}: message has {len(message)} characters, at most {MESSAGE_MAX}")
    return Log(signal_id, message)


def _of_stream(kind: Callable[[str], Action]) -> Callable[[str, object], Action]:
    """The parser of a signal about the engine as a whole: it has no data."""

    def parse(signal_id: str, data: object) -> Action:
        data_fields(f"signal {signal_id!r}", data)
        return kind(signal_id)

    return parse


PARSERS: Mapping[str, Callable[[str, object], Action]] = {
    "execute-snapshot": _execute,
    "stop-snapshot": _stop,
    "pause-snapshot": _pause,
    "resume-snapshot": _resume,
    "pause-stream": _of_stream(PauseStream),
    "resume-stream": _of_stream(ResumeStream),
    "restart": _of_stream(Restart),
    "log": _log,
}
"""By a signal's type: its id and data to its action. Each raises SignalError only."""

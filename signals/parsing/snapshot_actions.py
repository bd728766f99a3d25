"""An ``execute-snapshot`` from values of Python: checked as any signal is, whoever makes it.

Nothing is guessed: an empty list of ids is refused and not taken for "all of them", and a text where a list of ids is
meant is one id, not one for each of its letters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from signals.actions import ExecuteSnapshot, Write
from signals.errors import MalformedSignal, shown
from signals.matching.selection import is_expression
from signals.parsing.extended_json import NotExtendedJson, canonical
from signals.parsing.signal import parse_signal

IdRangeOfValues = tuple[object, object]
"""The lowest and the highest id, both included; None: no end on that side."""


_ENDS = ("min", "max")
Filter = Mapping[str, Any] | str
"""A query document, or its text as JSON."""


def given_keys(keys: object) -> tuple[object, ...] | None:
    """The ids in ``keys``: of a list and the like each; what is no list, or is an id itself (a text, bytes, a
    document), is one. None where there is none."""
    if keys is None:
        return None
    if isinstance(keys, (str, bytes, Mapping)) or not isinstance(keys, Iterable):
        return (keys,)
    if hasattr(keys, "columns"):  # whose items are the names of its columns
        raise MalformedSignal(f"keys must be ids, got a table: {shown(keys)}. Give one of its columns")
    for values in ("tolist", "to_pylist"):  # of arrays, whose items are no values of Python's
        if hasattr(keys, values):
            return tuple(getattr(keys, values)())
    return tuple(keys)


def execute_action(
    signal_id: str,
    collections: Iterable[str],
    *,
    filters: Mapping[str, Filter] | None = None,
    keys: object = None,
    id_range: IdRangeOfValues | None = None,
    reconcile: bool = False,
    write: str = Write.CHANGED,
    priority: int = 0,
    dry_run: bool = False,
    blocking: bool = False,
) -> ExecuteSnapshot:
    """The signal with the id ``signal_id``, for ``collections`` (names or regular expressions). ``filters``: query
    documents, by collection. ``keys`` or ``id_range``: only these ids of the one collection that is named, as the
    values that the MongoDB driver has for them (`given_keys`). Without either (None) all ids are meant.
    ``reconcile``: rows that are missing at source are deleted. ``write``: "changed" writes what differs from the
    table's rows, "all" whatever is read. A higher ``priority`` goes first. ``dry_run``: nothing is read, what would be
    is estimated. ``blocking``: nothing else is read meanwhile, and the stream waits. Raises SignalError."""
    where = f"signal {signal_id!r}"
    data: dict[str, Any] = {
        "data-collections": list(one_by_one("collections", collections)),
        "reconcile": reconcile,
        "write": write,
        "priority": priority,
        "dry-run": dry_run,
        "type": "blocking" if blocking else "incremental",
    }
    if not isinstance(blocking, bool):
        raise MalformedSignal(f"{where}: blocking must be true or false, got {shown(blocking)}")
    if filters:
        data["additional-conditions"] = _conditions(filters, data["data-collections"], where)
    if (ids := given_keys(keys)) is not None:
        data["keys"] = [_plain(key, where) for key in ids]
    if id_range is not None:
        data["range"] = _range(id_range, where)
    action = parse_signal(signal_id, "execute-snapshot", data)
    assert isinstance(action, ExecuteSnapshot)
    return action


def one_by_one(what: str, given: Iterable[object]) -> tuple[str, ...]:
    """Names or ids as they were ``given``, each an argument of its own; ``what`` they are. Raises MalformedSignal for
    one that is no text, such as a list of them."""
    found = tuple(given)
    for one in found:
        if not isinstance(one, str):
            step = f"; give each by itself: *{shown(one)}" if isinstance(one, (list, tuple, set)) else ""
            raise MalformedSignal(f"{what} are texts, got {shown(one)}{step}")
    return tuple(one for one in found if isinstance(one, str))


def _range(given: object, where: str) -> dict[str, Any]:
    if not isinstance(given, (tuple, list)) or len(given) != len(_ENDS):
        raise MalformedSignal(
            f"{where}: id_range must be the lowest and the highest id (None: no end), got {shown(given)}"
        )
    ends = zip(_ENDS, given, strict=True)
    return {end: _plain(value, where) for end, value in ends if value is not None}


def _conditions(filters: object, collections: list[str], where: str) -> list[dict[str, Any]]:
    """A filter of a collection that is not read would leave the others whole, so it is refused."""
    if not isinstance(filters, Mapping):
        raise MalformedSignal(
            f"{where}: filters has a query document for each collection, by its name, got {shown(filters)}"
        )
    plain = [str(name).strip().lower() for name in collections]
    every = any(map(is_expression, plain))
    for name in filters:
        if not every and not is_expression(str(name)) and str(name).strip().lower() not in plain:
            raise MalformedSignal(
                f"{where}: filters has one for {shown(name)}, which is none of the collections "
                f"({', '.join(map(str, collections))})"
            )
    return [
        {"data-collection": name, "filter": query if isinstance(query, str) else _plain(query, where)}
        for name, query in filters.items()
    ]


def _plain(value: object, where: str) -> Any:
    try:
        return json.loads(canonical(value))
    except NotExtendedJson as error:
        raise MalformedSignal(
            f"{where}: {shown(value)} is no value of a BSON type, and nothing that MongoDB stores: {error}"
        ) from error

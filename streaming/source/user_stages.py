"""Stages of the user's own in the change stream's pipeline (`cursor.pipeline`, `cursor.pipeline.order`), so placed that
they cannot break the stream.

    internal_first   what is captured, then theirs
    user_first       theirs, then what is captured
    user_only        as user_first: what is not captured has no table, so the lists hold in any case

A stage of theirs may leave out events, and shape documents. Three things are out of its reach, whatever it is and in
every order: signals and their watermarks, the end of the stream (``invalidate``), and what an event is (its operation,
time, namespace, key, and what an update says of itself, without which it could not be landed). So each event carries a
field of ours through their stages, from which this is put back behind them:

    {_snapshotter: {_snapshotter: true, event: {operationType, ...}, whole: the event, where it is out of reach}}

Pure: it makes stages, and sends none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bson import json_util
from bson.errors import BSONError

from streaming.namespaces import Namespace

Stage = Mapping[str, Any]
KINDS = (
    "$addFields",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
)
"""The stages that MongoDB takes in a change stream, but for the one that splits large events."""
OPERATIONS = {"c": ("insert",), "u": ("update", "replace"), "d": ("delete",)}
"""What Debezium's letters stand for, in ``skipped.operations``."""
_OURS = "_snapshotter"
_WHOLE = f"${_OURS}.whole"
_EVENT = (
    *("_id", "operationType", "clusterTime", "wallTime", "ns", "to", "documentKey", "updateDescription"),
    *("lsid", "txnNumber"),
)
_SPLITS = "$changeStreamSplitLargeEvent"


class Order(StrEnum):
    INTERNAL_FIRST = "internal_first"
    USER_FIRST = "user_first"
    USER_ONLY = "user_only"


@dataclass(frozen=True, slots=True)
class UserStages:
    """``stages`` as they were given; ``skipped``: operations that are left out before them, by the server's words."""

    stages: tuple[Stage, ...] = ()
    order: Order = Order.INTERNAL_FIRST
    skipped: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether they change anything."""
        return bool(self.stages or self.skipped)

    @classmethod
    def parse(cls, text: str, order: Order = Order.INTERNAL_FIRST, skipped: Iterable[str] = ()) -> UserStages:
        """From ``text``, a JSON array of stages (Extended JSON, as Debezium takes it) that stand in this ``order``, and
        the operations that are ``skipped`` (`OPERATIONS`), by a stage before them. Raises ValueError, which says what
        is wrong with which stage."""
        stages = _stages(text) if text.strip() else ()
        return cls(stages, order, tuple(name for letter in skipped for name in OPERATIONS[letter]))

    def around(self, captured: Stage, signals: Namespace | None) -> list[Stage]:
        """The pipeline's first stages: ``captured``, the ``$match`` of what is captured, and these. Signals are those
        of the collection ``signals``."""
        if not self:
            return [captured]
        before: list[Stage] = [{"$match": {"operationType": {"$nin": self.skipped}}}] if self.skipped else []
        theirs = [_carry(signals), *map(_in_reach, [*before, *self.stages]), *_put_back()]
        return [captured, *theirs] if self.order is Order.INTERNAL_FIRST else [*theirs, captured]


def _stages(text: str) -> tuple[Stage, ...]:
    try:
        found = json_util.loads(text)
    except (ValueError, TypeError, BSONError) as error:
        raise ValueError(f"must be a JSON array of stages: {error}") from error
    if not isinstance(found, list):
        raise ValueError(f"must be a JSON array of stages, not {type(found).__name__}")  # noqa: TRY004
    for number, stage in enumerate(found, 1):
        if (why := _wrong(stage)) is not None:
            raise ValueError(f"stage {number}: {why}")
    return tuple(found)


def _wrong(stage: Any) -> str | None:
    if not isinstance(stage, dict) or len(stage) != 1:
        return "must be an object with one field, the name of the stage"
    ((kind, body),) = stage.items()
    if kind == _SPLITS:
        return f"{kind} is cursor.oversize.handling.mode=split"
    if kind not in KINDS:
        return f"MongoDB takes no {kind} in a change stream; it takes {', '.join(KINDS)}"
    named = [body] if isinstance(body, str) else body
    if kind in ("$redact", "$replaceWith"):
        return None
    if kind != "$unset" and not isinstance(body, dict):
        return f"{kind} must be an object"
    if kind == "$unset" and not (isinstance(named, list) and all(isinstance(name, str) for name in named)):
        return "$unset must be the name of a field, or a list of names"
    if kind == "$replaceRoot" and set(body) != {"newRoot"}:
        return "$replaceRoot must have newRoot, and nothing else"
    if kind in ("$addFields", "$project", "$set", "$unset"):
        return _changed_in_vain(kind, named)
    return None


def _changed_in_vain(kind: str, named: Iterable[str] | Mapping[str, Any]) -> str | None:
    for name in named:
        first = name.split(".")[0]
        kept = kind == "$project" and isinstance(named, Mapping) and named[name] in (1, True)
        if first == "_id" and not kept:
            return f"{kind} changes _id, which is the resume token: MongoDB would end the stream"
        if first == _OURS:
            return f"{kind} names {_OURS}, a field of the engine's own"
    return None


def _carry(signals: Namespace | None) -> Stage:
    out_of_reach: list[Stage] = [{"$eq": ["$operationType", "invalidate"]}]
    if signals is not None:
        names = [{"$literal": signals.database}, {"$literal": signals.collection}]
        same = [{"$eq": [field, name]} for field, name in zip(("$ns.db", "$ns.coll"), names, strict=True)]
        out_of_reach.append({"$and": same})
    whole = {"$cond": [{"$or": out_of_reach}, "$$ROOT", "$$REMOVE"]}
    return {"$set": {_OURS: {_OURS: True, "event": {name: f"${name}" for name in _EVENT}, "whole": whole}}}


def _put_back() -> list[Stage]:
    rest = {"$mergeObjects": ["$$ROOT", f"${_OURS}.event"]}
    return [{"$replaceWith": {"$cond": [_is_whole(), _WHOLE, rest]}}, {"$unset": _OURS}]


def _is_whole() -> Stage:
    return {"$ne": [{"$type": _WHOLE}, "missing"]}


def _in_reach(stage: Stage) -> Stage:
    """The same stage, past which our field and what is out of reach are carried."""
    ((kind, body),) = stage.items()
    match kind:
        case "$match":
            return {kind: {"$or": [{f"{_OURS}.whole": {"$exists": True}}, body]}}
        case "$project" if _is_inclusion(body):
            return {kind: {**body, _OURS: 1}}
        case "$replaceRoot":
            return {"$replaceWith": _replaced(body["newRoot"])}
        case "$replaceWith":
            return {kind: _replaced(body)}
        case "$redact":
            # It goes down into documents, into ours as well: there our mark is what it sees.
            ours = {"$or": [_is_whole(), {"$eq": [f"${_OURS}", True]}]}
            return {kind: {"$cond": [ours, "$$KEEP", body]}}
        case _:
            return stage


def _replaced(root: Any) -> Stage:
    carried = {"_id": "$_id", _OURS: f"${_OURS}"}
    return {"$cond": [_is_whole(), "$$ROOT", {"$mergeObjects": [root, carried]}]}


def _is_inclusion(projection: Mapping[str, Any]) -> bool:
    """Whether a ``$project`` leaves out what it does not name."""
    others = {name: value for name, value in projection.items() if name != "_id"}
    return any(map(_includes, others.values())) if others else True


def _includes(value: Any) -> bool:
    if isinstance(value, dict) and not any(name.startswith("$") for name in value):
        return any(map(_includes, value.values()))
    return not (isinstance(value, (bool, int, float)) and not value)

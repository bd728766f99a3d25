"""A consumer of Debezium's records, written against Debezium's documents and nothing else: what a program that is not
ours makes of topics.

It knows the keys, the envelope, the schemas that may come with both, and tombstones. Where schemas are there it holds
each payload against them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

_TYPES = {"string": str, "int64": int, "int32": int, "boolean": bool}


@dataclass(frozen=True, slots=True)
class Change:
    """A record: the payload of its key and of its value (None: a tombstone)."""

    key: Any
    value: Any

    @property
    def op(self) -> str | None:
        return None if self.value is None else self.value["op"]


@dataclass(slots=True)
class State:
    """What the changes amount to: documents by the text of their id."""

    documents: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, changes: Iterable[Change]) -> State:
        state = cls()
        for change in changes:
            state.take(change)
        return state

    def take(self, change: Change) -> None:
        """As the documents say: c, u and r bring the document after, d removes it, a tombstone says that it is gone."""
        identity = change.key["id"]
        match change.op:
            case "c" | "u" | "r":
                self.documents[identity] = json.loads(change.value["after"])
            case "d":
                del self.documents[identity]
            case None:
                assert identity not in self.documents


def changes(messages: Iterable[Any]) -> list[Change]:
    """What the messages of a topic hold, in their order."""
    return [Change(payload(message.key()), payload(message.value())) for message in messages]


def payload(raw: bytes | None) -> Any:
    """The payload of a key or a value. With its schema, it is held against that."""
    if raw is None:
        return None
    found = json.loads(raw)
    if found.keys() != {"schema", "payload"}:
        return found
    conforms(found["payload"], found["schema"], "payload")
    return found["payload"]


def conforms(value: Any, schema: Any, where: str) -> None:
    """Fails with the place that does not fit."""
    if value is None:
        assert schema["optional"], f"{where} is null"
        return
    match schema["type"]:
        case "struct":
            fields = {one["field"]: one for one in schema["fields"]}
            assert value.keys() == fields.keys(), f"{where} has {sorted(value)}"
            for name, one in fields.items():
                conforms(value[name], one, f"{where}.{name}")
        case "array":
            for item in value:
                conforms(item, schema["items"], f"{where}[]")
        case kind:
            assert isinstance(value, _TYPES[kind]), f"{where} is no {kind}: {value!r}"


def by_key(found: Sequence[Change]) -> dict[str, list[Change]]:
    """The changes of each document, in their order."""
    result: dict[str, list[Change]] = {}
    for change in found:
        result.setdefault(change.key["id"], []).append(change)
    return result

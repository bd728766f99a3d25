"""Chunks: the ranges of ``_id`` that windows guard.

An id is opaque here. A ``Bound`` carries it as BSON, so that its type is never lost, beside its ``_key``: the
order-preserving text of `streaming.keys.keys`, which is what tables are keyed and pruned by. This module never
compares two BSON ids; where an order is needed it is the order of keys.

In a collection that is sharded by more than ``_id`` several documents may share an id. There a bound's key lies just
above all keys of its id, or (the lower end of a range to which it belongs) just below them: so ranges of keys are
ranges of ids, and a single id means all of its documents.

Pure: standard library only.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streaming.keys.keys import end_of_id, is_sharded, start_of, start_of_id, whole_id


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range: the id as a BSON document ``{"_id": <value>}``, and its ``_key``."""

    id: bytes
    key: str

    def past_id(self) -> Bound:
        """Above all documents of its id, where several may share it."""
        return Bound(self.id, end_of_id(self.id))

    def before_id(self) -> Bound:
        """Below all documents of its id, where several may share it."""
        return Bound(self.id, start_of_id(self.id))

    def to_json(self) -> dict[str, str]:
        return {"id": b64encode(self.id).decode(), "key": self.key}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Bound:
        return cls(b64decode(value["id"]), value["key"])


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The ids with ``after < id <= upto``; None leaves that end open. ``closed``: ``after`` itself belongs to it
    as well, as the lower end of a range that somebody asked for does.

    The order is that of the collection's ids. Keys are ordered alike unless the collection has a collation,
    so whether ``after`` lies before ``upto`` is checked where that is known (`core.rules.scan`), and ``holds`` is
    only asked there.
    """

    after: Bound | None
    upto: Bound | None
    closed: bool = False

    def __post_init__(self) -> None:
        if self.after is None and self.closed:
            raise ValueError("a range that is open below has no lower end that could belong to it")
        if self.after is None or self.upto is None or self.closed:
            return
        if self.after.key == self.upto.key:
            raise ValueError(f"an empty range: after {self.after.key!r}, up to {self.upto.key!r}")

    def holds(self, key: str) -> bool:
        above = self.after is None or self.after.key < key or (self.closed and self.after.key == key)
        return above and (self.upto is None or key <= self.upto.key)

    def of_whole_ids(self) -> KeyRange:
        """The same ids, where several documents may share one."""
        low = self.after and (self.after.before_id() if self.closed else self.after.past_id())
        return KeyRange(low, self.upto and self.upto.past_id(), self.closed)

    def to_json(self) -> dict[str, Any]:
        return {
            "after": self.after.to_json() if self.after else None,
            "upto": self.upto.to_json() if self.upto else None,
            "closed": self.closed,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> KeyRange:
        after, upto = (Bound.from_json(value[end]) if value[end] else None for end in ("after", "upto"))
        return cls(after, upto, value["closed"])


@dataclass(frozen=True, slots=True)
class KeyList:
    """Single ids, read one by one: those whose full document the stream could not give, or that a request names."""

    ids: tuple[Bound, ...]
    keys: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", frozenset(bound.key for bound in self.ids))

    def holds(self, key: str) -> bool:
        return key in self.keys or (is_sharded(key) and whole_id(key) in self.keys)


Target = KeyRange | KeyList


def end_of(target: Target) -> Bound | None:
    """The last id of a chunk: where a scan has come to once the chunk has landed."""
    return target.upto if isinstance(target, KeyRange) else target.ids[-1]


def span_of(target: Target) -> tuple[str, str | None]:
    """The least and the greatest key that the target may hold, both included; None where it is open above. Keys must be
    ordered as the ids are."""
    if isinstance(target, KeyList):
        return min(start_of(bound.key) for bound in target.ids), max(bound.key for bound in target.ids)
    # No key lies before the empty text, so a range that is open below begins with it.
    return target.after.key if target.after else "", target.upto.key if target.upto else None

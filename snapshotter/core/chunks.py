"""Chunks: the ranges of ``_id`` that windows guard.

An id is opaque here. A ``Bound`` carries it as BSON, so that its type is never lost, beside its ``_key``: the
order-preserving text of `streaming.keys`, which is what tables are keyed and pruned by. This module never
compares two BSON ids; where an order is needed it is the order of keys.

Pure: standard library only.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range: the id as a BSON document ``{"_id": <value>}``, and its ``_key``."""

    id: bytes
    key: str

    def to_json(self) -> dict[str, str]:
        return {"id": b64encode(self.id).decode(), "key": self.key}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Bound:
        return cls(b64decode(value["id"]), value["key"])


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The ids with ``after < id <= upto``; None leaves that end open.

    The order is that of the collection's ids. Keys are ordered alike unless the collection has a collation,
    so whether ``after`` lies before ``upto`` is checked where that is known (`core.scan`), and ``holds`` is
    only asked there.
    """

    after: Bound | None
    upto: Bound | None

    def __post_init__(self) -> None:
        if self.after is not None and self.upto is not None and self.after.key == self.upto.key:
            raise ValueError(f"an empty range: after {self.after.key!r}, up to {self.upto.key!r}")

    def holds(self, key: str) -> bool:
        return (self.after is None or self.after.key < key) and (self.upto is None or key <= self.upto.key)


@dataclass(frozen=True, slots=True)
class KeyList:
    """Single ids, read again one by one: those whose full document the stream could not give."""

    ids: tuple[Bound, ...]

    def holds(self, key: str) -> bool:
        return any(bound.key == key for bound in self.ids)


Target = KeyRange | KeyList

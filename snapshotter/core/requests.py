"""What was asked for, once it is understood: collections with their filters, under one id.

A request names real collections: patterns have been matched against the catalogue before it gets here.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from streaming.namespaces import Namespace


class Origin(StrEnum):
    """Who asked: an operator, the first start, or a rename that brought documents which never streamed."""

    SIGNAL = "signal"
    INITIAL = "initial"
    RENAME = "rename"


@dataclass(frozen=True, slots=True)
class Wanted:
    """One collection of a request; ``filter`` is a query document as Extended JSON text, or None for all of
    it."""

    namespace: Namespace
    filter: str | None = None


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """Collections to read, in this order. ``id`` makes it idempotent: the same id is carried out once."""

    id: str
    wanted: tuple[Wanted, ...]
    origin: Origin = Origin.SIGNAL

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a snapshot request needs an id")
        names = [w.namespace for w in self.wanted]
        if len(set(names)) != len(names):
            raise ValueError(f"request {self.id!r} names a collection twice: {', '.join(map(str, names))}")

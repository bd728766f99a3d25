"""What was asked for, once it is understood: collections with their filters, under one id.

A request names real collections: patterns have been matched against the catalogue before it gets here.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from snapshotter.core.values.chunks import Bound, KeyRange
from streaming.namespaces import Namespace


class Origin(StrEnum):
    """Who asked: an operator, the first start, a rename that brought documents which never streamed, the engine itself,
    whose table somebody else has altered, a change of shard key, after which documents have other keys, too many ids to
    read again one by one, or a lost position, behind which every table is compared."""

    SIGNAL = "signal"
    INITIAL = "initial"
    RENAME = "rename"
    REPAIR = "repair"
    RESHARD = "reshard"
    REREAD = "reread"
    HEAL = "heal"

    @property
    def stops(self) -> bool:
        """Whether an operator's stop applies to it: not to what the engine reads to keep its tables right. A pause
        always applies."""
        return self not in (Origin.RESHARD, Origin.REREAD)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One collection of a request, or a part of it.

    ``filter`` is a query document as Extended JSON text. ``keys`` are single ids, ``range`` the ids between two ends:
    nothing else is read then. ``reconcile``: rows that are missing at source are deleted from the table. Under a
    filter, which proves no absence, the documents of all rows that the table has are read then, besides what matches.
    ``rewrite``: what is read is written even where the table has it already.
    """

    namespace: Namespace
    filter: str | None = None
    keys: tuple[Bound, ...] = ()
    range: KeyRange | None = None
    reconcile: bool = False
    rewrite: bool = False

    def __post_init__(self) -> None:
        if self.keys and self.range is not None:
            raise ValueError(f"{self.namespace}: single ids and a range of ids exclude each other")


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """Collections to read, in this order. ``id`` makes it idempotent: the same id is carried out once.

    Of two requests that want the same, the one of the higher ``priority`` goes first, then the one that was accepted
    first. ``digest`` stands for the content as it was sent, so that another one under the same id is recognized.
    ``blocking``: nothing else is read meanwhile, and the stream waits. ``unknown``: names in it of no captured
    collection; they are reported.
    """

    id: str
    wanted: tuple[Wanted, ...]
    origin: Origin = Origin.SIGNAL
    priority: int = 0
    digest: str = ""
    blocking: bool = False
    unknown: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("a snapshot request needs an id")
        names = [w.namespace for w in self.wanted]
        if len(set(names)) != len(names):
            raise ValueError(f"request {self.id!r} names a collection twice: {', '.join(map(str, names))}")

"""What was looked at, as values that the rules go by. Pure.

None stands for what is not known: there was nothing to look at, or this user may not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from streaming.namespaces import Namespace


class Kind(StrEnum):
    """What a name in a database stands for."""

    COLLECTION = "collection"
    VIEW = "view"
    TIME_SERIES = "timeseries"


@dataclass(frozen=True, slots=True)
class Ids:
    """The types of a collection's first and last id, in BSON's order: where they are equal all ids are of that type.
    ``splits``: its ids can be cut into ranges, whatever its collation."""

    first: str
    last: str
    splits: bool = True


@dataclass(frozen=True, slots=True)
class CollectionFacts:
    """A collection within ``capture.scope`` and the lists. ``listed``: an include list has its very name. ``images``:
    it keeps pre- and post-images, which the command ``switch_on`` would make it do. ``based_on``: what a view is of.
    ``documents`` and ``bytes`` are what the server counts of it."""

    namespace: Namespace
    kind: Kind = Kind.COLLECTION
    listed: bool = False
    capped: bool = False
    clustered: bool = False
    collation: str | None = None
    images: bool = False
    switch_on: str = ""
    based_on: str | None = None
    ids: Ids | None = None
    documents: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """``ahead`` is by how many seconds this machine's clock is ahead of the server's, and ``within`` how far that may
    be off."""

    ahead: float
    within: float


@dataclass(frozen=True, slots=True)
class Place:
    """A warehouse on this machine. ``folder`` is its own, or the nearest above it that exists; ``refused`` why nothing
    can be written there; ``free`` how many bytes are left."""

    warehouse: str
    folder: str
    refused: str = ""
    free: int | None = None


@dataclass(frozen=True, slots=True)
class Package:
    """A package that must be of one version. ``installed`` is None where there is none."""

    name: str
    wanted: str
    installed: str | None


@dataclass(frozen=True, slots=True)
class Java:
    """``where`` Java was found, and its major ``version``; None for what is not known."""

    where: str | None
    version: int | None

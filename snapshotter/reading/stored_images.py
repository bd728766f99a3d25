"""Collections that keep no pre- and post-images, although something counts on them.

The server keeps both by one switch for each collection, from the moment at which it is set, and gives null for one that
it does not have. Without its post-image (``capture.mode.full.update.type=post_image``) an update comes without its
document, which is read again by its id: the table is right in the end, but not after each batch, and it takes longer.
Without its pre-image (``capture.mode=…_with_pre_image``, for targets of events) an event has no ``before``. A warning
names such a collection, with the command that changes it, or it is changed here (``engine.post.images.enable``). All
captured collections are looked at when an engine starts, one that is made later with its first events, and all that are
known once a minute, since one may be dropped and made anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from streaming.namespaces import Namespace

OPTION = "changeStreamPreAndPostImages"
_log = structlog.get_logger("snapshotter.stored_images")
_AGAIN_SECONDS = 60.0


@dataclass(slots=True)
class StoredImages:
    """``enable``: switch them on instead of warning. ``lost``: what there is not without them (`lost_without`). Not for
    several threads at once."""

    client: MongoClient[Any]
    enable: bool
    lost: str
    clock: Callable[[], float] = time.monotonic
    _known: set[Namespace] = field(default_factory=set)
    _warned: set[Namespace] = field(default_factory=set)
    _looked: float = float("-inf")

    def look(self, namespaces: Iterable[Namespace]) -> None:
        """Look at those of these collections that are new here, and once a minute at all. An error of the server is
        logged, and the next call asks again: updates are read again by their ids meanwhile."""
        new = set(namespaces) - self._known
        if self.clock() - self._looked >= _AGAIN_SECONDS:
            new |= self._known
            self._looked = self.clock()
        if not new:
            return
        try:
            lacking = self._lacking(new)
        except PyMongoError as error:
            _log.warning("cannot tell which collections keep pre- and post-images", error=str(error))
            return
        self._known |= new
        self._warned -= new - set(lacking)
        for namespace in lacking:
            self._help(namespace)

    def _lacking(self, namespaces: Iterable[Namespace]) -> list[Namespace]:
        """Those that are there and keep none."""
        names: dict[str, list[str]] = {}
        for namespace in namespaces:
            names.setdefault(namespace.database, []).append(namespace.collection)
        return [
            Namespace(database, info["name"])
            for database, collections in sorted(names.items())
            for info in self.client[database].list_collections(filter={"name": {"$in": sorted(collections)}})
            if not info.get("options", {}).get(OPTION, {}).get("enabled", False)
        ]

    def _help(self, namespace: Namespace) -> None:
        if self.enable:
            try:
                self.client[namespace.database].command(
                    {"collMod": namespace.collection, OPTION: {"enabled": True}}
                )
            except PyMongoError as error:
                self._known.discard(namespace)
                self._warn(namespace, f"engine.post.images.enable cannot switch them on: {error}")
                return
            _log.info("pre- and post-images are kept from now on", collection=str(namespace))
        else:
            self._warn(namespace, "the server has none to give")

    def _warn(self, namespace: Namespace, why: str) -> None:
        """Once, until it has changed."""
        if namespace not in self._warned:
            self._warned.add(namespace)
            _log.warning(
                self.lost,
                collection=str(namespace),
                why=why,
                run=command_for(namespace),
            )


def lost_without(*, before: bool, after: bool) -> str:
    """What there is not where the pre-images (``before``), the post-images (``after``), or both are counted on."""
    parts = ["no pre-images: what is told of changes has no before"] if before else []
    parts += ["no post-images: updates are read again by their ids"] if after else []
    return "; ".join(parts)


def command_for(namespace: Namespace) -> str:
    """What to enter in mongosh so that the collection keeps pre- and post-images."""
    collection = namespace.collection.replace("\\", "\\\\").replace('"', '\\"')
    return (
        f'db.getSiblingDB("{namespace.database}").runCommand({{collMod: "{collection}", '
        f"{OPTION}: {{enabled: true}}}})"
    )

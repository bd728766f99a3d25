"""Where a first start begins: the position from which on no change, and no signal, is missed.

It is taken under the engine's lock, once preflight has found nothing wrong and before Spark starts, for that takes
seconds or minutes. It stands, also over a crash, until a batch is saved: then progress holds a position.

    capture.start.op.time, if it was given     goes first (not for a position that takes the place of a lost one)
    progress                                   so does what a batch has saved
    beginning.json                             else the one that an earlier start took
    the majority-committed time                else now

Where only Spark reaches the state, the position is taken before it starts, held in memory, and saved first thing after.
A position that the oplog loses before any batch has landed is taken anew, with a warning: changes between the two are
not seen. A mode that reads at its first start has their documents all the same, any other has not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import Storage
from streaming.json_text import from_text, to_text
from streaming.mongo.deployment import majority_time
from streaming.mongo.errors import SourceError
from streaming.positions import ClusterTime
from streaming.source.change_cursor import holds
from streaming.source.change_options import ChangeOptions

_log = structlog.get_logger("snapshotter.engine")
_FILE = "beginning.json"
_FORMAT = 1
START = "capture.start.op.time"


def early_position(client: MongoClient[Any]) -> ClusterTime | None:
    """The time now, to hold while nothing can be saved; None if the source does not answer: preflight will say why."""
    try:
        return majority_time(client)
    except (PyMongoError, SourceError):
        return None


@dataclass(slots=True)
class Beginning:
    """``options`` are the source's; ``early`` was taken before anything could be saved."""

    storage: Storage
    client: MongoClient[Any]
    options: Mapping[str, str]
    early: ClusterTime | None = None

    def position(self, store: ProgressStore) -> ClusterTime | None:
        """The position behind which every change will be read; None where progress, or an option, says where to go on.
        It is durable when this returns. Call it only under the engine's lock."""
        newest, number = store.newest(), store.generation.number
        if newest is not None and newest.batch_id >= 0:
            self.storage.delete(_FILE)
            return None
        if not store.generation.lost and self.options.get(START, "-1") != "-1":
            return None
        return self._stored(number) or self._taken(number, self.early or majority_time(self.client))

    def confirmed(self, store: ProgressStore) -> ClusterTime | None:
        """The same position, asked for right before the stream begins there: one that the oplog has lost meanwhile is
        taken anew."""
        position = self.position(store)
        if position is None:
            return None
        options = ChangeOptions.parse(self.options)
        if holds(options.uri, options.stream.bare(), position):
            return position
        anew = self._taken(store.generation.number, majority_time(self.client))
        # A crash in the first batch may have left its end with Spark: it would be gone back to.
        self.storage.delete(f"{store.generation.checkpoint}/offsets/0")
        _log.warning(
            "the oplog has lost the position at which this engine began, and no batch had landed: it begins anew, and "
            "does not see the changes between. Let the oplog reach further back, and ask for a snapshot of what may "
            "have changed, where the start reads nothing",
            lost=str(position),
            anew=str(anew),
        )
        return anew

    def _stored(self, generation: int) -> ClusterTime | None:
        text = self.storage.read_text(_FILE)
        if text is None:
            return None
        value = from_text(text)
        if value.get("format") != _FORMAT:
            raise ValueError(f"{self.storage.location}/{_FILE} is not of format {_FORMAT}: {text[:200]}")
        return ClusterTime.from_json(value["position"]) if value["generation"] == generation else None

    def _taken(self, generation: int, position: ClusterTime) -> ClusterTime:
        value = {"format": _FORMAT, "generation": generation, "position": position.to_json()}
        self.storage.write_text(_FILE, to_text(value))
        _log.info("changes are captured from here on", position=str(position))
        return position

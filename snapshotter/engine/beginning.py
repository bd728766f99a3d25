"""Where a first start begins: the position from which on no change, and no signal, is missed.

It is taken under the engine's lock, once preflight has found nothing wrong and before Spark starts, for that takes
seconds or minutes. It stands, also over a crash, until a batch is saved: then progress holds a position.

    progress                                   what a batch has saved goes first
    the generation's own start                 so does a position that an operator has set, until a batch is saved
    capture.start.op.time, if it was given     else that (not for a position that takes the place of a lost one)
    beginning.json                             else the one that an earlier start took
    engine.position.start, if it was given     else that (nor this)
    the majority-committed time                else now

Where only Spark reaches the state, the position is taken before it starts, held in memory, and saved first thing after.
A position that the oplog loses before any batch has landed is taken anew, with a warning: changes between the two are
not seen. A mode that reads at its first start has their documents all the same, any other has not. One that an operator
has set is not replaced: it is a lost position like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from snapshotter.engine.start_times import resolved
from snapshotter.errors import DefiniteError
from snapshotter.position.starts import Start
from snapshotter.state.generation import Generation
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import Storage, read_object
from streaming.json_text import to_text
from streaming.mongo.deployment import majority_time
from streaming.mongo.errors import PositionLostError, SourceError
from streaming.positions import ClusterTime
from streaming.source.change_cursor import POSITION_LOST, holds
from streaming.source.change_options import ChangeOptions

_log = structlog.get_logger("snapshotter.engine")
_FILE = "beginning.json"
_FORMAT = 1
START = "capture.start.op.time"
POSITION_START = "engine.position.start"


def early_position(client: MongoClient[Any]) -> ClusterTime | None:
    """The time now, to hold while nothing can be saved; None if the source does not answer: preflight will say why."""
    try:
        return majority_time(client)
    except (PyMongoError, SourceError):
        return None


@dataclass(slots=True)
class Beginning:
    """``options`` are the source's; ``start`` is where a first start is to begin (None: now). ``early`` was taken
    before anything could be saved."""

    storage: Storage
    client: MongoClient[Any]
    options: Mapping[str, str]
    early: ClusterTime | None = None
    start: Start | None = None

    def position(self, store: ProgressStore) -> ClusterTime | None:
        """The position behind which every change will be read; None where progress, or an option, says where to go on.
        It is durable when this returns. Call it only under the engine's lock."""
        newest, number = store.newest(), store.generation.number
        if newest is not None and newest.batch_id >= 0:
            self.storage.delete(_FILE)
            return None
        if store.generation.start is not None:
            return store.generation.start
        if not store.generation.lost and self.options.get(START, "-1") != "-1":
            return None
        return self.stored(self.storage, number) or self._taken(number, self._first(store.generation))

    def _first(self, generation: Generation) -> ClusterTime:
        if self.start is not None and not generation.lost:
            try:
                return resolved(self.start, self.options, self.client)
            except DefiniteError as error:
                raise DefiniteError(f"{POSITION_START}: {error.message}", error.next_step) from error
        return self.early or majority_time(self.client)

    def confirmed(self, store: ProgressStore) -> ClusterTime | None:
        """The same position, asked for right before the stream begins there: one that the oplog has lost meanwhile is
        taken anew."""
        position = self.position(store)
        if position is None:
            return None
        if self.holds(position):
            return position
        if store.generation.start is not None:
            raise PositionLostError(POSITION_LOST.format(start=position))
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

    def holds(self, position: ClusterTime) -> bool:
        """Whether the oplog still has all that came behind the position."""
        options = ChangeOptions.parse(self.options)
        return holds(options.uri, options.stream.bare(), position)

    @staticmethod
    def stored(storage: Storage, generation: int) -> ClusterTime | None:
        """The position that an earlier start has taken for this generation."""
        value = read_object(storage, _FILE, _FORMAT)
        if value is None or value["generation"] != generation:
            return None
        return ClusterTime.from_json(value["position"])

    def _taken(self, generation: int, position: ClusterTime) -> ClusterTime:
        value = {"format": _FORMAT, "generation": generation, "position": position.to_json()}
        self.storage.write_text(_FILE, to_text(value))
        _log.info("changes are captured from here on", position=str(position))
        return position

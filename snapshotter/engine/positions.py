"""The position of an engine, for whoever operates it: looked at, set, written to a file and taken from one.

To look takes no lock and changes nothing. To set it does: a new life of the position begins (`state.generation`), with
whatever is known of collections and requests, and the next start goes on there. The oplog is asked before anything is
touched.

    forward     the changes in between are never seen: a gap, which the next start records (--heal: all is read again)
    backward    what has landed lands again, key by key, until the stream is where it was: nothing is doubled
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.core.values.gaps import Gap
from snapshotter.core.values.progress import Progress
from snapshotter.engine.beginning import Beginning
from snapshotter.engine.locked import locked
from snapshotter.engine.start_times import resolved
from snapshotter.position.runway import Oplog, runway_hours
from snapshotter.position.starts import Start
from snapshotter.reading.oplog import look
from snapshotter.reporting.notices import wall_clock_ms
from snapshotter.state.generation import Cause, Generation, carried, seed
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import Storage
from streaming.mongo.deployment import check_deployment, connect
from streaming.mongo.errors import SourceError
from streaming.positions import ClusterTime

IMPORTED = Cause.IMPORTED


@dataclass(frozen=True, slots=True)
class Shown:
    """``position`` is None where no engine has begun; ``oplog`` where MongoDB could not be asked, and ``why`` not."""

    position: ClusterTime | None
    oplog: Oplog | None = None
    why: str | None = None
    next_start: bool = False
    """It was set, and no batch has landed since."""

    @property
    def runway_hours(self) -> float | None:
        known = self.oplog is not None and self.position is not None
        return runway_hours(self.oplog, self.position) if known else None  # type: ignore[arg-type] # known


@dataclass(frozen=True, slots=True)
class Moved:
    """What setting a position did: from ``was`` (None: there was none) to ``now``. ``gap``: what it passes over."""

    was: ClusterTime | None
    now: ClusterTime
    heal: bool
    gap: Gap | None


def known_position(storage: Storage) -> tuple[ClusterTime | None, bool]:
    """Up to where all has landed; or, before any batch of this life of the position has, where it begins. And whether
    it is the latter."""
    store = ProgressStore(storage)
    newest = store.newest()
    if newest is not None and newest.batch_id >= 0:
        return newest.position, False
    begins = store.generation.start or Beginning.stored(storage, store.generation.number)
    return begins, begins is not None


def show(config: EngineConfig, storage: Storage) -> Shown:
    """The position as it stands, also while the engine runs, and what the oplog says of it."""
    position, next_start = known_position(storage)
    try:
        return Shown(position, look(connect(config.uri)), None, next_start)
    except (PyMongoError, SourceError) as error:
        return Shown(position, None, str(error).splitlines()[0], next_start)


def move(
    config: EngineConfig, storage: Storage, start: Start, *, heal: bool, cause: Cause = Cause.RESET
) -> Moved:
    """Set the position of the engine of this ``config``, whose state is in ``storage``, to ``start``. With ``heal`` the
    next start reads all that is captured, with reconcile. ``cause``: what the new life of the position says of why it
    began.

    Raises DefiniteError for a position that the oplog does not hold, and LockHeldError where the engine runs; nothing
    has been touched then.
    """
    client: MongoClient[Any] = connect(config.uri)
    check_deployment(client)
    now = resolved(start, config.source_options, client)
    with locked(storage, config.name):
        was, _ = known_position(storage)
        store = ProgressStore(storage)
        before = store.newest() or Progress()
        generation = following(store.generation, before, was, now, heal=heal, cause=cause)
        generation = replace(generation, partition=config.partition)
        if generation.number == store.generation.number and storage.exists(
            f"{generation.checkpoint}/offsets/0"
        ):
            # A batch was begun and never landed: Spark would go back to it.
            generation = replace(generation, number=generation.number + 1)
        if generation.gap is not None:
            gap = replace(generation.gap, number=generation.number, found_ms=wall_clock_ms())
            generation = replace(generation, gap=gap)
        fresh = generation.heal or before.fresh
        state = seed(before, generation) if fresh else carried(before, now, generation.gap)
        store.begin_generation(generation, state)
    return Moved(was, now, generation.heal, generation.gap)


def following(
    before: Generation,
    progress: Progress,
    was: ClusterTime | None,
    now: ClusterTime,
    *,
    heal: bool,
    cause: Cause,
) -> Generation:
    """The generation that begins at ``now``, after the one ``before`` with its newest ``progress`` at the position
    ``was`` (None: none), because of ``cause``. ``heal``: all is to be read again. A generation in which no batch has
    landed has done nothing of what it was to do: that stays to be done."""
    landed = progress.batch_id >= 0
    heals = heal or (before.heal and not landed)
    first = before.gap.since if before.gap is not None and not landed else was
    passed = first is not None and first < now and not heals and not progress.fresh
    return Generation(
        number=before.number + 1 if landed else before.number,
        removed=before.removed and not landed,
        cause=cause,
        start=now,
        heals=heals,
        gap=passed_over(first, now, cause) if passed and first is not None else None,
        partition=before.partition,
    )


def passed_over(first: ClusterTime, now: ClusterTime, cause: Cause) -> Gap:
    """The changes after ``first`` and up to ``now``, which an operator's move (its ``cause``) leaves unseen."""
    return Gap(0, first, cause, "the position was moved past them", heals=False, found_ms=0, upto=now)


def told(moved: Moved) -> Sequence[str]:
    """Lines for a person."""
    lines = [f"the next start begins at {in_words(moved.now)}"]
    if moved.was is not None:
        lines.insert(0, f"the position was {in_words(moved.was)}")
    if moved.heal:
        lines.append(
            "all that is captured is then read again with reconcile, so nothing that was missed is left"
        )
    elif moved.gap is not None:
        lines.append(
            f"changes between {moved.gap.since} and {moved.gap.upto} are not seen, which is recorded as a gap: to "
            "repair what they changed, give --heal, or read collections again with execute-snapshot --reconcile"
        )
    elif moved.was is not None and moved.now < moved.was:
        lines.append("changes since then are read again: rows are written by key, so none is doubled")
    return lines


def iso(position: ClusterTime) -> str:
    """Its time, to the second."""
    return datetime.fromtimestamp(position.t, UTC).isoformat()


def in_words(position: ClusterTime) -> str:
    """The position with its time."""
    return f"{position} ({iso(position)})"

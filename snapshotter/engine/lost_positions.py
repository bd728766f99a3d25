"""When a position is lost, and what is done about it.

A position is lost where the oplog no longer reaches back to it, where the deployment is another one than it was taken
from, and where the source was replaced by an older copy. The first is the server's word. The other two it would answer
with silence or with somebody else's changes, so they are looked for: which deployment it is before each run, and how
far it has come at each look at the source. An older copy that is written to soon has come as far again, by its clock;
it is known by an entry of the oplog that the position has passed and that the copy never had. One is noted once a
minute and where a run ends well; a copy that lacks less than the last minute before a crash is not noticed.

What follows is for ``engine.position.lost`` to say: the engine fails, or a new position is taken, and the gap between
the two is recorded, announced, and healed or left (`core.values.gaps`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pymongo
import structlog
from pymongo import MongoClient

from snapshotter.configuration.option_values import PositionLost
from snapshotter.configuration.position_options import POSITION_LOST
from snapshotter.core.values.gaps import Cause, Gap
from snapshotter.errors import SnapshotterError, cause_of
from snapshotter.state.storage import Storage, read_object
from streaming.json_text import to_text
from streaming.mongo import errors as mongo_errors
from streaming.mongo.deployment import deployment_id, newest_time, oplog_has
from streaming.mongo.errors import ErrorClass, PositionLostError
from streaming.mongo.server_codes import Kind
from streaming.positions import ClusterTime

_log = structlog.get_logger("snapshotter.engine")
_FILE = "source.json"
_FORMAT = 1
_LOOKS, _LOOK_SECONDS = 20, 0.5
"""A node that has just become primary, or a router that has just started, may know of less for a moment."""
_ENTRY, _ENTRY_SECONDS, _NEXT_SECONDS = "passed", 60.0, 5.0
_END_SECONDS = 2.0


class PositionGone(SnapshotterError):
    """The position is lost, and the engine is to fail then."""


@dataclass(slots=True)
class SourceWatch:
    """Holds the source against the position. Raises PositionLostError where they do not belong together."""

    storage: Storage
    client: MongoClient[Any]
    _behind: int = 0
    _remembers_at: float = 0.0

    def check(self, position: ClusterTime | None, pause: Callable[[float], bool]) -> None:
        """Before a run that goes on at ``position`` (None: nothing has landed yet): whether this is the deployment of
        before, and has come as far. ``pause`` waits for so many seconds, and returns whether the engine is to stop."""
        self._check_deployment(position)
        while position is not None and (newest := newest_time(self.client)) < position:
            self.check_head(newest, position)
            if pause(_LOOK_SECONDS):
                return
        self._check_entry(position)

    def _check_deployment(self, position: ClusterTime | None) -> None:
        """One that does not tell its id is known by the name of its replica set."""
        found, known = deployment_id(self.client), self._known()
        differs = [name for name, value in found.items() if known.get(name, value) != value]
        if position is not None and differs:
            what, before = differs[0], known[differs[0]]
            raise PositionLostError(
                f"this is another deployment: its {what} is {found[what]}, and position {position} was taken from "
                f"{before}. Its changes do not follow those that have landed",
                ErrorClass(Kind.POSITION_LOST, Cause.DEPLOYMENT),
            )
        if known != {**known, **found}:
            self._write({**known, **found})

    def _check_entry(self, position: ClusterTime | None) -> None:
        known = self._known()
        passed = known.pop(_ENTRY, None)
        if passed is None:
            return
        if position is None:
            self._write(known)
        elif (
            oplog_has(self.client, entry := ClusterTime.from_int(int(passed))) is False and entry <= position
        ):
            raise PositionLostError(
                f"the oplog has no entry of {_moment(entry)}, which the position has passed: the source was replaced "
                "by an older copy, which was written to since. What was written after that copy, and what has landed "
                "of it, differ",
                ErrorClass(Kind.POSITION_LOST, Cause.AHEAD),
            )

    def accept(self) -> None:
        """The deployment that is there now is the one that counts."""
        self._write(deployment_id(self.client))

    def check_head(self, head: ClusterTime, position: ClusterTime) -> None:
        """``head`` is the newest majority-committed time that the source has told. Behind ``position`` it is looked at
        more closely, and after some looks in a row the position is lost."""
        if head >= position or (newest := newest_time(self.client)) >= position:
            self._behind = 0
            self._remember(position)
            return
        if not self._behind:
            _log.warning(
                "the source's newest change lies before the position",
                newest=str(newest),
                position=str(position),
            )
        self._behind += 1
        if self._behind >= _LOOKS:
            raise PositionLostError(
                f"the source's newest change, {_moment(newest)}, lies before position {_moment(position)}: it was "
                "replaced by an older copy. What was written since that copy, and what has landed of it, differ",
                ErrorClass(Kind.POSITION_LOST, Cause.AHEAD),
            )

    def ended(self, position: ClusterTime) -> None:
        """A run has ended well at this position."""
        self._remembers_at = 0.0
        with pymongo.timeout(_END_SECONDS):
            self._remember(position)

    def _remember(self, position: ClusterTime) -> None:
        """Note the position, if it is that of an entry: it is where a batch ended, and most end at one."""
        now = time.monotonic()
        if now < self._remembers_at:
            return
        found = oplog_has(self.client, position)
        self._remembers_at = now + (_NEXT_SECONDS if found is False else _ENTRY_SECONDS)
        if found:
            self._write({**self._known(), _ENTRY: str(position.to_int())})

    def _known(self) -> dict[str, str]:
        value = read_object(self.storage, _FILE, _FORMAT) or {}
        return {name: str(found) for name, found in value.items() if name != "format"}

    def _write(self, found: dict[str, str]) -> None:
        self.storage.write_text(_FILE, to_text({"format": _FORMAT, **found}))


def gap_of(
    error: BaseException,
    landed: Callable[[], ClusterTime],
    policy: PositionLost,
    now_ms: Callable[[], int],
) -> Gap | None:
    """The gap that ``error``, which ended a run, leads to behind the position that has ``landed``, under this
    ``policy``. None where it is no lost position; then nobody is asked, for the state may be what cannot be reached.
    Raises PositionGone where the engine is to fail. ``now_ms`` is the clock, in milliseconds since the epoch."""
    found = mongo_errors.classify(error)
    if found.kind is not Kind.POSITION_LOST:
        return None
    cause = Cause(found.name) if found.name in list(Cause) else Cause.HISTORY
    position = landed()
    if policy is PositionLost.FAIL:
        raise PositionGone(
            f"the position is lost ({cause}): nothing behind {_moment(position)} has landed. {cause_of(error)}",
            f"start with {POSITION_LOST}=heal: a new position, and every captured collection is compared with its "
            f"table; or {POSITION_LOST}=continue: a new position, and what was missed stays missing until it is read. "
            "Let the oplog reach further back (replSetResizeOplog, storage.oplogMinRetentionHours)",
            condition="position-lost",
        ) from error
    return Gap(0, position, cause, cause_of(error), policy is PositionLost.HEAL, now_ms())


def tell(gap: Gap, *, mode_reads: bool) -> None:
    """Say what happens now; ``mode_reads``: snapshot.mode reads collections by itself."""
    told = {"cause": str(gap.cause), "since": _moment(gap.since), "error": gap.error}
    if not gap.heals:
        _log.warning(
            "the position is lost: a new one is taken, and what changed in between is not in the tables until it is "
            "read (snapshotter execute-snapshot --reconcile)",
            **told,
        )
        return
    whole = "" if mode_reads else ", also what snapshot.mode has never read: they will be whole"
    _log.warning(
        f"the position is lost: a new one is taken, and all captured collections are compared with their tables{whole}",
        **told,
    )


def _moment(position: ClusterTime) -> str:
    return f"{datetime.fromtimestamp(position.t, UTC):%Y-%m-%d %H:%M:%S} UTC ({position})"

"""How the engine is, for whoever has to act: active, paused, or broken. Pure.

The engine's state says where it is in its life; its health says whether somebody has to do something.
`docs/failures.md` has the table from each to the other, and a test holds it to ``health_of``.

Broken begins with an error that ends a run, and ends once a run has landed a batch again: a run that merely starts has
proven nothing, and health that swings with each attempt would tell nobody anything.
"""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum, StrEnum

from snapshotter.reporting.status import EngineState, Status

STALE_SECONDS = 30.0
"""A running engine writes its status every second."""
_STARTS_SECONDS = 300.0


class Health(StrEnum):
    """What a person needs to know first."""

    ACTIVE = "Active"
    PAUSED = "Paused"
    BROKEN = "Broken"


def health_of(state: EngineState, *, broken: bool, paused: bool) -> Health:
    """The health in this ``state``. ``broken``: a run has failed, and none has landed a batch since; ``paused``: an
    operator has paused the stream."""
    if state is EngineState.FAILED:
        return Health.BROKEN
    if state is EngineState.STOPPED:
        return Health.PAUSED
    if broken:
        return Health.BROKEN
    return Health.PAUSED if paused else Health.ACTIVE


class Check(IntEnum):
    """Exit codes of ``status --check``."""

    ACTIVE = 0
    PAUSED = 1
    BROKEN = 3


def silent_seconds(found: Status, now: datetime) -> float | None:
    """For how long an engine that says it runs has said nothing, if that is too long, or its process is gone: then it
    is lost. ``found`` is what it last said."""
    waits = found.restarts is not None and found.restarts.next_at is not None
    lives = waits or found.state in (EngineState.STARTING, EngineState.RUNNING, EngineState.STOPPING)
    if not lives or found.updated_at is None:
        return None
    age = max(0.0, (now - found.updated_at).total_seconds())
    if found.gone:
        return age
    return age if age > (_STARTS_SECONDS if found.state is EngineState.STARTING else STALE_SECONDS) else None


def check(found: Status, now: datetime) -> Check:
    """What ``found`` comes to at the moment ``now``: a lost engine is broken, whatever it said last, and a stopped one
    is paused."""
    if silent_seconds(found, now) is not None:
        return Check.BROKEN
    match found.health or health_of(found.state, broken=found.error is not None, paused=found.stream_paused):
        case Health.BROKEN:
            return Check.BROKEN
        case Health.PAUSED:
            return Check.PAUSED
    return Check.ACTIVE

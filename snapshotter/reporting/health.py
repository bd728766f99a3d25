"""How the engine is, for whoever has to act: active, paused, or broken. Pure.

The engine's state says where it is in its life; its health says whether somebody has to do something.
`docs/failures.md` has the table from each to the other, and a test holds it to ``health_of``.

Broken begins with an error that ends a run, and ends once a run has landed a batch again: a run that merely starts has
proven nothing, and health that swings with each attempt would tell nobody anything.
"""

from __future__ import annotations

from enum import StrEnum

from snapshotter.reporting.status import EngineState


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

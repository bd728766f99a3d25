"""Which snapshot mode the options choose, and what follows from it."""

from __future__ import annotations

from snapshotter.configuration.option_groups import SnapshotOptions
from snapshotter.configuration.option_values import PositionLost, SnapshotMode
from snapshotter.configuration.snapshot_modes import MODES, SnapshotPolicy, configured, custom


def policy(snapshot: SnapshotOptions) -> SnapshotPolicy:
    """Who decides what a start reads. Raises ValueError for a mode of another package that cannot be made."""
    match snapshot.mode:
        case SnapshotMode.CUSTOM:
            return custom(snapshot.custom_name or "")
        case SnapshotMode.CONFIGURATION_BASED:
            return configured(
                snapshot_data=snapshot.based_data,
                start_stream=snapshot.based_stream,
                on_data_error=snapshot.based_on_data_error,
                schema=snapshot.based_schema,
                on_schema_error=snapshot.based_on_schema_error,
            )
        case _:
            return MODES[snapshot.mode]


def by_mode(mode: SnapshotPolicy) -> PositionLost:
    """What the mode does with a lost position, where ``engine.position.lost`` does not say."""
    return PositionLost.HEAL if mode.should_snapshot_on_data_error() else PositionLost.FAIL

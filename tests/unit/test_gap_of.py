"""An error that ended a run, and is no lost position: the state is not asked for one."""

from __future__ import annotations

import pytest

from snapshotter.configuration.option_values import PositionLost
from snapshotter.engine.lost_positions import gap_of
from snapshotter.state.storage import StorageError
from streaming.positions import ClusterTime


def unreachable() -> ClusterTime:
    raise StorageError("cannot list 'progress': Please reduce your request rate")


@pytest.mark.parametrize("policy", list(PositionLost))
def test_a_storage_that_refuses_is_no_lost_position(policy: PositionLost) -> None:
    """Where storage has ended the run, asking it again would end the engine instead of beginning the next run."""
    error = StorageError("cannot write 'progress/7.json': Please reduce your request rate")
    assert gap_of(error, unreachable, policy, lambda: 0) is None

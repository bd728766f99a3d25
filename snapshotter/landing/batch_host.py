"""What the batch lane needs of the engine around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from snapshotter.core.effects import Effect
from snapshotter.core.inputs import Input
from snapshotter.core.machine import Machine
from snapshotter.core.suspension import TableUnusable
from snapshotter.core.window import WindowId
from snapshotter.reading.chunk_reader import Buffer
from streaming.positions import ClusterTime


class BatchHost(Protocol):
    """What the lane needs of the engine around it."""

    @property
    def machine(self) -> Machine: ...

    @property
    def buffers(self) -> Mapping[WindowId, Buffer]: ...

    def step(self, happened: Input) -> tuple[Effect, ...]:
        """Step the machine and carry out everything but landings; they are returned."""

    def suspend(self, fault: TableUnusable, batch_id: int | None = None) -> tuple[Effect, ...]:
        """Nothing of this collection lands any more. ``batch_id``: the batch that goes on without it; what is left of
        its landing is among what is returned."""

    def receive_signals(self, documents: Sequence[bytes]) -> None:
        """Documents inserted into the signal collection that are no watermarks, in their order."""

    def check_lock(self) -> int:
        """The fencing token; raises if another engine has taken over."""

    def head(self) -> ClusterTime:
        """The newest majority-committed time known."""

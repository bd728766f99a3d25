"""Judges of what lands in tables that others change (O9)."""

from __future__ import annotations

from typing import Any

from snapshotter.core.machine import Machine
from snapshotter.core.values.effects import LandBatch
from snapshotter.core.values.tasks import TaskState
from snapshotter.core.values.window import Window
from streaming.namespaces import Namespace

from .decisions import Decisions, Violation


class TableOracles(Decisions):
    """``left_out``: of the newest landing. ``stale``: tables of before the state was lost, or that were taken
    back, or whose collection is not captured or was not for a while, and the request that reads them ("": none yet)."""

    world: Any
    touched: dict[Namespace, set[str]]
    process: Any

    def __init__(self) -> None:
        super().__init__()
        self.left_out: frozenset[Namespace] = frozenset()
        self.stale: dict[Namespace, str] = {}

    def disturbed(self, namespace: Namespace) -> None:
        """From here on its rows are not those that were landed."""
        self.touched[namespace].clear()

    def sound(self, namespace: Namespace) -> bool:
        """Whether its rows are what the engine has made of them, as far as it knows."""
        machine = self.process.machine
        if machine is None or namespace in machine.progress.suspended:
            return False
        if namespace in self.stale and (load := machine.progress.request(self.stale[namespace])) is not None:
            task = load.task(namespace)
            if task is not None and task.state is TaskState.DONE:
                del self.stale[namespace]
        if namespace in self.stale:
            return False
        return self.world.tables[namespace].fault(machine.progress.tables.get(namespace)) is None

    def may_land(self, namespace: Namespace, landing: LandBatch) -> None:
        fault = self.world.tables[namespace].fault(self.machine.progress.tables.get(namespace))
        if fault is not None or namespace in landing.left_out:
            raise Violation("O9", f"{namespace} lands, but its table is {fault or 'suspended'}")

    def window_begins(self, machine: Machine, window: Window) -> None:
        super().window_begins(machine, window)
        suspension = machine.progress.suspended.get(window.namespace)
        if suspension is not None and window.request_id not in (None, suspension.restored_by):
            raise Violation("O9", f"{window} begins, but its collection is {suspension}")

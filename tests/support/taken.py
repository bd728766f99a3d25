"""Signals as the engine takes them: what they decide is worked out at once, and reaches the machine as one input."""

from __future__ import annotations

from collections.abc import Iterable

from snapshotter.core.machine import Machine
from snapshotter.core.rules.signal_batch import SignalBatch
from snapshotter.core.values.commands import Command
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.inputs import SignalsTaken
from snapshotter.core.values.progress import RequestProgress
from snapshotter.core.values.requests import SnapshotRequest

Signal = SnapshotRequest | Command


def taken(machine: Machine, *signals: Signal) -> SignalsTaken:
    """The machine's next input. Signals whose ids are known change nothing."""
    return _taken(machine.progress.requests, machine.controls, signals)


def after(controls: Controls, command: Command, requests: Iterable[RequestProgress]) -> Controls:
    """What holds once the command is applied, for the requests that exist now."""
    return _taken(requests, controls, (command,)).controls


def _taken(
    requests: Iterable[RequestProgress], controls: Controls, signals: Iterable[Signal]
) -> SignalsTaken:
    batch = SignalBatch(map(controls.applied, requests), controls)
    for signal in signals:
        if batch.digest_of(signal.id) is not None:
            continue
        if isinstance(signal, SnapshotRequest):
            batch.accept(signal)
        else:
            batch.apply(signal)
    return SignalsTaken(tuple(batch.new), batch.controls)

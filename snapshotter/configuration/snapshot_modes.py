"""Snapshot modes: what a start of the engine reads, and whether it streams. Pure but for entry points.

The decisions have the names of Debezium's ``Snapshotter`` interface. ``snapshot.mode`` chooses who takes them: one of
the modes here, the switches of ``configuration_based``, or a class of one's own (``custom``), found by an entry point:

    [project.entry-points."snapshotter.snapshot_modes"]
    nightly = "my_package.modes:Nightly"        # a class without arguments

An initial load is a request like any other, so one that was cut short goes on by itself: no mode starts it anew.
Decisions about a schema, which Debezium asks for as well, have no meaning here: a collection has none to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Protocol, runtime_checkable

GROUP = "snapshotter.snapshot_modes"


@runtime_checkable
class SnapshotPolicy(Protocol):
    """What a snapshot mode decides."""

    def should_snapshot_data(self, offset_exists: bool, snapshot_in_progress: bool) -> bool:
        """Whether this start reads the collections. ``offset_exists``: the engine has streamed before under this name;
        ``snapshot_in_progress``: its initial load has not ended, and goes on in any case."""

    def should_stream(self) -> bool:
        """Whether changes stream once that is read; otherwise the engine ends then."""

    def should_snapshot_on_data_error(self) -> bool:
        """Whether a position that the source no longer has is given up for a new one, and everything read again;
        otherwise the engine fails."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode that is a table: whether a first start reads, whether later ones do, whether changes stream, and whether
    all is read again where the position is lost."""

    first: bool
    later: bool
    stream: bool = True
    on_data_error: bool = False

    def should_snapshot_data(self, offset_exists: bool, snapshot_in_progress: bool) -> bool:
        """By whether this is the first start; one whose load goes on reads nothing besides."""
        return not snapshot_in_progress and (self.later if offset_exists else self.first)

    def should_stream(self) -> bool:
        """As the mode says."""
        return self.stream

    def should_snapshot_on_data_error(self) -> bool:
        """As the mode says."""
        return self.on_data_error


MODES: Mapping[str, SnapshotPolicy] = {
    "always": Mode(first=True, later=True),
    "initial": Mode(first=True, later=False),
    "initial_only": Mode(first=True, later=False, stream=False),
    "no_data": Mode(first=False, later=False),
    "when_needed": Mode(first=True, later=False, on_data_error=True),
}


def configured(*, snapshot_data: bool, start_stream: bool, on_data_error: bool = False) -> SnapshotPolicy:
    """``configuration_based``: each decision is a switch. As in Debezium, ``snapshot_data`` holds for every start, not
    for the first alone. Without ``start_stream`` the engine ends once that is read. ``on_data_error``: where the
    position is lost, everything is read again."""
    return Mode(first=snapshot_data, later=snapshot_data, stream=start_stream, on_data_error=on_data_error)


def custom(name: str) -> SnapshotPolicy:
    """The mode of another package. Raises ValueError that says what is wrong, and which names there are."""
    found = tuple(entry_points(group=GROUP, name=name))
    if len(found) != 1:
        known = ", ".join(sorted({point.name for point in entry_points(group=GROUP)})) or "none"
        problem = "no package brings" if not found else "more than one package brings"
        raise ValueError(
            f"{problem} a snapshot mode {name!r} by an entry point in {GROUP}; there are: {known}"
        )
    try:
        policy = found[0].load()()
    except Exception as error:  # a stranger's code: what it raises is reported as its own
        raise ValueError(f"{found[0].value} could not be made: {type(error).__name__}: {error}") from error
    if isinstance(policy, SnapshotPolicy):
        return policy
    raise ValueError(
        f"{found[0].value} is no snapshot mode: it needs should_snapshot_data, should_stream and "
        f"should_snapshot_on_data_error"
    )

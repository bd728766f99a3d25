"""Snapshot modes: what a start of the engine reads, and whether it streams. Pure but for entry points.

The decisions have the names of Debezium's ``Snapshotter`` interface, in Python's spelling. ``snapshot.mode`` chooses
who takes them: one of the modes here, the switches of ``configuration_based``, or a class of one's own (``custom``),
found by an entry point:

    [project.entry-points."snapshotter.snapshot_modes"]
    nightly = "my_package.modes:Nightly"        # a class without arguments

An initial load is a request like any other, so one that was cut short goes on by itself: no mode starts it anew. Two
things of the interface have no meaning here. ``configure``: such a class has its own ways to be configured.
``should_stream_events_starting_from_snapshot``: whether it says yes or no, no change is left out, since they stream
from the position before the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

from snapshotter.errors import ConfigurationError, DefiniteError

GROUP = "snapshotter.snapshot_modes"
EVERYTHING = "{}"
REQUIRED = ("should_snapshot_data", "should_stream", "should_snapshot_on_data_error")
"""The decisions that a class has to have; for each other one there is an answer without it."""


class SnapshotPolicy(Protocol):
    """What a snapshot mode decides, and what it is told."""

    def name(self) -> str:
        """What it is called in messages."""

    def should_snapshot_data(self, offset_exists: bool, snapshot_in_progress: bool) -> bool:
        """Whether this start reads the collections. ``offset_exists``: the engine has streamed before under this name;
        ``snapshot_in_progress``: its initial load has not ended, and goes on in any case."""

    def should_snapshot_schema(self, offset_exists: bool, snapshot_in_progress: bool) -> bool:
        """Whether this start makes the tables that captured collections lack, with the columns that a sample of
        documents asks for, before anything is read; an empty collection has a table then, too. Arguments as for
        ``should_snapshot_data``."""

    def should_stream(self) -> bool:
        """Whether changes stream once that is read; otherwise the engine ends then."""

    def should_snapshot_on_data_error(self) -> bool:
        """Whether a position that the source no longer has is given up for a new one, and everything read again;
        otherwise the engine fails."""

    def should_snapshot_on_schema_error(self) -> bool:
        """Whether a table that somebody else has changed or removed is read again at once, as with
        ``engine.table.altered=repair``; otherwise that option says."""

    def snapshot_query(self, collection: str) -> str | None:
        """What an initial load reads of ``collection`` (``database.collection``): a query document as JSON text, or
        None to leave the collection out; its changes stream all the same."""

    def snapshot_completed(self) -> None:
        """An initial load has ended with all that it was to read. Told at least once, when that is committed."""

    def snapshot_aborted(self) -> None:
        """An initial load has ended without: it was stopped, or a collection of it was given up."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A mode that is a table: whether a first start reads, whether later ones do, whether changes stream, whether all
    is read again where the position is lost, whether missing tables are made, and altered ones read again."""

    first: bool
    later: bool
    stream: bool = True
    on_data_error: bool = False
    schema: bool = False
    on_schema_error: bool = False
    called: str = "configuration_based"

    def name(self) -> str:
        """As ``snapshot.mode`` has it."""
        return self.called

    def should_snapshot_data(self, offset_exists: bool, snapshot_in_progress: bool) -> bool:
        """By whether this is the first start; one whose load goes on reads nothing besides."""
        return not snapshot_in_progress and (self.later if offset_exists else self.first)

    def should_snapshot_schema(self, offset_exists: bool, snapshot_in_progress: bool) -> bool:  # noqa: ARG002
        """As the mode says, at every start."""
        return self.schema

    def should_stream(self) -> bool:
        """As the mode says."""
        return self.stream

    def should_snapshot_on_data_error(self) -> bool:
        """As the mode says."""
        return self.on_data_error

    def should_snapshot_on_schema_error(self) -> bool:
        """As the mode says."""
        return self.on_schema_error

    def snapshot_query(self, collection: str) -> str | None:  # noqa: ARG002
        """Everything."""
        return EVERYTHING

    def snapshot_completed(self) -> None:
        """Nobody waits for it."""

    def snapshot_aborted(self) -> None:
        """Nobody waits for it."""


@dataclass(slots=True)
class Custom:
    """A mode that another package brings: ``plugin`` decides, and where it has no word for something, the answer is
    that of the mode ``initial``. ``point`` names it. What it says of a collection is asked once, so that what was
    checked before the start is what is read."""

    plugin: Any
    point: str
    _queries: dict[str, str | None] = field(default_factory=dict)

    def name(self) -> str:
        """The class's own word, else that of its entry point."""
        return _name_of(self.plugin) or self.point

    def should_snapshot_data(self, offset_exists: bool, snapshot_in_progress: bool) -> bool:
        """As `SnapshotPolicy.should_snapshot_data`."""
        return bool(self._asked("should_snapshot_data", False, offset_exists, snapshot_in_progress))

    def should_snapshot_schema(self, offset_exists: bool, snapshot_in_progress: bool) -> bool:
        """As `SnapshotPolicy.should_snapshot_schema`."""
        return bool(self._asked("should_snapshot_schema", False, offset_exists, snapshot_in_progress))

    def should_stream(self) -> bool:
        """As `SnapshotPolicy.should_stream`."""
        return bool(self._asked("should_stream", True))

    def should_snapshot_on_data_error(self) -> bool:
        """As `SnapshotPolicy.should_snapshot_on_data_error`."""
        return bool(self._asked("should_snapshot_on_data_error", False))

    def should_snapshot_on_schema_error(self) -> bool:
        """As `SnapshotPolicy.should_snapshot_on_schema_error`."""
        return bool(self._asked("should_snapshot_on_schema_error", False))

    def snapshot_query(self, collection: str) -> str | None:
        """As `SnapshotPolicy.snapshot_query`."""
        if collection not in self._queries:
            query = self._asked("snapshot_query", EVERYTHING, collection)
            if query is not None and not isinstance(query, str):
                kind = type(query).__name__
                raise ConfigurationError(
                    f"the snapshot mode {self.name()} gave a {kind} as the query of {collection}",
                    "let it give JSON text, or None to leave the collection out",
                )
            self._queries[collection] = query
        return self._queries[collection]

    def snapshot_completed(self) -> None:
        """As `SnapshotPolicy.snapshot_completed`."""
        self._asked("snapshot_completed", None)

    def snapshot_aborted(self) -> None:
        """As `SnapshotPolicy.snapshot_aborted`."""
        self._asked("snapshot_aborted", None)

    def _asked(self, method: str, otherwise: Any, *arguments: object) -> Any:
        known = getattr(self.plugin, method, None)
        if known is None:
            return otherwise
        try:
            return known(*arguments)
        except Exception as error:  # a stranger's code
            raise DefiniteError(
                f"the snapshot mode {self.name()} failed in {method}: {type(error).__name__}: {error}",
                f"correct {type(self.plugin).__module__}.{type(self.plugin).__qualname__}",
            ) from error


MODES: Mapping[str, SnapshotPolicy] = {
    "always": Mode(first=True, later=True, called="always"),
    "initial": Mode(first=True, later=False, called="initial"),
    "initial_only": Mode(first=True, later=False, stream=False, called="initial_only"),
    "no_data": Mode(first=False, later=False, called="no_data"),
    "when_needed": Mode(first=True, later=False, on_data_error=True, called="when_needed"),
}


def configured(
    *,
    snapshot_data: bool,
    start_stream: bool,
    on_data_error: bool = False,
    schema: bool = False,
    on_schema_error: bool = False,
) -> SnapshotPolicy:
    """``configuration_based``: each decision is a switch. As in Debezium, ``snapshot_data`` and ``schema`` hold for
    every start, not for the first alone. Without ``start_stream`` the engine ends once that is read.
    ``on_data_error``: where the position is lost, everything is read again; ``on_schema_error``: where a table is
    altered, it is."""
    return Mode(snapshot_data, snapshot_data, start_stream, on_data_error, schema, on_schema_error)


def custom(name: str) -> Custom:
    """The mode of another package: the entry point of this ``name``, or the one whose class answers with it to
    ``name()``. Raises ValueError that says what is wrong, and which names there are."""
    points = tuple(entry_points(group=GROUP))
    found, broken = [_made(point) for point in points if point.name == name], ""
    if not found:
        found, broken = _named(points, name)
    if len(found) != 1:
        known = ", ".join(sorted({point.name for point in points})) or "none"
        problem = "no package brings" if not found else "more than one package brings"
        raise ValueError(
            f"{problem} a snapshot mode {name!r} by an entry point in {GROUP}; there are: {known}{broken}"
        )
    return found[0]


def _named(points: tuple[EntryPoint, ...], name: str) -> tuple[list[Custom], str]:
    """Modes that call themselves so, and which could not be asked."""
    found, broken = [], []
    for point in points:
        try:
            made = _made(point)
        except ValueError as error:
            broken.append(f" ({error})")
            continue
        if made.name() == name:
            found.append(made)
    return found, "".join(broken)


def _made(point: EntryPoint) -> Custom:
    try:
        plugin = point.load()()
    except Exception as error:  # a stranger's code: what it raises is reported as its own
        raise ValueError(f"{point.value} could not be made: {type(error).__name__}: {error}") from error
    if missing := [method for method in REQUIRED if not callable(getattr(plugin, method, None))]:
        raise ValueError(f"{point.value} is no snapshot mode: it needs {', '.join(missing)}")
    return Custom(plugin, point.name)


def _name_of(plugin: Any) -> str | None:
    """``name()``, or an attribute of that name."""
    name = getattr(plugin, "name", None)
    said = name() if callable(name) else name
    return said if isinstance(said, str) and said else None

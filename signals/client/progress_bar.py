"""A request's progress for whoever waits for it: bars on a terminal and in a notebook, nothing elsewhere.

A notebook shows rich's bars where ipywidgets is installed, and a line of text that is replaced where it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from signals.outcomes import COMPLETED, CollectionStatus, SnapshotStatus

Show = Callable[[SnapshotStatus], None]


@contextmanager
def showing(wanted: bool, console: Console | None = None) -> Iterator[Show]:
    """Gives a function that shows the newest status."""
    console = console or Console(stderr=True)
    if not wanted or not (console.is_terminal or console.is_jupyter):
        yield lambda _: None
    elif console.is_jupyter and find_spec("ipywidgets") is None:
        yield _line_in_notebook()
    else:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[rows]:,} rows  {task.fields[state]}"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=console) as bars:
            yield _Bars(bars).show


class _Bars:
    """One bar a collection; one of unknown length moves until it is done."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}

    def show(self, status: SnapshotStatus) -> None:
        for c in status.collections:
            if c.name not in self._tasks:
                self._tasks[c.name] = self._bars.add_task(c.name, total=None, rows=0, state="")
            total = _total(c)
            done = c.rows + c.dropped
            self._bars.update(
                self._tasks[c.name],
                total=total,
                completed=done if total is None else min(done, total),
                rows=c.rows,
                state=status.state if status.state == "paused" else c.state,
            )


def _total(c: CollectionStatus) -> int | None:
    """What a bar is full at. An estimate may be short, or long: only what is completed is full."""
    done = c.rows + c.dropped
    if c.state == COMPLETED:
        return max(done, 1)
    return max(c.estimated, done + 1) if c.estimated else None


def line(status: SnapshotStatus) -> str:
    """A status as one line of text."""
    parts = [
        f"{c.name} {c.state}: {c.rows + c.dropped:,}{f' of about {c.estimated:,}' if c.estimated else ''}"
        for c in status.collections
    ]
    return f"{status.id} {status.state}" + "".join(f" | {part}" for part in parts)


def _line_in_notebook() -> Show:
    from IPython.display import display

    handle: Any = display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
    return lambda status: handle.update({"text/plain": line(status)}, raw=True)

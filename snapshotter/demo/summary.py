"""What the demo did, for a person at its end: the figures that matter beside each other, what was proven, the replay,
and what to do next. As a frame on a terminal, as lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from snapshotter.reporting.window_log import LandedWindow

NEXT = "snapshotter init -c mine.toml   (a MongoDB of your own)"
_WIDTH_MAX = 80


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast the backfill was. ``cold``: seconds up to the first rows, most of them for code that runs for the first
    time; ``then``: documents a second behind those, None where all of them came at once."""

    cold: float
    then: float | None

    @classmethod
    def of(cls, sent: datetime, windows: Sequence[LandedWindow]) -> Pace:
        """From when the signal was ``sent``, and the ``windows`` in the order in which they landed."""
        if not windows:
            return cls(0.0, None)
        first, last = windows[0].landed_at, windows[-1].landed_at
        later = sum(w.rows + w.dropped for w in windows if w.landed_at > first)
        seconds = (last - first).total_seconds()
        return cls(max(0.0, (first - sent).total_seconds()), later / seconds if seconds > 0 else None)

    def __str__(self) -> str:
        text = f"first rows after {self.cold:.1f} s (a cold start)"
        return text if self.then is None else f"{text}, then {self.then:,.0f}/s"


@dataclass(frozen=True, slots=True)
class Summary:
    """What the demo did. Seconds are of the backfill: from the signal to the last row visible in Delta. ``replay`` is
    the file that shows it again."""

    documents: int
    rows: int
    superseded: int
    chunks: int
    seconds: float
    changes: int
    lag_max_seconds: float
    equal: bool
    pace: Pace
    replay: Path

    @property
    def read(self) -> int:
        return self.rows + self.superseded

    @property
    def speed(self) -> float:
        return self.read / self.seconds if self.seconds else 0.0

    def lines(self) -> list[str]:
        """For a log."""
        outcome = "equal" if self.equal else "DIFFERENT"
        lag = f"{self.lag_max_seconds:.0f} s"
        return [
            f"backfilled   {self.read:,} documents, {self.chunks} windows, {self.seconds:.1f} s: {self.speed:,.0f}/s",
            f"             {self.pace}",
            f"READs        {self.rows:,} landed, {self.superseded:,} superseded by streamed changes",
            f"meanwhile    {self.changes:,} changes were written; lag of the stream at most {lag}",
            f"verify       {self.documents:,} documents: collection and table are {outcome}",
            f"replay       {self.replay}",
            f"next:        {NEXT if self.equal else _AFTER_DIFFERENCE}",
        ]

    def frame(self) -> Panel:
        """For a terminal: green where collection and table are equal, red where they are not."""
        colour = "green" if self.equal else "red"
        figures = Table.grid(expand=True, padding=(0, 1))
        shown = (
            (f"{self.read:,}", "documents read"),
            (f"{self.speed:,.0f}/s", f"in {self.seconds:.1f} s"),
            (f"{self.changes:,}", "changes meanwhile"),
            (f"{self.lag_max_seconds:.0f} s", "lag at most"),
        )
        for _ in shown:
            figures.add_column(ratio=1, justify="center")
        figures.add_row(*(Text(number, style="bold") for number, _ in shown))
        figures.add_row(*(Text(what, style="dim") for _, what in shown))
        about = Table.grid(padding=(0, 2))
        about.add_column(style="dim", no_wrap=True)
        about.add_column(overflow="fold")
        outcome = "every document equals its row" if self.equal else "collection and table DIFFER"
        about.add_row("proven", Text(f"{self.documents:,} documents compared: {outcome}", style=colour))
        about.add_row("windows", f"{self.chunks} windows; {self.pace}")
        about.add_row("READs", f"{self.rows:,} landed, {self.superseded:,} superseded by newer changes")
        about.add_row("replay", str(self.replay))
        about.add_row("next:", NEXT if self.equal else _AFTER_DIFFERENCE)
        title = "the table equals its collection" if self.equal else "the table differs from its collection"
        return Panel(
            Group(figures, Padding(about, (1, 0, 0, 0))), title=title, border_style=colour, padding=(1, 2)
        )


_AFTER_DIFFERENCE = "please report this: run it again with --keep, and keep what it says above"


def show(summary: Summary, console: Console) -> None:
    """Say it on a ``console``: framed on a terminal, no wider than can be read."""
    if console.is_terminal:
        console.print(summary.frame(), width=min(console.width, _WIDTH_MAX))
        return
    for line in summary.lines():
        console.print(Text(line), soft_wrap=True)

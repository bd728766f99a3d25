"""The terminal's screens in `docs/images`, drawn by the very functions that draw them for a person, of fixed facts: so
two drawings are the same, and a test holds the pictures against what is drawn now. `make screens` writes them.

    python -m scripts.terminal_screens    # these alone, without a browser
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

from snapshotter.cli import doctor
from snapshotter.demo import summary
from snapshotter.doctor import rules_machine, rules_source
from snapshotter.doctor.facts import Clock, CollectionFacts, Ids, Java, Package, Place
from snapshotter.doctor.finding import Area, Finding, Severity, in_order
from snapshotter.doctor.rules_collections import captured
from snapshotter.engine.readiness import READY
from snapshotter.position.runway import Oplog
from snapshotter.reporting.progress_view import texts
from snapshotter.reporting.status import Status, WindowReport
from snapshotter.reporting.status_screen import screen
from snapshotter.reporting.views import LineView
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.demo_summary import SUMMARY
from tests.support.pages import CUSTOMERS, ORDERS, Stage, backfill

FOLDER = Path(__file__).parents[1] / "docs" / "images"
NOW = datetime(2026, 11, 27, 14, 7, 30, tzinfo=UTC)
FILE = "shop.toml"
_FONTS = re.compile(r"@font-face \{\{.*?\}\}\s*", re.DOTALL)
_FORMAT = _FONTS.sub("", CONSOLE_SVG_FORMAT).replace(
    "Fira Code, monospace", "'DejaVu Sans Mono', Menlo, Consolas, monospace"
)
"""The usual one fetches its font from elsewhere."""


def main() -> None:
    """Write them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures():
        file = FOLDER / f"{name}.svg"
        file.write_text(picture, encoding="utf-8")
        sys.stdout.write(f"{file.relative_to(FOLDER.parents[1])}: {file.stat().st_size // 1_000} kB\n")


def pictures() -> Iterator[tuple[str, str]]:
    """Each screen by its name, as SVG."""
    status = running()
    for width in (80, 200):
        console = terminal(width)
        for text in texts(screen(status, width, NOW)):
            console.print(text, crop=False)
        yield f"terminal-status-{width}", drawn(console, f"snapshotter status -c {FILE}")
    console = terminal(80)
    doctor.show(findings(), FILE, console)
    yield "terminal-doctor", drawn(console, f"snapshotter doctor -c {FILE}")
    console = terminal(80)
    start(console)
    yield "terminal-start", drawn(console, f"snapshotter run -c {FILE} 2>&1 | tee shop.log")
    console = terminal(80)
    summary.show(SUMMARY, console)
    yield "terminal-demo", drawn(console, "snapshotter demo")


def terminal(width: int) -> Console:
    """One that keeps what is drawn on it."""
    return Console(
        file=io.StringIO(),
        record=True,
        width=width,
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
        _environ={},
    )


def drawn(console: Console, command: str) -> str:
    """What is on it, under the ``command`` that shows it. Lines end where their text does."""
    svg = console.export_svg(title=command, code_format=_FORMAT, unique_id="terminal")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def running() -> Status:
    """An engine in the middle of a backfill."""
    stage = Stage()
    backfill(stage, NOW)
    assert stage.status is not None
    began = {"nightly": timedelta(seconds=29), "customers-again": timedelta(hours=1)}
    requests = [r.model_copy(update={"started_at": NOW - began[r.id]}) for r in stage.status.requests]
    windows = [
        WindowReport(collection=ORDERS, number=n, state=state, rows=rows)
        for n, state, rows in ((24, "read", 20_000), (25, "open", 0))
    ]
    return stage.status.model_copy(update={"requests": tuple(requests), "windows": tuple(windows)})


def start(console: Console) -> None:
    """A first start, as a log has it."""
    loads = f"loading 2 collections: {CUSTOMERS}, {ORDERS}"
    steps = (
        *(f"reading {FILE}", "loading the engine", "checking the options"),
        *("checking MongoDB at db-1:27017,db-2:27017", "starting Spark", "opening the change stream"),
    )
    with LineView(console) as view:
        for step in steps:
            view.doing(step)
        view.doing(None)
        view.announce(loads)
        view.announce(READY)


def findings() -> list[Finding]:
    """Of a replica set whose oplog is short, and a collection of many types of ids."""
    names = Namespace("shop", "orders"), Namespace("shop", "customers")
    sizes = 30_000_000, 250_000
    there = [
        CollectionFacts(names[0], ids=Ids("number", "objectId"), documents=sizes[0], bytes=9_200_000_000),
        CollectionFacts(names[1], ids=Ids("number", "number"), documents=sizes[1], bytes=61_000_000),
    ]
    newest = ClusterTime(int(NOW.timestamp()), 1)
    oplog = Oplog(ClusterTime(newest.t - 26 * 3_600, 1), newest, 1_000_000, 1_000_000)
    packages = [Package(name, wanted, wanted) for name, wanted in (("pyspark", "4.2.0"), ("delta", "4.4.0"))]
    found = [
        Finding(Area.OPTIONS, Severity.OK, "options", "all of them go together"),
        *rules_machine.packages(packages),
        rules_machine.java(Java("/usr/bin/java", 17)),
        Finding(Area.MONGODB, Severity.OK, "deployment", "a replica set of MongoDB 6.0.5"),
        rules_source.clock(Clock(0.1, 0.1)),
        Finding(Area.PRIVILEGES, Severity.OK, "needed", "snapshotter has all that it needs"),
        *rules_source.oplog(oplog, None, 48, there, 31_250.0),
        *captured(there),
        *rules_machine.place(Place("/lake", "/lake", free=412_000_000_000), 9_261_000_000),
    ]
    return in_order(found)


if __name__ == "__main__":
    main()

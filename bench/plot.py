"""Shows and keeps measurements: a table in text or Markdown, a plot of bars, JSON under `bench/results/`.

Ratios are against a named figure of the group (`baselines`: parts of names, the first that is found), else
against its slowest: an absolute figure says more about the machine than about the software.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.measurement import Measurement, machine

RESULTS = Path(__file__).parent / "results"
OURS = "snapshotter"
TITLES = {
    "backfill": "Backfill: signal to last row, documents a second",
    "beside": "Backfill beside 2,000 writes a second, documents a second",
    "stream": "Stream: a backlog of mixed changes, events a second",
    "goes on": "Stream of an engine that goes on: the same backlog, events a second",
    "read": "Reading a collection, documents a second",
    "drain": "Draining a change stream, events a second",
    "commit": "Committing new keys to Delta, rows a second",
}
_OURS_COLOUR, _PEER_COLOUR = "#1b7f5c", "#8c97a3"
_BAR_INCHES, _GROUP_INCHES = 0.42, 0.9


def save(figures: Sequence[Measurement], path: Path, **about: Any) -> Path:
    """Write the figures, the machine and `about` (sizes, versions) as JSON; parent folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine(), "about": about, "measurements": list(figures)}
    path.write_text(json.dumps(document, indent=2) + "\n")
    return path


def load(path: Path) -> list[Measurement]:
    """The figures of a file that `save` wrote."""
    found: list[Measurement] = json.loads(path.read_text())["measurements"]
    return found


def table(figures: Iterable[Measurement], *, baselines: Sequence[str] = (), markdown: bool = False) -> str:
    """One table a kind of work; `ratio` as described in the module. `baselines` are parts of names."""
    lines = []
    for what, group in grouped(figures):
        lines += ["", f"**{_title(what)}**" if markdown else _title(what), ""]
        lines += _rows(group, reference(group, baselines), markdown=markdown)
    return "\n".join(lines[1:]) + "\n"


def plot(
    figures: Iterable[Measurement], path: Path, *, baselines: Sequence[str] = (), title: str = ""
) -> Path:
    """Horizontal bars, a panel a kind of work, each bar with its rate and its ratio; ours in green. Writes
    a PNG."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    groups = grouped(figures)
    heights = [len(group) * _BAR_INCHES + _GROUP_INCHES for _, group in groups]
    figure, panels = plt.subplots(
        len(groups), 1, figsize=(9, sum(heights)), height_ratios=heights, squeeze=False, layout="constrained"
    )
    for panel, (what, group) in zip(panels[:, 0], groups, strict=True):
        _bars(panel, _title(what), group, reference(group, baselines))
    if title:
        figure.suptitle(title, fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def grouped(figures: Iterable[Measurement]) -> list[tuple[str, list[Measurement]]]:
    """The figures by `what`, in the order of TITLES, the fastest first."""
    order = [*TITLES]

    def place(figure: Measurement) -> tuple[int, str]:
        return (order.index(figure["what"]) if figure["what"] in order else len(order), figure["what"])

    ranked = sorted(figures, key=lambda figure: (place(figure), -figure["rate"]))
    return [(key[1], list(group)) for key, group in groupby(ranked, place)]


def reference(group: Sequence[Measurement], baselines: Sequence[str] = ()) -> Measurement:
    """The figure that is 1.0 ×: the first whose name has the first of `baselines` found, else the slowest."""
    for baseline in baselines:
        for figure in group:
            if baseline in figure["name"]:
                return figure
    return min(group, key=lambda figure: figure["rate"])


def _title(what: str) -> str:
    return TITLES.get(what, what)


def _rows(group: Sequence[Measurement], one: Measurement, *, markdown: bool) -> list[str]:
    cells = [["who", "documents", "seconds", "a second", "ratio"]]
    for figure in group:
        ratio = f"{figure['rate'] / one['rate']:.1f} ×"
        numbers = [f"{figure['documents']:,}", f"{figure['seconds']:.1f}", f"{figure['rate']:,.0f}"]
        cells.append([figure["name"], *numbers, ratio])
    if markdown:
        rows = ["| " + " | ".join(row) + " |" for row in cells]
        return [rows[0], "|---|--:|--:|--:|--:|", *rows[1:]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells]


def _bars(panel: Any, title: str, group: Sequence[Measurement], one: Measurement) -> None:
    colours = [_OURS_COLOUR if figure["name"].startswith(OURS) else _PEER_COLOUR for figure in group]
    names, rates = [figure["name"] for figure in group], [figure["rate"] for figure in group]
    bars = panel.barh(names, rates, color=colours)
    labels = [f"{rate:,.0f}   {rate / one['rate']:.1f} ×" for rate in rates]
    panel.bar_label(bars, labels, padding=4, fontsize=9)
    panel.invert_yaxis()
    panel.set_title(title, loc="left", fontsize=10, fontweight="bold")
    panel.set_xlim(0, rates[0] * 1.25)
    panel.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g} k")
    panel.tick_params(labelsize=9)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)

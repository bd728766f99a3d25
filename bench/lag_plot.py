"""Draws what `bench.freshness` has found: the lag of each table size and rate, from its median to its 99th percentile.

A line for each stretch of changes, with a point for each percentile (50, 90, 99), in seconds. Of two checkouts
(`--beside`) this one is drawn.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_PERCENTILES = {"p50": "#1b7f5c", "p90": "#d9a441", "p99": "#b5483a"}
_LINE_INCHES, _MARGIN_INCHES = 0.32, 1.2


def plot(lines: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write a PNG of these figures. Raises ValueError where none of them is a lag."""
    found = {name: one for one in lines if (name := _name(one)) is not None}
    if not found:
        raise ValueError("no line has the lag of changes at some rate")
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(
        figsize=(9, _MARGIN_INCHES + _LINE_INCHES * len(found)), layout="constrained"
    )
    places = range(len(found))
    panel.hlines(
        places, [one["p50"] for one in found.values()], [one["p99"] for one in found.values()], "#c9ced4"
    )
    for percentile, colour in _PERCENTILES.items():
        panel.plot([one[percentile] for one in found.values()], places, "o", color=colour, label=percentile)
    panel.set_yticks(places, list(found))
    panel.invert_yaxis()
    panel.set_xlim(left=0)
    panel.set_xlabel("seconds from a change in MongoDB to a version of the table that has it")
    panel.legend(loc="lower right", frameon=False)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def load(path: Path) -> list[dict[str, Any]]:
    """The figures of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _name(one: Mapping[str, Any]) -> str | None:
    if one.get("checkout") != "this" or "rate" not in one:
        return None
    beside = f", beside backfill {one['backfill'].rpartition('_')[2]}" if "backfill" in one else ""
    return f"{one['documents']:,} rows, {one['rate']:,g} a second{beside}"

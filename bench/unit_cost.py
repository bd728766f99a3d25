"""What work costs by the million documents and by the terabyte, and the table that shows it. Pure.

A terabyte is 10^12 bytes of BSON. A core is one of the machine's, as a cloud sells them (vCPU). Core-hours are told
twice: those that were *used* (CPU time of processes), which is what work costs on a machine that does other work as
well; and those *by the clock* (all cores of the machine while the work lasted), which is what a machine costs that is
rented for it, and what is known of others who publish a rate and a machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import Any

from bench.kinds import ALL, DRIVER_JVM, DRIVER_PYTHON, DRIVER_WORKERS, ENGINE, MONGOD, OF_ENGINE

MILLION, TB, HOUR_S = 10**6, 10**12, 3_600
_COLUMNS = {"JVM": DRIVER_JVM, "workers": DRIVER_WORKERS, "driver": DRIVER_PYTHON, "mongod": MONGOD}
"""The kinds of an engine on one machine."""
_SUMS = "engine", "with mongod", "by the clock"


def unit_costs(
    core_seconds: Mapping[str, float], seconds: float, *, count: int, bson_bytes: int, cores: int
) -> dict[str, Any]:
    """Of ``count`` documents, or changes, that have so many bytes of BSON together, on a machine of so many ``cores``.
    ``core_seconds`` are those of each kind of process."""
    engine = sum(core_seconds.get(kind, 0.0) for kind in OF_ENGINE)
    each = {**core_seconds, ENGINE: engine, ALL: sum(core_seconds.values())}
    hours_a_second = TB / bson_bytes / HOUR_S
    return {
        "core_seconds_per_million": {kind: round(took * MILLION / count, 2) for kind, took in each.items()},
        "core_hours_per_tb": {kind: round(took * hours_a_second, 2) for kind, took in each.items()},
        "clock_core_hours_per_tb": round(cores * seconds * hours_a_second, 2),
    }


def dollars(core_hours: float, price_per_core_hour: float) -> float:
    return core_hours * price_per_core_hour


def states(rounds: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Of each size and kind of work the first round, which is cold, and all others together, which are warm: upkeep
    falls into some of them. Not of a rest, which is no work."""
    groups: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for one in rounds:
        if "round" in one:
            groups.setdefault((one["size"], one["what"]), []).append(one)
    for first, *others in groups.values():
        yield "cold", first
        if others:
            yield "warm", together(others)


def together(rounds: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Means of rounds of the same size, the highest of their peaks, and what there is at the end of the last one."""
    seconds = mean(one["seconds"] for one in rounds)
    return {
        **{
            name: rounds[-1][name]
            for name in ("size", "what", "documents", "bson_bytes", "table_bytes", "rows")
        },
        "rounds": [one["round"] for one in rounds],
        "seconds": round(seconds, 2),
        "per_second": round(rounds[-1]["documents"] / seconds),
        "peak_mb": {kind: max(one["peak_mb"][kind] for one in rounds) for kind in rounds[-1]["peak_mb"]},
        "core_seconds_per_million": _means(rounds, "core_seconds_per_million"),
        "core_hours_per_tb": _means(rounds, "core_hours_per_tb"),
        "clock_core_hours_per_tb": round(mean(one["clock_core_hours_per_tb"] for one in rounds), 2),
    }


def _means(rounds: Sequence[Mapping[str, Any]], name: str) -> dict[str, float]:
    kinds = rounds[-1][name]
    return {kind: round(mean(one[name].get(kind, 0.0) for one in rounds), 2) for kind in kinds}


def table(rounds: Sequence[Mapping[str, Any]], price: float | None) -> str:
    """Cold and warm rounds, in Markdown; with what a terabyte costs where a core-hour has a ``price``."""
    money = [] if price is None else [f"$: {name}" for name in _SUMS]
    numbers = ["a second", *_COLUMNS, *_SUMS, *money, "peak MB, engine", "with mongod", "B a row, stored"]
    lines = [["B", "work", "", *numbers], ["--:", "---", "---", *["--:"] * len(numbers)]]
    lines += [_cells(state, one, price) for state, one in states(rounds)]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return (
        f"Core-seconds a million documents or changes ({', '.join(_COLUMNS)}), core-hours a TB of BSON "
        f"({', '.join(_SUMS)}).\n\n{text}\n"
    )


def _cells(state: str, one: Mapping[str, Any], price: float | None) -> list[str]:
    million, hours = one["core_seconds_per_million"], one["core_hours_per_tb"]
    per_tb = [hours[ENGINE], hours[ALL], one["clock_core_hours_per_tb"]]
    return [
        *(f"{one['size']:,}", one["what"], state, f"{one['per_second']:,}"),
        *(f"{million.get(kind, 0):.1f}" for kind in _COLUMNS.values()),
        *(f"{some:,.1f}" for some in per_tb),
        *([] if price is None else [f"{dollars(some, price):,.2f}" for some in per_tb]),
        *(f"{one['peak_mb'][kind]:,}" for kind in (ENGINE, ALL)),
        f"{one['table_bytes'] / one['rows']:,.0f}",
    ]

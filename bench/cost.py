"""What the work costs: core-seconds of each kind of process, by the million documents and by the terabyte.

    python -m bench.cost [--sizes 312 3600] [--documents 1000000] [--changes 200000] [--rounds 4]
                         [--price-per-core-hour PRICE] [--busy] [--output bench/results/cost.json]

For documents of about 312 bytes and of about 3,600 (`orders.py`), of which there are a fifth as many, a MongoDB and an
engine as somebody types it (`snapshotter run`, all defaults but `spark.master=local[2]`). Its rounds (`bench.engine`):

    backfill   of a fresh collection into a new table
    changes    60 % inserts, 30 % updates, 10 % deletes, with lookup, into the last of these tables; their bytes are
               those of the documents that inserts and updates bring
    rest       half a minute with nothing to do, with upkeep of what was done before

The first round is the cold one (its JVM is up, and has done nothing yet), all others together the warm ones, with the
upkeep that falls into them. Each is checked:
the table has every document of the collection (key, number, status, revision), and no other row, or the run ends. CPU
time is that of all processes, of those that end meanwhile too; memory is the proportional share of all at once, looked
at each second. Beside it stands what others took of this machine (`others_core_seconds`). Refused where the load before
is above 0.5, but for --busy; that before a round has our own work of the minute in it.

All rounds are written as they come, as JSON lines beside the output (`cost.jsonl`), and into it what they are cold and
warm. The table is printed; in money too with a price of one core (vCPU) for an hour, of which there is none by default.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.engine import Engine, alone, collections
from bench.lines import about_run, add_options, telling
from bench.measurement import load_now, machine
from bench.orders import Maker, large_orders, orders
from bench.unit_cost import states, table, unit_costs
from bench.workload import PARTS, Changes

OUTPUT = Path(__file__).parent / "results" / "cost.json"
SIZES: dict[int, tuple[Maker, int]] = {312: (orders, 1), 3_600: (large_orders, 5)}
"""How orders of so many bytes are made, and of how many of those that are asked for there is one."""
_REST_S = 30.0
Figures = dict[str, Any]


def main() -> None:
    asked = arguments()
    about = about_run(asked)
    rounds: list[Figures] = []
    with telling(about, asked.output.with_suffix(".jsonl")) as tell:
        for size in asked.sizes:
            for found in measure(size, asked.documents, asked.changes, asked.rounds):
                tell(size=size, **found)
                rounds.append({"size": size, **found})
    shown = [{"state": state, **one} for state, one in states(rounds)]
    text = json.dumps({"about": about, "figures": shown}, indent=1)
    asked.output.write_text(f"{text}\n", encoding="utf-8")
    print(f"\n{table(rounds, asked.price_per_core_hour)}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--documents", type=int, default=1_000_000, help="of 312 bytes; a fifth of 3,600")
    parser.add_argument("--changes", type=int, help="the same; by default a fifth of the documents")
    parser.add_argument("--rounds", type=int, default=4, choices=range(1, PARTS + 1))
    parser.add_argument("--price-per-core-hour", type=float, help="in dollars")
    add_options(parser, OUTPUT)
    asked = parser.parse_args()
    asked.changes = asked.changes or asked.documents // 5
    return asked


def measure(size: int, documents: int, changes: int, rounds: int) -> Iterator[Figures]:
    """The rounds of one size. Raises RuntimeError where the engine fails, or a table is not its collection."""
    make, one_in = SIZES[size]
    documents, changes = documents // one_in, changes // one_in
    names = collections(rounds)
    with alone(names, documents, make) as engine:
        for number, name in enumerate(names, 1):
            before = {"what": "backfill", "round": number, "load_before": load_now()}
            yield {**before, **backfill(engine, name, documents)}
        for number in range(1, rounds + 1):
            before = {"what": "changes", "round": number, "load_before": load_now()}
            yield {**before, **follow(engine, names[-1], documents, changes, number - 1, make)}
        yield {"what": "rest", **engine.rest(_REST_S)}


def backfill(engine: Engine, collection: str, documents: int) -> Figures:
    taken = engine.backfill(collection, documents)
    found = {**engine.sizes(collection), "rows": engine.check(collection)}
    return _with_costs(taken, {"documents": documents, **found})


def follow(engine: Engine, collection: str, existing: int, changes: int, part: int, make: Maker) -> Figures:
    taken = engine.stream(collection, existing, changes, part, make)
    found = {**engine.sizes(collection), "rows": engine.check(collection)}
    shares = Changes.of(changes)
    brought = found["bson_bytes"] * (shares.inserts + shares.updates) // found["rows"]
    return _with_costs(taken, {"documents": changes, **found, "bson_bytes": brought})


def _with_costs(taken: Figures, counted: dict[str, int]) -> Figures:
    costs = unit_costs(
        taken["core_seconds"],
        taken["seconds"],
        count=counted["documents"],
        bson_bytes=counted["bson_bytes"],
        cores=int(machine()["cores"]),
    )
    return {**counted, **taken, **costs}


if __name__ == "__main__":
    main()

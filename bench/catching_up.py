"""An engine that goes on, beside a client that throws the change stream away: by turns, in one run.

    python -m bench.catching_up [--documents 1000000] [--changes 200000] [--rounds 7] [--busy]
                                [--output bench/results/catching_up.json]

The engine is one as somebody types it (`bench.engine`), with a table of so many documents, all defaults but
`spark.master=local[2]`. In each round the same changes, with lookup, are for both:

    engine    they are made while the driver stands still; from the moment when it goes on to the first commit that has
              the last of them. The table is checked against the collection
    client    reads them from the change stream, with lookup by the server, and throws them away (`bench.reference`),
              while the driver stands still

The `stream` of `bench.peers` is measured from the start of an engine; this is one whose stream fell behind, and the
`goes on` there. Of the last three rounds the one counts whose ratio is the median. Refused where the load before is
above 0.5, but for --busy.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench import reference
from bench.clock import next_position
from bench.engine import DB, alone, collections
from bench.lines import about_run, add_options
from bench.measurement import ROUNDS, Measurement, measurement, warm
from bench.workload import PARTS

_RUNS_S = 3.0
"""How long the engine goes on before it stands still again, or the batch that it has begun is in the next round."""
OUTPUT = Path(__file__).parent / "results" / "catching_up.json"
Figures = dict[str, Any]


def main() -> None:
    asked = arguments()
    about = about_run(asked)
    rounds = []
    for found in measure(asked.documents, asked.changes, asked.rounds):
        print(json.dumps(found), flush=True)
        rounds.append(found)
    counts = counted(rounds)
    text = json.dumps({"about": about, "warm": counts, "rounds": rounds}, indent=1)
    asked.output.write_text(f"{text}\n", encoding="utf-8")
    engine, client = counts["engine"]["per_second"], counts["client"]["per_second"]
    print(f"\nThe engine lands {engine:,} changes a second, {counts['ratio']} of the client's {client:,}.")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS, choices=range(1, PARTS + 1))
    add_options(parser, OUTPUT)
    return parser.parse_args()


def measured(documents: int, changes: int, rounds: int) -> list[Measurement]:
    """The client's figure and the engine's, of the round that counts. Raises RuntimeError as `measure` does."""
    found = list(measure(documents, changes, rounds))
    counts, what = counted(found), "goes on"
    ratios = {"ratios_in_thousandths": [round(1_000 * one["ratio"]) for one in found]}
    return [
        measurement("change stream, with lookup", what, changes, counts["client"]["seconds"]),
        measurement(
            "snapshotter, an engine that goes on", what, changes, counts["engine"]["seconds"], **ratios
        ),
    ]


def counted(rounds: Sequence[Figures]) -> Figures:
    """Of the last three rounds the one whose ratio is the median."""
    return warm(rounds, lambda one: -float(one["ratio"]))


def measure(documents: int, changes: int, rounds: int) -> Iterator[Figures]:
    """A round each. Raises RuntimeError where the engine fails, or its table is not the collection."""
    (name,) = names = collections(1)
    with alone(names, documents) as engine:
        engine.backfill(name, documents)
        for part in range(rounds):
            start = next_position(engine.uri)
            taken = engine.stream(name, documents, changes, part)
            engine.check(name)
            with engine.standing_still():
                read = reference.change_stream(engine.uri, DB, name, start, changes, lookup=True)
            time.sleep(_RUNS_S)
            kept = [what for what in taken if what != "peak_mb"]
            yield {
                "round": part + 1,
                "ratio": round(taken["per_second"] / read["rate"], 3),
                "engine": {what: taken[what] for what in kept},
                "client": {"seconds": read["seconds"], "per_second": read["rate"]},
            }


if __name__ == "__main__":
    main()

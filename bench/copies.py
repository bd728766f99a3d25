"""Files of a table put together by the driver, beside the Spark job that did it before: ``python -m bench.copies``.

Files as workers write them for batches of events, ``--files`` of ``--rows`` each, become one by turns in one JVM, and
nothing is committed. Printed for each round: core-seconds of the JVM and of this process together, and seconds. The
first rounds are cold. What is more than the driver holds is left to Spark, and the reason is printed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import psutil

from bench.growth import added, in_a_file
from bench.spark import scratch
from streaming.delta.rewriting import Begun
from streaming.delta.state_table import StateTable
from streaming.delta.upkeep_plan import Kind, Step, Thresholds
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import Column, Scalar, TablePlan
from streaming.namespaces import Namespace

_KINDS = "long", "string"
_PLAN = TablePlan(tuple(Column(f"c{number}", Scalar(_KINDS[number % 2])) for number in range(8)))
_KEYS = 1_000_003


def filled(table: StateTable, files: int, rows: int) -> None:
    """Each file has keys from all over the table, in their order."""
    table.create(_PLAN)
    folder, schema = table.folder(), COLUMNS.arrow_schema(_PLAN)
    for number in range(files):
        keys = sorted(f"{(row * 7_919 + number * 104_729) % _KEYS:024}" for row in range(rows))
        values = range(rows), [f"text of {key[-6:]}" for key in keys]
        columns = [keys, *(values[at % 2] for at in range(len(_PLAN.columns))), [None] * rows]
        file = in_a_file(folder, schema, number, columns)
        table.land(None, batch_id=number + 1, metadata={}, **added([file]))


def begun(table: StateTable) -> Begun:
    """All of its files are to be one."""
    look = table.upkeep.look(Thresholds(files=1))
    assert look is not None
    assert look.files is not None
    found = table.upkeep.begin(Step(Kind.COMPACT, "", look.files, 1))
    assert found is not None
    return found


def timed(work: Callable[[], Any]) -> tuple[Any, str]:
    """What it makes, and what it took."""
    (jvm,) = [child for child in psutil.Process().children(recursive=True) if child.name() == "java"]
    cpu, began = sum(jvm.cpu_times()[:2]) + time.process_time(), time.perf_counter()
    made = work()
    seconds = time.perf_counter() - began
    return made, f"{sum(jvm.cpu_times()[:2]) + time.process_time() - cpu:.2f} core-seconds in {seconds:.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--rows", type=int, default=1_200)
    parser.add_argument("--rounds", type=int, default=12)
    asked = parser.parse_args()
    with scratch("copies") as (spark, folder):
        table = StateTable(COLUMNS, spark, str(folder / "table"), Namespace("bench", "copies"), "bench")
        filled(table, asked.files, asked.rows)
        for number in range(asked.rounds):
            of = begun(table)
            copies, driver = timed(of.write)
            of.discard(copies)
            made, by_spark = timed(
                lambda of=of: of.transaction.copy([file.add for file in of.of], 1, of.order)
            )
            table.folder().remove([add.path() for add in made])
            who = "driver" if copies.left is None else f"left to Spark ({copies.left})"
            print(f"{number}: {who}: {driver}; Spark: {by_spark}", flush=True)


if __name__ == "__main__":
    main()

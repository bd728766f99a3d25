"""An engine on a real Spark standalone cluster: the same work by one worker and by two, in a shared folder and on S3.

    python -m bench.cluster [--documents 300000] [--changes 60000] [--rounds 3] [--workers 1 2] [--warehouse path s3]
                            [--busy] [--output FILE]

Each worker of the cluster has one core and an executor of 1 GB; all of them, MongoDB and the driver are processes of
one machine. So two workers show how work is divided, not what a second machine brings. The object store is moto, a
server in Python that takes a core for itself: its figures show that the road works, not how fast a store is.

For each combination an engine as somebody types it (`snapshotter run`, `spark.master` of the cluster) makes backfills
and follows changes (`bench.engine`); the changes are those of the last collection. The last round is the warm one. In
the end the table is compared with the collection, document by document. JSON lines: rates, core-seconds and peak memory
by kind of process, bytes that mongod has sent (`bench.lines`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.engine import DB, collections, started
from bench.lines import about_run, add_options, telling
from bench.workload import PARTS, load_orders
from snapshotter.testing.mongodb import start_mongodb
from snapshotter.testing.spark_cluster import start_spark_cluster
from tests.support.warehouses import shared_folder, store

PLACES = {"path": shared_folder, "s3": partial(store, patient=True)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=300_000)
    parser.add_argument("--changes", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3, choices=range(1, PARTS + 1))
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--warehouse", nargs="+", default=["path", "s3"], choices=list(PLACES))
    add_options(parser)
    asked = parser.parse_args()
    with telling(about_run(asked), asked.output) as tell:
        for warehouse in asked.warehouse:
            for workers in asked.workers:
                for found in measure(warehouse, workers, asked.documents, asked.changes, asked.rounds):
                    tell(warehouse=warehouse, workers=workers, **found)


def measure(
    warehouse: str, workers: int, documents: int, changes: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """The figures of one combination. Raises RuntimeError where the engine fails, or the table is not the
    collection."""
    with ExitStack() as stack:
        mongo = stack.enter_context(start_mongodb())
        names = collections(rounds)
        for name in names:
            load_orders(mongo.uri, DB, name, documents)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-cluster-")))
        place = stack.enter_context(PLACES[warehouse](folder))
        cluster = stack.enter_context(start_spark_cluster(workers))
        options = {**cluster.settings(), "spark.master": cluster.master_url}
        engine = stack.enter_context(started(mongo.uri, place, options))
        for number, name in enumerate(names, 1):
            yield {"what": "backfill", "round": number, **engine.backfill(name, documents)}
        for number in range(rounds):
            figures = engine.stream(names[-1], documents, changes, number)
            yield {"what": "stream", "round": number + 1, **figures}
        yield {"what": "parity", "rows": engine.check(names[-1])}


if __name__ == "__main__":
    main()

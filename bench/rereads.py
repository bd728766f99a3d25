"""What it takes to read a table again that has its rows: ``python -m bench.rereads [--documents 300000]``.

Two tables of the same orders are read and landed again by turns in one JVM, each chunk's READs in files of the table's
folder. In one the files are held against the table by the workers and added; in the other they are read back as
rows and merged. Nothing has changed since, or one document in a hundred, or all of them. Seconds of reading and of
landing, and CPU time of the JVM and of Python, medians of the last rounds; what the landing has found is checked.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import bson
import psutil
from pymongo import MongoClient
from pyspark.sql import SparkSession

from bench.orders import order_id
from bench.ours_job import session
from bench.workload import load_orders
from snapshotter.core.values.chunks import KeyRange
from snapshotter.core.values.effects import Closing
from snapshotter.core.values.window import Window, WindowId, WindowState
from snapshotter.landing.tables import OpenTable
from snapshotter.landing.targets.state_rows import land_table
from snapshotter.landing.targets.target import CollectionContents, Identity
from snapshotter.reading.chunk_reader import ReadJob, SubRange, read
from snapshotter.reading.range_find import bound_of
from snapshotter.testing.mongodb import start_mongodb
from streaming.delta import state_upsert
from streaming.delta.state_table import StateTable
from streaming.layouts.columns.layout import COLUMNS
from streaming.mongo.deployment import majority_time
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

CHUNKS, SEED, DB = 6, 1, "bench_rereads"
ROUNDS, WARM = 5, 2
EVERY = {"unchanged": 0, "1 in 100 changed": 100, "all changed": 1}
ROADS = ("files", "rows")


class Road:
    """A table, and what is read into it: by files, or, where the landing is told that it can't, by rows."""

    def __init__(
        self, spark: SparkSession, client: MongoClient[dict[str, Any]], uri: str, folder: Path, name: str
    ) -> None:
        self.spark, self.client, self.uri, self.name, self.batch = spark, client, uri, name, -1
        self.namespace = Namespace(DB, "orders")
        self.opened = OpenTable(StateTable(COLUMNS, spark, str(folder / name), self.namespace, "bench"), None)
        raw = b"".join(client[DB].orders.find_raw_batches(limit=1_000))
        self.opened.make(lambda: COLUMNS.observe(raw))

    def again(self, documents: int, *, new: bool = False) -> tuple[dict[str, float], Any]:
        """What reading and landing all documents took, and what became of them."""
        ends = [
            bound_of(bson.encode({"_id": order_id(SEED, documents * at // CHUNKS - 1)}))
            for at in range(1, CHUNKS)
        ]
        now, plan = majority_time(self.client), self.opened.known_plan()
        targets = [KeyRange(one, other) for one, other in zip([None, *ends], [*ends, None], strict=True)]
        ranges = tuple(SubRange(number, target, now) for number, target in enumerate(targets, 1))
        folder = self.opened.table.folder()
        job = ReadJob(self.uri, self.namespace, None, COLUMNS, plan, ranges, None, folder=folder)
        self.batch += 1
        with measured() as reading:
            buffer = read(self.spark, job)
        closings = tuple(
            Closing(self._window(part.number, target, now, part.rows), now, new)
            for part, target in zip(buffer.trailers, targets, strict=True)
        )
        buffers = {closing.window.id: buffer for closing in closings}
        batch = CollectionContents(self.namespace, None, closings, buffers)
        with measured() as landing, mock.patch.object(state_upsert, "takes_files", self._takes(new)):
            landed = land_table(self.spark, self.opened, batch, Identity(self.batch, {}))
        for window in buffers:
            buffer.release(window)
        took = {f"read {name}": value for name, value in reading.items()}
        took |= {f"land {name}": value for name, value in landing.items()}
        return took, landed.outcomes.values()

    def _takes(self, new: bool) -> Any:
        return state_upsert.takes_files if new or self.name == "files" else lambda _: False

    def _window(self, number: int, target: KeyRange, now: ClusterTime, rows: int) -> Window:
        window = WindowId("bench", number)
        given = {"state": WindowState.CLOSING, "low_seen": now, "rows": rows}
        return Window(window, "r", self.namespace, target, None, number, now, in_stream=False, **given)


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """Seconds of the clock, and CPU seconds of the JVM and of all Python, of what is done within."""
    found: dict[str, float] = {}
    began, before = time.monotonic(), _cpu()
    yield found
    found["s"] = time.monotonic() - began
    found |= {name: value - before[name] for name, value in _cpu().items()}


def _cpu() -> dict[str, float]:
    spent = {"JVM": 0.0, "Python": 0.0}
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        name, times = process.name(), process.cpu_times()
        if name != "mongod":
            spent["JVM" if name == "java" else "Python"] += times.user + times.system
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=300_000)
    documents = parser.parse_args().documents
    folder = Path(tempfile.mkdtemp(prefix="rereads-"))
    spark = session("rereads")
    try:
        with start_mongodb() as mongo, MongoClient[dict[str, Any]](mongo.uri) as client:
            load_orders(mongo.uri, DB, "orders", documents)
            roads = [Road(spark, client, mongo.uri, folder, name) for name in ROADS]
            for road in roads:
                road.again(documents, new=True)
            for what, every in EVERY.items():
                found: dict[str, list[dict[str, float]]] = {road.name: [] for road in roads}
                for turn in range(ROUNDS):
                    changed = _change(client, documents, every)
                    for road in roads if turn % 2 else reversed(roads):
                        took, outcomes = road.again(documents)
                        counted = sum(o.changed for o in outcomes), sum(o.unchanged for o in outcomes)
                        if counted != (changed, documents - changed):
                            raise RuntimeError(f"{road.name} has found {counted} of {changed} changed")
                        found[road.name].append(took)
                for name, rounds in found.items():
                    kept = rounds[WARM:]
                    said = {of: round(statistics.median(one[of] for one in kept), 2) for of in kept[0]}
                    print(f"{what}, by {name}: {said}", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _change(client: MongoClient[dict[str, Any]], documents: int, every: int) -> int:
    """Change one document in so many; how many that are."""
    if not every:
        return 0
    of_these = {} if every == 1 else {"_id": {"$in": [order_id(SEED, n) for n in range(0, documents, every)]}}
    return client[DB].orders.update_many(of_these, {"$inc": {"revision": 1}}).modified_count


if __name__ == "__main__":
    main()

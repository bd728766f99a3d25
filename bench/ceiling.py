"""What two cores leave a backfill beside writes, whoever lands them.

Our backfill of one collection, beside a steady writer of another that is not captured (so nothing of it lands), and
beside that and a client that reads its changes with lookup and throws them away. In one JVM, by turns, warm. What is
left then is all there is for decoding and landing the changes.

    python -m bench.ceiling [--documents 1000000] [--rounds 2]
"""

import argparse
import json
import multiprocessing
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.synchronize import Event
from statistics import mean
from typing import Any

from pymongo import MongoClient

from bench.ours_job import backfill, session
from bench.workload import load_orders
from bench.writer import Writer
from snapshotter.testing.mongodb import start_mongodb

_DB, _ORDERS, _OTHERS = "bench_shop", "orders", "others"
_WARM_UP = 3
_RATE, _OTHERS_COUNT = 2_000, 200_000
_POLL_S = 4
"""As often as our engine reads while it is at work."""
_KINDS = ("alone", "written", "written and read")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="bench-ceiling-")
    try:
        with start_mongodb() as mongo:
            load_orders(mongo.uri, _DB, _ORDERS, asked.documents)
            load_orders(mongo.uri, _DB, _OTHERS, _OTHERS_COUNT)
            plan = {
                "uri": mongo.uri,
                "db": _DB,
                "coll": _ORDERS,
                "documents": asked.documents,
                "folder": folder,
            }
            seconds = _measure(plan, asked.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    speeds = {kind: round(asked.documents / mean(took)) for kind, took in seconds.items()}
    print(json.dumps({kind: (speed, round(speed / speeds["alone"], 3)) for kind, speed in speeds.items()}))


def _measure(plan: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    spark = session("ceiling")
    seconds: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    try:
        for turn in range(_WARM_UP):
            backfill(spark, plan, turn)
        for turn in range(rounds * len(_KINDS)):
            kind = _KINDS[turn % len(_KINDS)]
            with _beside(kind, plan["uri"], turn):
                seconds[kind].append(backfill(spark, plan, _WARM_UP + turn)["seconds"])
            print(json.dumps({"round": turn, "beside": kind, "seconds": seconds[kind][-1]}), flush=True)
    finally:
        spark.stop()
    return seconds


@contextmanager
def _beside(kind: str, uri: str, turn: int) -> Iterator[None]:
    with ExitStack() as stack:
        if kind == "written and read":
            stack.enter_context(_drained(uri))
        if kind != "alone":
            first_new = 10_000_000 * (turn + 1)
            writer = Writer(uri, _DB, _OTHERS, existing=_OTHERS_COUNT, first_new=first_new, rate=_RATE)
            stack.enter_context(writer)
            stack.callback(lambda: print(json.dumps({"writes_per_second": writer.stop().per_second})))
        yield


@contextmanager
def _drained(uri: str) -> Iterator[None]:
    """Somebody reads all changes meanwhile, every few seconds those that have come."""
    context = multiprocessing.get_context("spawn")
    started, stop = context.Event(), context.Event()
    process = context.Process(target=_drain, args=(uri, started, stop), daemon=True)
    process.start()
    if not started.wait(60):
        raise RuntimeError("the reader of changes did not start; its error is on standard error")
    try:
        yield
    finally:
        stop.set()
        process.join(60)
    if process.exitcode != 0:
        raise RuntimeError(f"the reader of changes ended with {process.exitcode}")


def _drain(uri: str, started: Event, stop: Event) -> None:
    size = 0
    with MongoClient[dict[str, Any]](uri) as client:
        options = {"fullDocument": "updateLookup"}
        others = client[_DB][_OTHERS]
        with others.aggregate_raw_batches([{"$changeStream": options}], batchSize=10_000) as batches:
            started.set()
            while not stop.wait(_POLL_S):
                while batch := batches.try_next():
                    size += len(batch)
    print(json.dumps({"megabytes_of_changes": round(size / 1e6)}), flush=True)


if __name__ == "__main__":
    main()

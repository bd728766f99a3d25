"""An engine on a real Spark standalone cluster: the same work by one worker and by two, in a shared folder and on S3.

    python -m bench.cluster [--documents 300000] [--changes 60000] [--rounds 3] [--workers 1 2] [--warehouse path s3]

Each worker of the cluster has one core and an executor of 1 GB; all of them, MongoDB and the driver are processes of
one machine. So two workers show how work is divided, not what a second machine brings. The object store is moto, a
server in Python that takes a core for itself: its figures show that the road works, not how fast a store is.

For each combination an engine as somebody types it (`snapshotter run`, `spark.master` of the cluster):

    backfill   the signal is inserted -> the newest commit of that collection's table; a collection each round
    stream     a backlog of mixed changes to the last of them, made while the driver stands still (SIGSTOP); from the
               moment when it goes on to the first commit that has the last change

Commits say by their own time when they were made. The last round is the warm one. In the end the table is compared with
the collection, document by document. JSON lines: rates, core-seconds and peak memory by kind of process, bytes that
mongod has sent. Refused where the load before is above 0.5, but for --busy.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pyarrow as pa
from deltalake import QueryBuilder
from pymongo import MongoClient

from bench.command import Command, running
from bench.kinds import Watch, watching
from bench.measurement import machine, too_busy
from bench.workload import PARTS, load_orders, mixed_changes, open_collection
from snapshotter.testing.mongodb import start_mongodb
from snapshotter.testing.processes import free_port, wait_until
from snapshotter.testing.spark_cluster import start_spark_cluster
from streaming.mongo.deployment import connect, majority_time
from tests.support.warehouses import Place, shared_folder, store

HERE = Path(__file__).parents[1]
_DB, _ORDERS, _SIGNALS = "bench_shop", "orders", "signals"
_PATIENCE_S, _STATUS_S = 900.0, 2.0
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
    parser.add_argument("--busy", action="store_true", help="measure although others are at work")
    asked = parser.parse_args()
    load = os.getloadavg()[0]
    if (why := too_busy(load)) is not None and not asked.busy:
        sys.exit(why)
    tell(about=machine(), load_before=round(load, 2), documents=asked.documents, changes=asked.changes)
    for warehouse in asked.warehouse:
        for workers in asked.workers:
            for found in measure(warehouse, workers, asked.documents, asked.changes, asked.rounds):
                tell(warehouse=warehouse, workers=workers, **found)


def tell(**what: object) -> None:
    print(json.dumps(what), flush=True)


def measure(
    warehouse: str, workers: int, documents: int, changes: int, rounds: int
) -> Iterator[dict[str, Any]]:
    """The figures of one combination. Raises RuntimeError where the engine fails, or the table is not the
    collection."""
    with ExitStack() as stack:
        mongo = stack.enter_context(start_mongodb())
        names = [f"{_ORDERS}_{number}" for number in range(1, rounds + 1)]
        for name in names:
            load_orders(mongo.uri, _DB, name, documents)
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-cluster-")))
        place = stack.enter_context(PLACES[warehouse](folder))
        cluster = stack.enter_context(start_spark_cluster(workers))
        port = free_port()
        options = {
            "signal.data.collection": f"{_DB}.{_SIGNALS}",
            "collection.include.list": f"{_DB}\\.{_ORDERS}_\\d",
            "snapshot.mode": "no_data",
            "engine.http.port": str(port),
            **place.options,
            **cluster.settings(),
            "spark.master": cluster.master_url,
        }
        command = stack.enter_context(running(HERE, mongo.uri, _DB, _ORDERS, options=options))
        bench = Bench(mongo.uri, place, command, port, stack.enter_context(watching()))
        bench.await_state(lambda status: status["state"] == "running", "the engine")
        for number, name in enumerate(names, 1):
            yield {"what": "backfill", "round": number, **bench.backfill(name, documents)}
        for number in range(rounds):
            yield {
                "what": "stream",
                "round": number + 1,
                **bench.stream(names[-1], documents, changes, number),
            }
        yield {"what": "parity", "rows": bench.check(names[-1])}


@dataclass(frozen=True)
class Bench:
    """An engine that runs, and what is looked at: its page, its tables, its processes."""

    uri: str
    place: Place
    command: Command
    port: int
    watch: Watch

    def backfill(self, collection: str, documents: int) -> dict[str, Any]:
        self._settle()
        before = self._counted()
        begun = time.time()
        self._signal(collection)
        self.await_state(partial(_completed, collection), f"the backfill of {collection}")
        figures = self._figures(documents, self._committed(collection) - begun, before)
        (rows,) = self._query(collection, "SELECT count(*) AS n FROM t")
        if rows["n"] != documents:
            raise RuntimeError(f"{collection} has {documents} documents, and its table {rows['n']} rows")
        return figures

    def stream(self, collection: str, existing: int, changes: int, part: int) -> dict[str, Any]:
        before = self._counted()
        with self._standing_still():
            mixed_changes(self.uri, _DB, collection, changes, existing=existing, part=part)
            last = majority_time(connect(self.uri))
            self.watch.since()
            before = {**before, **self._sent()}
            begun = time.time()
        wanted = last.t, last.i
        self.await_state(lambda status: _position(status) >= wanted, "the backlog's end")
        return self._figures(changes, self._committed(collection, wanted) - begun, before)

    def check(self, collection: str) -> int:
        """How many rows the table has, each of which is a document of the collection, and the other way round."""
        found = self._query(collection, "SELECT _id, number, status, revision FROM t")
        rows = {row["_id"]: (row["number"], row["status"], row["revision"]) for row in found}
        with open_collection(self.uri, _DB, collection) as orders:
            shown = orders.find({}, {"number": 1, "status": 1, "revision": 1})
            there = {str(one["_id"]): (one["number"], one["status"], one["revision"]) for one in shown}
        if rows != there or len(rows) != len(found):
            differing = len(rows.items() ^ there.items())
            raise RuntimeError(f"{collection} and its table differ: {differing} of {len(there)} documents")
        return len(rows)

    def await_state(self, ready: Any, what: str) -> None:
        """Until the engine's status is so."""

        def look() -> bool:
            if (code := self.command.process.poll()) is not None:
                said = self.command.output.read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(
                    f"the engine ended with {code}, while {what} was waited for:\n{said[-4_000:]}"
                )
            return bool(ready(self._status()))

        wait_until(look, what, seconds=_PATIENCE_S, every=0.2)

    def _status(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/status", timeout=10) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:  # it has not begun to answer
            return {"state": None}

    def _signal(self, collection: str) -> None:
        data = {"data-collections": [f"{_DB}.{collection}"], "type": "incremental"}
        with MongoClient[dict[str, Any]](self.uri) as client:
            signals = client[_DB][_SIGNALS]
            signals.insert_one({"_id": collection, "type": "execute-snapshot", "data": data})

    @contextmanager
    def _standing_still(self) -> Iterator[None]:
        """Nothing of the driver runs meanwhile: neither Python nor its JVM."""
        main = psutil.Process(self.command.process.pid)
        family = [main, *main.children(recursive=True)]
        for process in family:
            process.suspend()
        try:
            yield
        finally:
            for process in family:
                process.resume()

    def _settle(self) -> None:
        """What is at work behind the last round has its time; what it took counts for nobody."""
        time.sleep(3)
        self.watch.since()

    def _sent(self) -> dict[str, float]:
        with MongoClient[dict[str, Any]](self.uri) as client:
            sent = client.admin.command("serverStatus")["network"]["physicalBytesOut"]
            return {"mongod_mb_sent": int(sent) / 1e6}

    def _counted(self) -> dict[str, float]:
        """What the server has sent so far, how many batches there were, and the seconds of their phases."""
        found = self._status()["metrics"]["engine"]
        phases = {
            f"batch_{phase}_seconds": spent for phase, spent in found.get("batch_seconds_total", {}).items()
        }
        return {**self._sent(), "batches": found["batches_total"], **phases}

    def _committed(self, collection: str, wanted: tuple[int, int] | None = None) -> float:
        """When the newest landing of the table was committed, or the first that reaches the position ``wanted``."""
        history = self.place.table(_DB, collection).history()  # the newest first
        landings = [one for one in history if "landing" in (one.get("userMetadata") or "")]
        if wanted is not None:
            reached = [one for one in landings if _reached(one) >= wanted]
            landings = reached[-1:] or landings
        return int(landings[0]["timestamp"]) / 1_000

    def _query(self, collection: str, text: str) -> list[dict[str, Any]]:
        found = QueryBuilder().register("t", self.place.table(_DB, collection)).execute(text)
        rows: list[dict[str, Any]] = pa.table(found).to_pylist()
        return rows

    def _figures(self, count: int, seconds: float, before: Mapping[str, float]) -> dict[str, Any]:
        taken = asdict(self.watch.since())
        time.sleep(_STATUS_S)  # the status is written about once a second
        megabytes = {kind: round(most / 2**20) for kind, most in taken["peak_bytes"].items()}
        return {
            "seconds": round(seconds, 2),
            "per_second": round(count / seconds),
            "core_seconds": taken["core_seconds"],
            "peak_mb": megabytes,
            **{name: round(now - before.get(name, 0), 2) for name, now in self._counted().items()},
        }


def _completed(request: str, status: dict[str, Any]) -> bool:
    states = {one["id"]: one["state"] for one in status.get("requests", ())}
    if states.get(request) in ("failed", "rejected", "stopped"):
        raise RuntimeError(f"the request {request} is {states[request]}")
    return states.get(request) == "completed"


def _position(status: dict[str, Any]) -> tuple[int, int]:
    position = status.get("position") or {"t": 0, "i": 0}
    return position["t"], position["i"]


def _reached(commit: dict[str, Any]) -> tuple[int, int]:
    position = json.loads(commit["userMetadata"])["metadata"]["position"]
    return position["t"], position["i"]


if __name__ == "__main__":
    main()

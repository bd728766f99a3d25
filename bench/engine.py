"""An engine as somebody types it, driven from outside: by signals and changes, and seen by what it leaves.

Used by `bench.cluster`, `bench.cost` and `bench.catching_up`. A round is

    backfill   the signal is inserted -> the newest commit of that collection's table; a collection each round
    stream     a backlog of mixed changes, made while the driver stands still (SIGSTOP); from the moment when it goes on
               to the first commit that has the last change

Commits say by their own time when they were made. CPU time and memory are those of all processes (`kinds`) from the
signal, or the moment when it goes on, until the engine's status has the end of it, which it writes once a second.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pyarrow as pa
from deltalake import QueryBuilder
from pymongo import MongoClient

from bench.command import HERE, Command, running
from bench.kinds import Watch, watching
from bench.orders import Maker, orders
from bench.workload import load_orders, mixed_changes, open_collection
from snapshotter.testing.mongodb import start_mongodb
from snapshotter.testing.processes import free_port, wait_until
from streaming.mongo.deployment import connect, majority_time
from tests.support.warehouses import Place, shared_folder

DB = "bench_shop"
_ORDERS, _SIGNALS = "orders", "signals"
_PATIENCE_S, _STATUS_S = 900.0, 2.0


def collections(rounds: int) -> list[str]:
    """Those that an engine captures: one for each round, up to nine."""
    return [f"{_ORDERS}_{number}" for number in range(1, rounds + 1)]


@contextmanager
def started(uri: str, place: Place, options: Mapping[str, str]) -> Iterator[Engine]:
    """An engine that runs, with all defaults but where its tables are, these ``options``, and what signals need."""
    port = free_port()
    given = {
        "signal.data.collection": f"{DB}.{_SIGNALS}",
        "collection.include.list": f"{DB}\\.{_ORDERS}_\\d",
        "snapshot.mode": "no_data",
        "engine.http.port": str(port),
        **place.options,
        **options,
    }
    with ExitStack() as stack:
        command = stack.enter_context(running(HERE, uri, DB, _ORDERS, options=given))
        engine = Engine(uri, place, command, port, stack.enter_context(watching()))
        engine.await_state(lambda status: status["state"] == "running", "the engine")
        yield engine


@contextmanager
def alone(names: Sequence[str], documents: int, make: Maker = orders) -> Iterator[Engine]:
    """An engine on two cores of this machine, and a MongoDB beside it whose collections of these ``names`` have so many
    ``documents`` each, as ``make`` has them. What is loaded is written before anything counts."""
    with ExitStack() as stack:
        mongo = stack.enter_context(start_mongodb())
        for name in names:
            load_orders(mongo.uri, DB, name, documents, make=make)
        with MongoClient[dict[str, Any]](mongo.uri) as client:
            client.admin.command("fsync")
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-alone-")))
        place = stack.enter_context(shared_folder(folder))
        yield stack.enter_context(started(mongo.uri, place, {"spark.master": "local[2]"}))


@dataclass(frozen=True)
class Engine:
    """One that runs, and what is looked at: its page, its tables, its processes."""

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
        (rows,) = self._query(collection, "SELECT count(*) AS n FROM t").to_pylist()
        if rows["n"] != documents:
            raise RuntimeError(f"{collection} has {documents} documents, and its table {rows['n']} rows")
        return figures

    def stream(
        self, collection: str, existing: int, changes: int, part: int, make: Maker = orders
    ) -> dict[str, Any]:
        before = self._counted()
        with self.standing_still():
            mixed_changes(self.uri, DB, collection, changes, existing=existing, part=part, make=make)
            last = majority_time(connect(self.uri))
            self.watch.since()
            before = {**before, **self._sent()}
            begun = time.time()
        wanted = last.t, last.i
        self.await_state(lambda status: _position(status) >= wanted, "the backlog's end")
        return self._figures(changes, self._committed(collection, wanted) - begun, before)

    def rest(self, seconds: float) -> dict[str, Any]:
        """With nothing to do, but for upkeep of what was done before."""
        before = self._counted()
        self.watch.since()
        time.sleep(seconds)
        return self._figures(0, seconds, before)

    def check(self, collection: str) -> int:
        """How many rows the table has, each of which is a document of the collection, and the other way round."""
        found = self._query(collection, "SELECT _id, number, status, revision FROM t")
        keys, *shown = (column.to_pylist() for column in found.columns)
        rows = dict(zip(keys, zip(*shown, strict=True), strict=True))
        with open_collection(self.uri, DB, collection) as there:
            fields = there.find({}, {"number": 1, "status": 1, "revision": 1})
            documents = {str(one["_id"]): (one["number"], one["status"], one["revision"]) for one in fields}
        if rows != documents or len(rows) != len(keys):
            differing = len(rows.items() ^ documents.items())
            raise RuntimeError(
                f"{collection} and its table differ in {differing} of {len(documents)} documents; "
                f"{len(keys) - len(rows)} rows have a key that another has"
            )
        return len(rows)

    def sizes(self, collection: str) -> dict[str, int]:
        """Bytes of the documents, and of the files of the table's newest version."""
        with MongoClient[dict[str, Any]](self.uri) as client:
            bson = int(client[DB].command("collStats", collection)["size"])
        files = self.place.table(DB, collection).get_add_actions(flatten=True)
        return {"bson_bytes": bson, "table_bytes": sum(files.column("size_bytes").to_pylist())}

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
        data = {"data-collections": [f"{DB}.{collection}"], "type": "incremental"}
        with MongoClient[dict[str, Any]](self.uri) as client:
            signals = client[DB][_SIGNALS]
            signals.insert_one({"_id": collection, "type": "execute-snapshot", "data": data})

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Nothing of the driver runs meanwhile: neither Python nor its JVM, nor what it has started."""
        main = psutil.Process(self.command.process.pid)
        family = [main, *main.children(recursive=True)]
        try:
            for process in family:
                with suppress(psutil.NoSuchProcess):  # it has ended by itself
                    process.suspend()
            yield
        finally:
            for process in family:
                with suppress(psutil.NoSuchProcess):
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
        history = self.place.table(DB, collection).history()  # the newest first
        landings = [one for one in history if "landing" in (one.get("userMetadata") or "")]
        if wanted is not None:
            reached = [one for one in landings if _reached(one) >= wanted]
            landings = reached[-1:] or landings
        return int(landings[0]["timestamp"]) / 1_000

    def _query(self, collection: str, text: str) -> pa.Table:
        return pa.table(QueryBuilder().register("t", self.place.table(DB, collection)).execute(text))

    def _figures(self, count: int, seconds: float, before: Mapping[str, float]) -> dict[str, Any]:
        taken = asdict(self.watch.since())
        time.sleep(_STATUS_S)  # the status is written about once a second
        megabytes = {kind: round(most / 2**20) for kind, most in taken["peak_bytes"].items()}
        return {
            "seconds": round(seconds, 2),
            "per_second": round(count / seconds),
            "core_seconds": taken["core_seconds"],
            "others_core_seconds": taken["others_core_seconds"],
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

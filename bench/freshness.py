"""How old what a reader sees is: the lag from a change in MongoDB to a version of the table that has it.

    python -m bench.freshness [--documents 1000 200000] [--rates 1 200 2000] [--seconds 60] [--beside FOLDER]
                              [--options NAME=VALUE ...]

For each number of documents an engine of its own (`snapshotter run`, all defaults but `spark.master=local[2]` and the
`--options`) loads the collection; then changes are made at each rate, and the second half of each stretch counts: the
first warms up. `--beside` names another checkout, which does the same right after.

Seen from outside: a change counts from the moment when its writer has MongoDB's answer (`w: 1`) until the file of a
commit lies in the table's log whose position is the change's cluster time or later. What a reader takes to load that
version is its own. Printed as JSON lines: percentiles in seconds, commits, and bytes of the files that these added.
"""

import argparse
import json
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

from deltalake import DeltaTable
from pymongo import MongoClient, UpdateOne

from bench.command import running
from bench.orders import order_id
from bench.workload import load_orders
from snapshotter.testing.mongodb import start_mongodb
from snapshotter.testing.processes import wait_until

_DB, _ORDERS = "bench_shop", "orders"
_OPTIONS = {"spark.master": "local[2]"}
_LOOKS_S = 0.01
_BULKS_A_SECOND = 100
_SEED = 1
_PATIENCE_S = 900.0
HERE = Path(__file__).parents[1]
Time = tuple[int, int]
"""A cluster time: seconds and increment."""


@dataclass(slots=True)
class Log:
    """A table's log, looked at from outside: when which position could be seen, and what its files have."""

    folder: Path
    seen: list[tuple[float, Time, int]] = field(default_factory=list)
    _known: set[Path] = field(default_factory=set)

    def look(self) -> None:
        """Take in what is new. Commits without a position (a table's making, say) are nobody's landing."""
        now = time.perf_counter()
        if not self.folder.exists():
            return
        for path in sorted({*self.folder.glob("[0-9]*.json")} - self._known):
            self._known.add(path)
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            said = json.loads(
                next((c["commitInfo"].get("userMetadata", "{}") for c in lines if "commitInfo" in c), "{}")
            )
            if "landing" in said:
                position = said["metadata"]["position"]
                size = sum(line["add"]["size"] for line in lines if "add" in line)
                self.seen.append((now, (position["t"], position["i"]), size))

    def reached(self) -> Time:
        """The newest position that could be seen."""
        return self.seen[-1][1] if self.seen else (0, 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, nargs="+", default=[1_000, 200_000])
    parser.add_argument("--rates", type=float, nargs="+", default=[1, 200, 2_000])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each stretch; its second half counts")
    parser.add_argument("--beside", type=Path, help="another checkout")
    parser.add_argument("--options", nargs="+", default=[], help="of the engine, each as NAME=VALUE")
    asked = parser.parse_args()
    options = {**_OPTIONS, **dict(option.split("=", 1) for option in asked.options)}
    checkouts = {"this": HERE, **({"beside": asked.beside.resolve()} if asked.beside else {})}
    for documents in asked.documents:
        for name, checkout in checkouts.items():
            with start_mongodb() as mongo:
                load_orders(mongo.uri, _DB, _ORDERS, documents)
                with running(checkout, mongo.uri, _DB, _ORDERS, options=options) as command:
                    log = Log(command.table_log)
                    wait_until(partial(_loaded, log, documents), "the load", seconds=_PATIENCE_S)
                    for rate in asked.rates:
                        figures = stretch(mongo.uri, log, documents, rate, asked.seconds)
                        print(
                            json.dumps({"checkout": name, "documents": documents, "rate": rate, **figures}),
                            flush=True,
                        )


def stretch(uri: str, log: Log, documents: int, rate: float, seconds: float) -> dict[str, Any]:
    """Changes at ``rate`` a second for so many ``seconds``; the figures of the second half."""
    over = Event()
    watcher = Thread(target=_watch, args=(log, over), name="log", daemon=True)
    watcher.start()
    begun = time.perf_counter()
    try:
        written = list(_changes(uri, documents, rate, begun, seconds))
        wait_until(lambda: log.reached() >= written[-1][1], "the last change to be seen", seconds=_PATIENCE_S)
    finally:
        over.set()
        watcher.join()
    half = begun + seconds / 2
    positions = [position for _, position, _ in log.seen]
    lags = sorted(
        lag
        for at, clock, count in written
        if at >= half
        for lag in [log.seen[bisect_left(positions, clock)][0] - at] * count
    )
    commits = [size for at, _, size in log.seen if half <= at <= begun + seconds]
    return {
        **{f"p{p}": round(lags[min(len(lags) - 1, len(lags) * p // 100)], 2) for p in (50, 90, 99)},
        "max": round(lags[-1], 2),
        "changes": len(lags),
        "commits": len(commits),
        "mb_added": round(sum(commits) / 1e6, 2),
    }


def _changes(
    uri: str, documents: int, rate: float, begun: float, seconds: float
) -> Iterator[tuple[float, Time, int]]:
    """Make updates; for each bulk of them when it was answered, its cluster time, and how many there were."""
    random = Random(f"{_SEED}:{rate}")
    bulk = max(1, round(rate / _BULKS_A_SECOND))
    with MongoClient[dict[str, Any]](uri) as client, client.start_session() as session:
        orders = client[_DB][_ORDERS]
        for turn in range(int(rate * seconds / bulk)):
            time.sleep(max(0.0, begun + turn * bulk / rate - time.perf_counter()))
            numbers = [random.randrange(documents) for _ in range(bulk)]
            orders.bulk_write([_touch(random, number) for number in numbers], session=session)
            clock = session.operation_time
            assert clock is not None
            yield time.perf_counter(), (clock.time, clock.inc), bulk


def _touch(random: Random, number: int) -> UpdateOne:
    """An update of an order that always changes it."""
    return UpdateOne(
        {"_id": order_id(_SEED, number, "objectid")}, {"$set": {"touched": random.getrandbits(48)}}
    )


def _watch(log: Log, over: Event) -> None:
    while not over.wait(_LOOKS_S):
        log.look()


def _loaded(log: Log, documents: int) -> bool:
    """Whether the load has ended: until then positions pass changes of what it has yet to read."""
    log.look()
    if not log.seen:
        return False
    files = DeltaTable(str(log.folder.parent)).get_add_actions(flatten=True)
    return sum(files.column("num_records").to_pylist()) >= documents


if __name__ == "__main__":
    main()

"""How old what a reader sees is: the lag from a change in MongoDB to a version of the table that has it (`bench.lag`).

    python -m bench.freshness [--documents 1000 200000] [--rates 1 200 2000] [--seconds 60] [--snapshots 0]
                              [--backfills 0] [--beside FOLDER] [--options NAME=VALUE ...] [--busy] [--output FILE]

For each number of documents an engine of its own (`snapshotter run`, all defaults but `spark.master=local[2]` and the
`--options`) loads the collection. Then

    changes    are made at each rate; the second half of each stretch counts, the first warms up
    snapshots  of one key and of ten are asked for, one after the other, with 200 changes a second beside them: from the
               insertion of the signal until the status collection says that it is completed. As many warm up as count
    backfills  of so many collections, each into a new table, beside the highest rate of changes to that collection:
               the lag of changes made between the signal and its completion; the first ones warm up

`--beside` names another checkout, which does the same right after. JSON lines (`bench.lines`): percentiles in seconds,
commits, and bytes of the files that these added. What is kept (`--output`) is drawn as well, in a PNG of that name.
"""

import argparse
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from bench import lag_plot
from bench.command import by_turns, running
from bench.lag import SEED, Log, Written, changes, percentiles
from bench.lines import about_run, add_options, telling
from bench.orders import order_id
from bench.workload import load_orders
from signals import SnapshotClient
from signals.outcomes import SnapshotStatus
from snapshotter.testing.mongodb import start_mongodb
from snapshotter.testing.processes import wait_until

_DB, _ORDERS, _SIGNALS = "bench_shop", "orders", "bench_shop.signals"
_OPTIONS = {"spark.master": "local[2]"}
_KEYS = 1, 10
_KEYS_RATE = 200.0
_LEAD_S, _LOOKS_S = 20.0, 0.2
_PATIENCE_S = 900.0
Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, nargs="+", default=[1_000, 200_000])
    parser.add_argument("--rates", type=float, nargs="*", default=[1, 200, 2_000])
    parser.add_argument("--seconds", type=float, default=60.0, help="of each stretch; its second half counts")
    parser.add_argument("--snapshots", type=int, default=0, help="of each number of keys; as many warm up")
    parser.add_argument("--backfills", type=int, default=0, help="collections that are read beside changes")
    parser.add_argument("--options", nargs="+", default=[], help="of the engine, each as NAME=VALUE")
    add_options(parser)
    asked, checkouts = by_turns(parser)
    options = {**_OPTIONS, **dict(option.split("=", 1) for option in asked.options)}
    with telling(about_run(asked), asked.output) as tell:
        for documents in asked.documents:
            for name, checkout in zip(("this", "beside"), checkouts, strict=False):
                for figures in measured(checkout, documents, options, asked):
                    tell(checkout=name, documents=documents, **figures)
    if asked.output is not None and (asked.rates or asked.backfills):
        lag_plot.plot(lag_plot.load(asked.output), asked.output.with_suffix(".png"))


def measured(
    checkout: Path, documents: int, options: Mapping[str, str], asked: argparse.Namespace
) -> Iterator[Figures]:
    if asked.rates:
        yield from of_changes(checkout, documents, options, asked)
    if asked.snapshots:
        yield from of_snapshots(checkout, documents, options, asked.snapshots)
    if asked.backfills:
        rate = max(asked.rates, default=2_000.0)
        yield from of_backfills(checkout, documents, options, asked.backfills, rate)


def cache_gb(documents: int) -> float:
    """For so many orders and what MongoDB keeps beside them: a server of its own would give them half its memory."""
    return max(8.0, documents * 0.5e-6)


@contextmanager
def loaded(checkout: Path, documents: int, options: Mapping[str, str]) -> Iterator[tuple[str, Log]]:
    """An engine that has loaded so many orders: the address of its MongoDB, and its table's log."""
    with start_mongodb(cache_gb=cache_gb(documents)) as mongo:
        load_orders(mongo.uri, _DB, _ORDERS, documents)
        with running(checkout, mongo.uri, _DB, _ORDERS, options=options) as command:
            log = Log(command.table_log)
            wait_until(partial(log.loaded, documents), "the load", seconds=_PATIENCE_S)
            yield mongo.uri, log


def of_changes(
    checkout: Path, documents: int, options: Mapping[str, str], asked: argparse.Namespace
) -> Iterator[Figures]:
    with loaded(checkout, documents, options) as (uri, log):
        for rate in asked.rates:
            begun = time.perf_counter()
            with log.watched():
                written = list(changes(uri, _DB, _ORDERS, documents, rate, asked.seconds))
                log.await_last(written)
            half = begun + asked.seconds / 2
            yield {"rate": rate, **log.figures(written, half, begun + asked.seconds)}


def of_snapshots(checkout: Path, documents: int, options: Mapping[str, str], count: int) -> Iterator[Figures]:
    given = {"signal.data.collection": _SIGNALS, **options}
    with loaded(checkout, documents, given) as (uri, _), SnapshotClient(uri, _SIGNALS) as client:
        for keys in _KEYS:
            random, seconds = Random(f"{SEED}:{keys}"), []
            beside = changes(uri, _DB, _ORDERS, documents, _KEYS_RATE)
            for _ in range(2 * count):
                numbers = random.sample(range(documents), keys)
                seconds.append(one_snapshot(client, numbers, beside))
            yield {"snapshots": count, "keys": keys, **percentiles(seconds[count:])}


def one_snapshot(client: SnapshotClient, numbers: list[int], beside: Iterator[Written]) -> float:
    """Seconds from the signal of a request for these orders until it is completed, with changes made meanwhile."""
    begun = time.perf_counter()
    ids = [order_id(SEED, number, "objectid") for number in numbers]
    request = client.execute_snapshot(f"{_DB}.{_ORDERS}", keys=ids)
    for at, _, _ in beside:
        if (said := client.status(request)) is not None and said.ended:
            if said.state != "completed" or sum(one.rows + one.dropped for one in said.collections) != len(
                ids
            ):
                raise RuntimeError(f"{said}: {len(ids)} documents were asked for")
            return at - begun
    raise AssertionError("changes never end")


def of_backfills(
    checkout: Path, documents: int, options: Mapping[str, str], count: int, rate: float
) -> Iterator[Figures]:
    names = [f"{_ORDERS}_{number}" for number in range(1, count + 1)]
    given = {
        "signal.data.collection": _SIGNALS,
        "collection.include.list": rf"{_DB}\.{_ORDERS}_\d+",
        "snapshot.mode": "no_data",
        **options,
    }
    with start_mongodb(cache_gb=cache_gb(documents)) as mongo:
        for name in names:
            load_orders(mongo.uri, _DB, name, documents)
        with (
            running(checkout, mongo.uri, _DB, names[0], options=given) as command,
            SnapshotClient(mongo.uri, _SIGNALS) as client,
        ):
            for name in names:
                log = Log(command.table_log.parents[1] / name / "_delta_log")
                yield {
                    "rate": rate,
                    "backfill": name,
                    **one_backfill(mongo.uri, client, log, documents, rate),
                }


def one_backfill(uri: str, client: SnapshotClient, log: Log, documents: int, rate: float) -> Figures:
    """The lag of changes to a collection of the table with this ``log`` while it is read."""
    coll = log.folder.parent.name
    written: list[Written] = []
    request, asked, looked = "", 0.0, 0.0
    said: SnapshotStatus | None = None
    begun = time.perf_counter()
    with log.watched():
        for at, clock, some in changes(uri, _DB, coll, documents, rate):
            written.append((at, clock, some))
            if not request and at >= begun + _LEAD_S and log.seen:
                request, asked = client.execute_snapshot(f"{_DB}.{coll}"), at
            if request and at >= looked + _LOOKS_S:
                looked, said = at, client.status(request)
                if said is not None and said.ended:
                    break
        log.await_last(written)
    if said is None or said.state != "completed" or not log.loaded(documents):
        raise RuntimeError(f"{said}: {documents} documents were asked for")
    return {"seconds": round(looked - asked, 2), **log.figures(written, asked, looked)}


if __name__ == "__main__":
    main()

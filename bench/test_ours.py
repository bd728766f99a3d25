"""Our own figures as pytest-benchmark cases: `make bench`. Sizes by BENCH_DOCUMENTS and BENCH_CHANGES.

Every case runs in a process of its own, seven times in one JVM; a warm round is the figure, and what
pytest-benchmark shows is the whole case with its start. The figures are in `extra_info`, and so in its JSON.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import ours
from bench.measurement import Measurement
from bench.workload import load_orders, mixed_changes
from snapshotter.testing.mongodb import start_mongodb
from streaming.mongo.deployment import connect, majority_time

DOCUMENTS = int(os.environ.get("BENCH_DOCUMENTS", "1000000"))
CHANGES = int(os.environ.get("BENCH_CHANGES", "200000"))
DATABASE, COLLECTION = "bench_shop", "orders"


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    """A MongoDB with the orders loaded."""
    with start_mongodb() as mongodb:
        load_orders(mongodb.uri, DATABASE, COLLECTION, DOCUMENTS)
        yield mongodb.uri


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ours")


def shown(benchmark: BenchmarkFixture, figure: Measurement) -> None:
    benchmark.extra_info.update(figure)
    print(f"\n{figure['what']}: {figure['name']}: {figure['rate']:,}/s {figure.get('details', {})}")


def test_backfill(benchmark: BenchmarkFixture, uri: str, folder: Path) -> None:
    """A collection into a new table, from the signal to the last row visible."""
    figure = benchmark.pedantic(ours.backfill, (uri, DATABASE, COLLECTION, DOCUMENTS, folder))
    shown(benchmark, figure)


def test_stream(benchmark: BenchmarkFixture, uri: str, folder: Path) -> None:
    """A backlog of mixed changes into the tables that `test_backfill` left."""
    events = mixed_changes(uri, DATABASE, COLLECTION, CHANGES, existing=DOCUMENTS).events
    figure = benchmark.pedantic(ours.streaming, (uri, DATABASE, COLLECTION, events, folder))
    shown(benchmark, figure)


def test_backfill_beside_writes(benchmark: BenchmarkFixture, uri: str, tmp_path: Path) -> None:
    """A backfill while 2,000 changes a second are made."""
    figure = benchmark.pedantic(ours.backfill_beside_writes, (uri, DATABASE, COLLECTION, DOCUMENTS, tmp_path))
    shown(benchmark, figure)


@pytest.mark.parametrize("documents", [DOCUMENTS // 5, 2 * DOCUMENTS])
def test_memory(benchmark: BenchmarkFixture, tmp_path: Path, documents: int) -> None:
    """Peaks of the JVM (its heap is fixed) and of the largest Python worker, for a fifth and for the double."""
    with start_mongodb() as mongodb:
        load_orders(mongodb.uri, DATABASE, COLLECTION, documents)
        arguments = (mongodb.uri, DATABASE, COLLECTION, documents, tmp_path)
        figure = benchmark.pedantic(ours.backfill, arguments, {"rounds": 1})
    shown(benchmark, figure)


@pytest.mark.parametrize("events", [DOCUMENTS // 5, 2 * DOCUMENTS])
def test_memory_of_catching_up(benchmark: BenchmarkFixture, tmp_path: Path, events: int) -> None:
    """The same peaks of a stream that has so many events before it. Batches are of `engine.batch.max.events`, however
    long the backlog."""
    with start_mongodb() as mongodb:
        start = majority_time(connect(mongodb.uri))
        load_orders(mongodb.uri, DATABASE, COLLECTION, events)
        arguments = (mongodb.uri, DATABASE, COLLECTION, events, tmp_path)
        figure = benchmark.pedantic(ours.streaming, arguments, {"rounds": 1, "start": start})
    shown(benchmark, figure)

"""`bench.cost`: what its figures are made of, and the documents that they are of."""

from __future__ import annotations

import zlib
from typing import Any

import bson
import pytest

from bench.kinds import (
    ALL,
    DRIVER_JVM,
    DRIVER_PYTHON,
    DRIVER_WORKERS,
    ENGINE,
    EXECUTORS,
    MONGOD,
    WORKERS,
    Seen,
    core_seconds,
    kind_of,
)
from bench.orders import large_orders, orders
from bench.unit_cost import dollars, states, table, unit_costs

JVM, DAEMON, WORKER, PLANNER = (1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0)


def a_round(what: str, number: int, per_second: int) -> dict[str, Any]:
    costs = unit_costs({DRIVER_JVM: 36.0, MONGOD: 18.0}, 9.0, count=2_000_000, bson_bytes=10**9, cores=2)
    peaks = {ENGINE: 1_500, ALL: 3_000}
    counted = {"size": 312, "documents": 2_000_000, "table_bytes": 500, "rows": 10}
    return {
        "what": what,
        "round": number,
        "seconds": 2_000_000 / per_second,
        "per_second": per_second,
        "bson_bytes": 10**9,
        "peak_mb": peaks,
        **counted,
        **costs,
    }


def test_python_below_a_jvm_is_what_that_jvm_is() -> None:
    """The driver's, or an executor's; the engine's own process is told by its command, and others do not count."""
    assert kind_of("python -c from snapshotter.cli import main", None) == DRIVER_PYTHON
    assert kind_of("/bin/java -cp jars SparkSubmit", DRIVER_PYTHON) == DRIVER_JVM
    assert kind_of("python -m snapshotter.worker_daemon", DRIVER_JVM) == DRIVER_WORKERS
    assert kind_of("python -m snapshotter.worker_daemon", DRIVER_WORKERS) == DRIVER_WORKERS
    assert kind_of("python -m pyspark.daemon", EXECUTORS) == WORKERS
    assert kind_of("python guardian.py -- mongod", None) is None
    assert kind_of("/opt/mongod-8.0 --port 1", None) == MONGOD


def test_what_has_ended_still_counts() -> None:
    """By what its parent knows of it, also where nobody has looked at it; what was seen of it is not counted twice."""
    seen = {
        JVM: Seen(DRIVER_JVM, None, own=10.0, waited=0.0),
        DAEMON: Seen(DRIVER_WORKERS, JVM, own=1.0, waited=0.5),
        WORKER: Seen(DRIVER_WORKERS, DAEMON, own=1.5, waited=0.0),
    }
    # All live, and a worker that nobody saw has taken half a second.
    assert core_seconds(seen, set(seen)) == {DRIVER_JVM: 10.0, DRIVER_WORKERS: 3.0}
    # The worker ended half a second behind the last look at it.
    seen[DAEMON] = Seen(DRIVER_WORKERS, JVM, own=1.0, waited=2.5)
    assert core_seconds(seen, {JVM, DAEMON}) == {DRIVER_JVM: 10.0, DRIVER_WORKERS: 3.5}
    # So has the daemon, and one that nobody saw.
    seen[JVM] = Seen(DRIVER_JVM, None, own=10.0, waited=5.0)
    assert core_seconds(seen, {JVM}) == {DRIVER_JVM: 10.0, DRIVER_WORKERS: 5.0}


def test_what_nobody_has_waited_for_yet_counts_as_it_was_seen() -> None:
    """So a figure never gets smaller."""
    seen = {
        JVM: Seen(DRIVER_JVM, None, own=10.0, waited=0.0),
        PLANNER: Seen(DRIVER_WORKERS, JVM, own=1.0, waited=0.0),
    }
    assert core_seconds(seen, {JVM}) == {DRIVER_JVM: 10.0, DRIVER_WORKERS: 1.0}


def test_costs_are_of_a_million_and_of_a_terabyte() -> None:
    """Of each kind, of the engine without the server, and of all; by the clock all cores count, busy or not."""
    costs = unit_costs({DRIVER_JVM: 36.0, MONGOD: 18.0}, 9.0, count=2_000_000, bson_bytes=10**9, cores=2)
    assert costs["core_seconds_per_million"] == {DRIVER_JVM: 18.0, MONGOD: 9.0, ENGINE: 18.0, ALL: 27.0}
    assert costs["core_hours_per_tb"] == {DRIVER_JVM: 10.0, MONGOD: 5.0, ENGINE: 10.0, ALL: 15.0}
    assert costs["clock_core_hours_per_tb"] == 5.0
    assert dollars(costs["core_hours_per_tb"][ENGINE], 0.05) == pytest.approx(0.5)


def test_what_others_publish_can_be_held_against_it() -> None:
    """37,879 documents of 3,655 bytes a second on 64 vCPU: what `bench/README.md` says of them."""
    theirs = unit_costs({}, 1.0, count=37_879, bson_bytes=37_879 * 3_655, cores=64)
    assert theirs["clock_core_hours_per_tb"] == 128.41


def test_the_table_shows_cold_and_warm_rounds() -> None:
    """The first and all others together of each kind of work, no rest; money only where a core-hour has a price."""
    rounds = [a_round("backfill", number, speed) for number, speed in ((1, 50), (2, 600), (3, 200))]
    rounds += [a_round("changes", 1, 50), {"size": 312, "what": "rest", "core_seconds": {}}]
    shown = [(state, one["what"], one.get("rounds", [1])) for state, one in states(rounds)]
    assert shown == [("cold", "backfill", [1]), ("warm", "backfill", [2, 3]), ("cold", "changes", [1])]
    without = table(rounds, None)
    assert "$" not in without
    row = "| 312 | backfill | warm | 300 | 18.0 | 0.0 | 0.0 | 9.0 | 10.0 | 15.0 | 5.0 | 1,500 | 3,000 | 50 |"
    assert row in without
    assert "| 10.0 | 15.0 | 5.0 | 0.50 | 0.75 | 0.25 | 1,500 |" in table(rounds, 0.05)


def test_large_orders_are_the_same_ones_with_more_in_them() -> None:
    """Each a function of its number, wherever making them begins; of some 3,600 bytes."""
    made = list(large_orders(1, 0, 500))
    assert made[3:6] == list(large_orders(1, 3, 6))
    assert [one["_id"] for one in made] == [one["_id"] for one in orders(1, 0, 500)]
    assert sum(len(bson.encode(one)) for one in made) / 500 == pytest.approx(3_600, rel=0.04)


def test_their_text_compresses_as_text_does() -> None:
    """By a half to three quarters: neither noise nor one letter."""
    text = " ".join(one["text"] for one in large_orders(1, 0, 200)).encode()
    assert 2 < len(text) / len(zlib.compress(text)) < 4

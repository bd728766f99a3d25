"""What somebody, or something, ends in the midst of it is done again: operations that are killed at the server, Python
workers that the kernel kills, storage that refuses writes for a while. An engine that cannot go on says so in the end.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from pymongo import MongoClient

from snapshotter.errors import EXIT_GAVE_UP, GaveUp, exit_code
from snapshotter.landing.targets import decoded_events, state_tables
from snapshotter.landing.targets.target import LandedCollection
from snapshotter.reporting.status import STATUS_FILE, Status
from snapshotter.testing.processes import meanwhile, wait_until
from tests.support.engines import SECONDS, Lab, lab, reads
from tests.support.storage import refusing_writes

__all__ = ["lab", "reads"]

pytestmark = pytest.mark.guard

Decode = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
SLOW = '{"$where": "sleep(100) || true"}'
FETCH = 7_777
"""The fetch size of these engines: by it the server knows a chunk's find."""


def kill_operations(client: MongoClient[Any], matching: Mapping[str, object]) -> int:
    """``killOp`` for all that match now; how many there were."""
    stages = [{"$currentOp": {"allUsers": True}}, {"$match": {"active": True, **matching}}]
    found = [operation["opid"] for operation in client.admin.aggregate(stages)]
    for operation in found:
        client.admin.command("killOp", op=operation)
    return len(found)


def kill_workers() -> int:
    """SIGKILL for the Python workers of this process's Spark, as the kernel does where memory is short; how many."""
    killed = 0
    for process in psutil.Process().children(recursive=True):
        try:
            parent = process.parent()
            if parent is not None and all(p.cmdline()[-1:] == ["pyspark.worker"] for p in (process, parent)):
                process.kill()
                killed += 1
        except psutil.NoSuchProcess:
            continue
    return killed


def last_error(lab: Lab) -> str:
    """What the status says went wrong last."""
    found = Status.from_json((lab.state / STATUS_FILE).read_text()).last_error
    return "" if found is None else found.message


class Landings:
    """Landings as they happen; ``around`` is entered for each one's time, with its number from 0."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.around: Callable[[int], AbstractContextManager[object]] = lambda number: nullcontext()
        real = state_tables.land_table

        def land_table(spark: Any, opened: Any, batch: Any, identity: Any, **how: Any) -> LandedCollection:
            number, self.count = self.count, self.count + 1
            with self.around(number):
                return real(spark, opened, batch, identity, **how)

        monkeypatch.setattr(state_tables, "land_table", land_table)


@pytest.fixture
def landings(monkeypatch: pytest.MonkeyPatch) -> Landings:
    return Landings(monkeypatch)


@pytest.mark.parametrize("what", ["chunk", "planning"])
def test_a_find_that_is_killed_is_sent_again(lab: Lab, what: str) -> None:
    """``killOp`` of the find that reads a chunk, or of what looks for its ends, while it runs: once is no reason to
    give the request up."""
    lab.with_options(
        "cluster_time",
        snapshot__mode="no_data",
        snapshot__fetch__size=FETCH,
        engine__filters__allow__code=True,
    )
    lab.collection("orders").insert_many([{"_id": n} for n in range(20)])
    sent = FETCH if what == "chunk" else {"$ne": FETCH}
    finds = {"command.find": "orders", "command.$db": lab.database, "command.batchSize": sent}
    with lab.running() as engine:
        name = lab.name("orders")
        request = engine.execute_snapshot(name, filters={name: SLOW})
        engine.until("a find to be killed", lambda: kill_operations(lab.client, finds), SECONDS)
        ended = engine.wait(request, SECONDS)
        assert not ended.failed, ended.tasks[0].error
        assert ended.tasks[0].rows == 20
    lab.assert_equal("orders")


def test_a_change_stream_that_is_killed_goes_on(lab: Lab) -> None:
    """``killOp`` of the stream's requests (its aggregate, its getMores) while they run, again and again: the batch is
    read on behind what came."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    streams = {
        "$or": [
            {"command.pipeline.0.$changeStream": {"$exists": True}},
            {"cursor.originatingCommand.pipeline.0.$changeStream": {"$exists": True}},
        ]
    }
    killed = 0

    def kill() -> None:
        nonlocal killed
        killed += kill_operations(lab.client, streams)

    with lab.running() as engine:
        orders, number = lab.collection("orders"), 0
        with meanwhile(kill):
            while killed < 5:
                orders.insert_many([{"_id": number + n, "text": "x" * 200} for n in range(5_000)])
                number += 5_000
                assert number < 1_000_000
        engine.catch_up(SECONDS)
    lab.assert_equal("orders")


def test_a_worker_that_is_killed_in_a_chunk_read(lab: Lab) -> None:
    """SIGKILL of the Python worker that reads a chunk: the chunk is read again."""
    lab.with_options(
        "cluster_time",
        snapshot__mode="no_data",
        snapshot__fetch__size=FETCH,
        engine__filters__allow__code=True,
        retriable__restart__connector__wait__ms=1,
    )
    lab.collection("orders").insert_many([{"_id": n} for n in range(20)])
    finds = {"active": True, "command.find": "orders", "command.batchSize": FETCH}
    stages = [{"$currentOp": {"allUsers": True}}, {"$match": finds}]
    with lab.running() as engine:
        name = lab.name("orders")
        request = engine.execute_snapshot(name, filters={name: SLOW})
        engine.until("a chunk to be read", lambda: list(lab.client.admin.aggregate(stages)), SECONDS)
        assert kill_workers()
        ended = engine.wait(request, SECONDS)
        assert not ended.failed, ended.tasks[0].error
        assert ended.tasks[0].rows == 20
    lab.assert_equal("orders")


def killed(monkeypatch: pytest.MonkeyPatch, flags: Path, times: int) -> None:
    """Python workers that decode a landing's events die by SIGKILL, as the kernel kills where memory is short, so many
    times."""
    real, folder = decoded_events.decode_latest, str(flags)
    flags.mkdir()

    def decode_latest(*given: Any) -> Decode:
        decode = real(*given)

        def dies(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in range(times):
                with suppress(FileExistsError):
                    os.close(os.open(f"{folder}/{number}", os.O_CREAT | os.O_EXCL))
                    os.kill(os.getpid(), signal.SIGKILL)
            yield from decode(batches)

        return dies

    monkeypatch.setattr(decoded_events, "decode_latest", decode_latest)


def test_a_worker_that_is_killed_in_a_landing(
    lab: Lab, landings: Landings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGKILL of a Python worker that decodes a batch's events: the batch is landed again, and no commit of it comes
    twice."""
    lab.with_options("cluster_time", snapshot__mode="no_data", retriable__restart__connector__wait__ms=1)
    orders = lab.collection("orders")
    with lab.running() as engine:
        orders.insert_one({"_id": "first"})
        engine.catch_up(SECONDS)
        first = engine.engine.run_state
        killed(monkeypatch, tmp_path / "flags", 1)
        orders.insert_many([{"_id": n} for n in range(1_000)])
        engine.catch_up(SECONDS)
        assert engine.engine.run_state is not first
    # Spark tells a worker's end by what it came upon first: the end of its output, or of its connection.
    assert re.search("Python worker exited unexpectedly|Connection reset", last_error(lab))
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")


@pytest.mark.parametrize("where", ["tables", "state"])
def test_storage_that_refuses_writes_for_a_while(lab: Lab, landings: Landings, where: str) -> None:
    """Neither a table nor the engine's state can be written twice in a row: what was not written is written then."""
    lab.with_options("cluster_time", snapshot__mode="initial", retriable__restart__connector__wait__ms=1)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n} for n in range(10)])
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        begun = landings.count

        @contextmanager
        def refused(number: int) -> Iterator[None]:
            if number not in (begun, begun + 1):
                yield
            elif where == "tables":
                with refusing_writes(lab.spark):
                    yield
            else:
                yield
                take_away(lab.state / "progress", engine.engine.run_state)

        landings.around = refused
        orders.insert_many([{"_id": n} for n in range(100, 110)])
        engine.catch_up(SECONDS)
        request = engine.execute_snapshot(lab.name("orders"))
        assert not engine.wait(request, SECONDS).failed
        assert landings.count > begun + 2
    assert ("File too large" if where == "tables" else "cannot write") in last_error(lab)
    lab.assert_equal("orders")
    lab.assert_one_commit_a_batch("orders")


def take_away(folder: Path, run: Any) -> None:
    """A file takes the folder's place until the run has ended."""
    aside = folder.with_name(f"{folder.name}.aside")
    folder.rename(aside)
    folder.write_text("in the way")

    def put_back() -> None:
        wait_until(lambda: run.error is not None, "the run to fail", seconds=SECONDS)
        folder.unlink()
        aside.rename(folder)

    threading.Thread(target=put_back, daemon=True).start()


def test_what_goes_on_failing_ends_with_the_code_for_that(
    lab: Lab, landings: Landings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is killed each time, as one that needs more memory than there is: tried again within bounds, and
    then the exit code says that a restart may help."""
    lab.with_options(
        "cluster_time",
        snapshot__mode="no_data",
        retriable__restart__connector__wait__ms=1,
        errors__max__retries=2,
    )
    orders = lab.collection("orders")
    engine = lab.engine().start()
    killed(monkeypatch, tmp_path / "flags", 1_000)
    orders.insert_many([{"_id": n} for n in range(1_000)])
    with pytest.raises(GaveUp, match="gave up after 2 retries") as ended:
        engine.catch_up(SECONDS)
    assert landings.count == 3
    assert exit_code(ended.value) == EXIT_GAVE_UP
    with pytest.raises(GaveUp):
        engine.stop()
    monkeypatch.undo()
    with lab.running() as again:
        again.catch_up(SECONDS)
    lab.assert_equal("orders")

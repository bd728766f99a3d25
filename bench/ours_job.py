"""The process that `ours.py` starts: one Spark session, one kind of work, several rounds.

Prints a JSON line a round, with the peak memory of this process's Python workers and of its JVM. Each round has an
engine and a warehouse of its own under `folder`; they are left there, because `stream` goes on from where `backfill`
stopped.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import SparkSession

from bench.spark import HEAP
from bench.writer import writer_of
from snapshotter.api import Snapshotter
from snapshotter.configuration.settings import Settings
from snapshotter.core.values.progress import RequestProgress
from snapshotter.spark_session import spark_builder
from streaming.mongo.deployment import majority_time

_PATIENCE_S = 1_800
_LOOKS_S = 0.2


def main(plan: dict[str, Any]) -> None:
    spark = session("ours", topics="engine.topics.enabled" in plan.get("options", {}))
    try:
        for turn in range(1, plan["rounds"] + 1):
            found = _WORK[plan["work"]](spark, plan, turn)
            print(
                json.dumps({"round": turn, "documents": plan["documents"], **found, **_memory()}), flush=True
            )
    finally:
        spark.stop()


def session(name: str, *, topics: bool = False) -> SparkSession:
    """As users get it, but for a fixed heap and a quiet log. The caller stops it."""
    given = {"spark.driver.memory": HEAP, "spark.log.level": "ERROR"}
    return spark_builder(name, given, "local[2]", kafka=topics)


def _engine(spark: SparkSession, plan: dict[str, Any], turn: int, **more: object) -> Snapshotter:
    options: dict[str, object] = {
        "name": f"ours{turn}",
        "mongodb.connection.string": plan["uri"],
        "collection.include.list": f"{plan['db']}\\.{plan['coll']}",
        "signal.data.collection": f"{plan['db']}.signals",
        "snapshot.mode": "no_data",
        "delta.warehouse": str(Path(plan["folder"]) / f"round-{turn}"),
        **plan.get("options", {}),
        **more,
    }
    return Snapshotter(Settings.from_options(options, environ={}), spark)


def backfill(spark: SparkSession, plan: dict[str, Any], turn: int) -> dict[str, Any]:
    """From the signal to the last row visible in Delta, and to the last record that Kafka has, where it gets some."""
    with _engine(spark, plan, turn) as engine:
        begun = time.perf_counter()
        done = engine.wait(engine.execute_snapshot(f"{plan['db']}.{plan['coll']}"), _PATIENCE_S)
        seconds = time.perf_counter() - begun
        if (outbox := engine.engine.topics.outbox) is not None:
            engine.until("topics to be fed", lambda: not outbox.waiting, _PATIENCE_S)
        fed = time.perf_counter() - begun
        rows = _rows(spark, plan, turn)
    if done.failed or rows != plan["documents"]:
        raise RuntimeError(f"{done}: the table has {rows} rows, the collection {plan['documents']} documents")
    return {"seconds": round(seconds, 3), "fed_seconds": round(fed, 3), "windows": done.tasks[0].chunks}


def beside(spark: SparkSession, plan: dict[str, Any], turn: int) -> dict[str, Any]:
    """The same while a writer makes `rate` changes a second; the stream's lag is looked at all the while."""
    with _engine(spark, plan, turn) as engine:
        with writer_of({**plan, "turn": turn}) as writer:
            begun = time.perf_counter()
            request = engine.execute_snapshot(f"{plan['db']}.{plan['coll']}")
            lags, looked = [0], begun

            def ended() -> RequestProgress | None:
                nonlocal looked
                # Not at every poll: the processors that this takes are the ones that the work is measured on.
                if time.perf_counter() - looked > _LOOKS_S:
                    looked = time.perf_counter()
                    # The server's head of this moment: the one that the engine knows may be a second old.
                    lags.append(majority_time(engine.engine.client).t - engine.position().t)
                progress = engine.engine.run_state.progress.request(request)  # type: ignore[union-attr]
                return progress if progress is not None and progress.ended else None

            (task,) = engine.until("the end of the backfill", ended, _PATIENCE_S).tasks
            seconds = time.perf_counter() - begun
            report = writer.stop()
        engine.catch_up()
    return {
        # More than there were at first: the writers of earlier rounds, and this one's, have inserted some.
        "documents": task.rows + task.superseded,
        "seconds": round(seconds, 3),
        "lag_seconds_max": max(lags),
        "writes_per_second": report.per_second,
    }


def _stream(spark: SparkSession, plan: dict[str, Any], turn: int) -> dict[str, Any]:
    """From the start of the engine, which has the backlog before it, to its last commit."""
    engine = _engine(spark, plan, turn)
    begun = time.perf_counter()
    with engine:
        engine.catch_up(_PATIENCE_S)
        seconds = time.perf_counter() - begun
        run = engine.engine.run_state
        # Counted right behind the save that ends the wait.
        engine.until(
            "the last batch to be counted", lambda: run is None or run.events >= plan["documents"], 60
        )
        events = run.events if run is not None else 0
    if events < plan["documents"]:
        raise RuntimeError(f"{events} events were streamed of {plan['documents']}")
    return {"seconds": round(seconds, 3)}


def _rows(spark: SparkSession, plan: dict[str, Any], turn: int) -> int:
    path = Path(plan["folder"]) / f"round-{turn}" / "state" / plan["db"] / plan["coll"]
    return spark.read.format("delta").load(str(path)).count()


def _memory() -> dict[str, int]:
    """Peak resident memory so far, in MB: of the JVM, of the largest Python worker that there is, and of this process,
    the driver's Python."""
    children = psutil.Process().children(recursive=True)
    peaks = {"java": 0, "python": 0, "driver": 0}
    for process in [psutil.Process(), *children]:
        status = Path(f"/proc/{process.pid}/status")
        try:
            text = status.read_text()
        except FileNotFoundError:
            continue
        peak = next(
            (int(line.split()[1]) // 1024 for line in text.splitlines() if line.startswith("VmHWM")), 0
        )
        kind = "java" if "java" in process.name() else "python"
        kind = "driver" if process.pid == os.getpid() else kind
        peaks[kind] = max(peaks[kind], peak)
    return {
        "jvm_peak_mb": peaks["java"],
        "python_peak_mb": peaks["python"],
        "driver_python_peak_mb": peaks["driver"],
    }


_WORK = {"backfill": backfill, "beside": beside, "stream": _stream}

if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

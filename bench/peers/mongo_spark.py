"""MongoDB's own Spark connector: a bulk copy into Delta, and its stream with a hand-written MERGE.

What people build with it: `read` and append, with no windows, no stream beside it, no progress and no
deletes; and `readStream` with `foreachBatch`. Both are given what helps them: the schema (no sampling),
lookup as ours has it, one cached pass over a batch. They run in a process of their own
(`mongo_spark_job.py`), a warm one of `rounds` is the figure.
"""

import json
import sys
from pathlib import Path

from bson import Timestamp

from bench.clock import ticking
from bench.measurement import ROUNDS, Measurement, measurement, warm
from bench.peers import build
from bench.peers.process import Round, run_rounds

VERSION = "10.5.0"
ROOT = Path(__file__).parents[2]
_TIMEOUT_S = 1800


def bulk_copy(
    uri: str, db: str, coll: str, documents: int, table: Path, *, rounds: int = ROUNDS
) -> Measurement:
    """Copy the whole collection by appending to a new Delta table; `table` is left with the last copy, for
    `streaming`. Checked: the table has `documents` rows."""
    plan = {"uri": uri, "db": db, "coll": coll, "documents": documents, "table": str(table), "rounds": rounds}
    return _copy_figure("backfill", _run("copy", plan), "Delta, append")


def bulk_copy_beside_writes(
    uri: str, db: str, coll: str, documents: int, table: Path, *, rate: int = 2_000, rounds: int = ROUNDS
) -> Measurement:
    """The same while `rate` changes a second are made, which it leaves out: what the writes alone cost a copy."""
    plan = {"uri": uri, "db": db, "coll": coll, "documents": documents, "table": str(table), "rounds": rounds}
    found = _run("beside", {**plan, "rate": rate, "program": 1})
    return _copy_figure("beside", found, "Delta, append, without the changes")


def streaming(
    uri: str, db: str, coll: str, start: Timestamp, events: int, table: Path, *, rounds: int = ROUNDS
) -> Measurement:
    """Stream the `events` that follow `start` into a copy of `table`, which must be as the collection was
    before them; timed from starting the query to the commit of the last event."""
    plan = {"uri": uri, "db": db, "coll": coll, "documents": events, "table": str(table), "rounds": rounds}
    with ticking(uri):
        found = _run("stream", {**plan, "start": [start.time, start.inc]})
    return measurement(
        f"mongo-spark {VERSION}, hand-written MERGE",
        "stream",
        events,
        warm(found, lambda one: one["seconds"])["seconds"],
        cold_seconds=found[0]["seconds"],
        sink="Delta, MERGE",
    )


def _copy_figure(what: str, found: list[Round], sink: str) -> Measurement:
    counts = warm(found, lambda one: one["seconds"])
    name, cold = f"mongo-spark {VERSION}, bulk copy", found[0]["seconds"]
    return measurement(name, what, counts["documents"], counts["seconds"], cold_seconds=cold, sink=sink)


def _run(work: str, plan: dict[str, object]) -> list[Round]:
    jars = [str(jar) for jar in build.jars("spark_connector")]
    plan = {**plan, "work": work, "jars": jars}
    command = [sys.executable, "-m", "bench.peers.mongo_spark_job", json.dumps(plan)]
    return run_rounds(f"mongo-spark ({work})", command, timeout_s=_TIMEOUT_S, folder=ROOT)

"""Our own side: a backfill, a backfill beside writes, and a stream, in the terms of `bench.peers`.

Each runs in a process of its own (`ours_job.py`), warm in its last rounds, like the peers.
"""

import json
import sys
from pathlib import Path

from bench.clock import ticking
from bench.measurement import ROUNDS, Measurement, measurement, warm
from bench.peers.process import Round, run_rounds
from streaming.positions import ClusterTime

NAME = "snapshotter"
ROOT = Path(__file__).parents[1]
_TIMEOUT_S = 2_400
_LAG = "lag_seconds_max"
_PEAKS = "jvm_peak_mb", "python_peak_mb", "driver_python_peak_mb"
"""What only grows from round to round."""


def backfill(
    uri: str, db: str, coll: str, documents: int, folder: Path, *, rounds: int = ROUNDS
) -> Measurement:
    """Signal to last row visible in Delta. `folder` is left with an engine a round, for `streaming`."""
    found = _run("backfill", uri, db, coll, documents, folder, rounds)
    return _figure(f"{NAME}, execute-snapshot", "backfill", documents, found)


def streaming(
    uri: str,
    db: str,
    coll: str,
    events: int,
    folder: Path,
    *,
    rounds: int = ROUNDS,
    start: ClusterTime | None = None,
) -> Measurement:
    """The engines of `backfill` go on through `events` that came after it, or new ones through what came after `start`;
    start of the engine to last commit."""
    options = {} if start is None else {"capture.start.op.time": start.to_int()}
    with ticking(uri):
        found = _run("stream", uri, db, coll, events, folder, rounds, options=options)
    return _figure(f"{NAME}, change stream", "stream", events, found)


def backfill_beside_writes(
    uri: str, db: str, coll: str, documents: int, folder: Path, *, rate: int = 2_000, rounds: int = ROUNDS
) -> Measurement:
    """A backfill while `rate` changes a second are made; the details have the stream's greatest lag, in each round."""
    found = _run("beside", uri, db, coll, documents, folder, rounds, rate=rate, program=0)
    return _figure(f"{NAME}, execute-snapshot", "beside", documents, found)


def _figure(name: str, what: str, documents: int, found: list[Round]) -> Measurement:
    counts = warm(found, lambda one: one["seconds"])
    apart = ("round", "documents", "seconds", *_PEAKS)
    details = {key: value for key, value in {**counts}.items() if key not in apart}
    details |= {key: value for key, value in {**found[-1]}.items() if key in _PEAKS}
    details["milliseconds_by_round"] = [round(1_000 * one["seconds"]) for one in found]
    if _LAG in counts:
        details["lag_seconds_by_round"] = [one[_LAG] for one in found]
    return measurement(
        name,
        what,
        counts["documents"] if what == "beside" else documents,
        counts["seconds"],
        cold_seconds=found[0]["seconds"],
        sink="Delta, exactly once",
        **details,  # type: ignore[arg-type]
    )


def _run(
    work: str, uri: str, db: str, coll: str, documents: int, folder: Path, rounds: int, **more: object
) -> list[Round]:
    plan = {"work": work, "uri": uri, "db": db, "coll": coll, "documents": documents, "rounds": rounds}
    plan |= {"folder": str(folder), **more}
    command = [sys.executable, "-m", "bench.ours_job", json.dumps(plan)]
    return run_rounds(f"{NAME} ({work})", command, timeout_s=_TIMEOUT_S, folder=ROOT)

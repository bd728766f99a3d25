"""Debezium's MongoDB connector in its embedded engine, into a consumer that does nothing.

That is the fastest Debezium can be: no Kafka, no serialisation, no offsets on disk, no sink. What it is
compared with ends in a table, so a ratio of one would already be in our favour.

Each function starts a JVM of its own and lets it do the work `rounds` times; a warm round is the
figure, the first is in `details`. The Java side is in `debezium/`.
"""

from collections.abc import Mapping

from bson import Timestamp

from bench.clock import ticking
from bench.measurement import ROUNDS, Measurement, measurement, warm
from bench.peers import build
from bench.peers.process import Round, run_rounds

VERSION = "3.6.1.Final"
DEFAULT_CHUNK, TUNED_CHUNK = 1024, 10_000
# The queue holds more than a chunk, so that reading one does not wait for the consumer of the one before.
TUNED = {"max.batch.size": "8192", "max.queue.size": "32768"}
_HEAP = "-Xmx1g"
_TIMEOUT_S = 1800


def incremental_snapshot(
    uri: str,
    db: str,
    coll: str,
    documents: int,
    *,
    chunk: int = DEFAULT_CHUNK,
    rounds: int = ROUNDS,
    options: Mapping[str, str] | None = None,
) -> Measurement:
    """From inserting `execute-snapshot` to the last READ, `documents` being all there are in the collection.

    Writes and drops a collection `debezium_signal` in `db`. `options` are the connector's own.
    """
    arguments = f"work=snapshot documents={documents} chunk={chunk} rounds={rounds}"
    found = _run(uri, db, coll, arguments, options or {})
    name = f"Debezium {VERSION}, chunk {chunk:,}"
    seconds = warm(found, lambda one: one["seconds"])["seconds"]
    return measurement(name, "backfill", documents, seconds, cold_seconds=found[0]["seconds"], sink="none")


def tuned_snapshot(uri: str, db: str, coll: str, documents: int, *, rounds: int = ROUNDS) -> Measurement:
    """`incremental_snapshot` with what makes it fastest here: large chunks, and room for a chunk in its
    queues."""
    return incremental_snapshot(uri, db, coll, documents, chunk=TUNED_CHUNK, rounds=rounds, options=TUNED)


def streaming(
    uri: str,
    db: str,
    coll: str,
    start: Timestamp,
    events: int,
    *,
    rounds: int = ROUNDS,
    options: Mapping[str, str] | None = None,
) -> Measurement:
    """Drain the `events` that follow `start` (the cluster time of the first, or any before it), with lookup.

    Timed from the first event to the last, which leaves out the engine's start: `seconds_from_start` has it.
    """
    arguments = f"work=stream documents={events} start={(start.time << 32) + start.inc} rounds={rounds}"
    with ticking(uri):
        found = _run(uri, db, coll, arguments, options or {})
    counts = warm(found, lambda one: one["seconds_from_first"])
    return measurement(
        f"Debezium {VERSION}",
        "stream",
        events,
        counts["seconds_from_first"],
        seconds_from_start=counts["seconds"],
        cold_seconds=found[0]["seconds_from_first"],
        sink="none",
    )


def _run(uri: str, db: str, coll: str, arguments: str, options: Mapping[str, str]) -> list[Round]:
    classpath = ":".join(str(jar) for jar in build.jars("debezium"))
    java = [
        "java",
        _HEAP,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        classpath,
        "bench.peers.Peer",
    ]
    where = [f"uri={uri}", f"database={db}", f"collection={coll}"]
    connector = [f"debezium.{key}={value}" for key, value in options.items()]
    command = [*java, *where, *arguments.split(), *connector]
    return run_rounds(f"Debezium ({arguments})", command, timeout_s=_TIMEOUT_S)

"""The streaming query of one run: its source, its checkpoint, its trigger; and when Spark has committed a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from snapshotter.engine.beginning import START
from snapshotter.engine.run import Run
from snapshotter.engine.run_context import RunContext
from streaming.fields.rules import SALT
from streaming.mongo.deployment import CONNECTION_OPTION
from streaming.positions import ClusterTime
from streaming.source.registration import register_at

_COMMIT_SECONDS = 10.0
_SECRETS = (CONNECTION_OPTION, SALT)


def start_query(
    context: RunContext, since: ClusterTime | None, foreach_batch: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    """Start the query: behind ``since``, or (None) where the checkpoint or the options say. ``context`` has the
    session, the options and the generation, whose checkpoint it uses; ``foreach_batch`` gets every batch with its id,
    and what it raises ends the query."""
    config, generation, spark = context.config, context.store.generation, context.spark
    secret = {name: config.source_options[name] for name in _SECRETS if name in config.source_options}
    given = {name: value for name, value in config.source_options.items() if name not in _SECRETS}
    if generation.lost:
        given.pop(START, None)  # the position that it asked for is the one that was lost, or long ago
    if since is not None:
        given[START] = str(since.next().to_int())
    readers = min(int(given.get("engine.stream.readers", 1)), spark.sparkContext.defaultParallelism)
    ours = {"trailer": "true", "hints.file": str(context.hints.path), "engine.stream.readers": str(readers)}
    secret[CONNECTION_OPTION] = config.uri
    frame = spark.readStream.format(register_at(spark, secret)).options(**{**given, **ours}).load()
    writer = frame.writeStream.foreachBatch(foreach_batch)
    writer = writer.option("checkpointLocation", f"{config.state_location}/{generation.checkpoint}")
    return writer.trigger(processingTime=f"{config.trigger_ms} milliseconds").start()


def await_commit(query: StreamingQuery, landed: int, is_committed: Callable[[int], bool]) -> None:
    """Wait until ``is_committed`` says so of the batch ``landed`` (-1: none has), ten seconds at most. Spark commits a
    batch a moment after it has landed. A ``query`` that is stopped in between repeats the batch from the state before
    it: its windows would be read again."""
    deadline = time.monotonic() + _COMMIT_SECONDS
    while landed >= 0 and query.isActive and time.monotonic() < deadline:
        if is_committed(landed):
            return
        time.sleep(0.01)


def drain(run: Run, query: StreamingQuery, seconds: float, meanwhile: Iterable[Callable[[], object]]) -> None:
    """Let the ``run`` land what is in flight, for so many ``seconds`` at most, or until its ``query`` ends.
    ``meanwhile`` is done about ten times a second: iterated each time, so it must not be a generator."""
    run.drain()
    deadline = time.monotonic() + seconds
    while not run.quiet and query.isActive and time.monotonic() < deadline:
        for step in meanwhile:
            step()
        time.sleep(0.1)

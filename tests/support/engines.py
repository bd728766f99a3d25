"""An engine in this process, on the shared Spark session: options, starts and stops, and looks at what it left.

What is observed on real parts is wrapped, never replaced: a chunk read really happens, and a test does something
before or after it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient, WriteConcern
from pymongo.collection import Collection
from pyspark.sql import SparkSession

from snapshotter.api import Snapshotter
from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.core.values.limits import Limits
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.tasks import TaskProgress
from snapshotter.engine.engine import Engine
from snapshotter.reading import request_lane
from snapshotter.reading.chunk_reader import ReadJob
from snapshotter.reading.read_buffer import Buffer
from snapshotter.reporting.status import STATUS_FILE, Status
from streaming.namespaces import Namespace
from tests.support.tables import difference, landing_marks, rows

Documents = Collection[Any]
SECONDS = 360.0
STRATEGIES = ("insert_insert", "insert_delete", "cluster_time")


class SharedSession(SparkSession):
    """The session of all tests: an engine that believes it to be its own must not stop it."""

    def stop(self) -> None:
        """Others still use it."""


def shared(spark: SparkSession) -> SparkSession:
    """For whoever makes a session of its own."""
    return SharedSession(spark.sparkContext, spark._jsparkSession)


@dataclass(slots=True)
class Lab:
    """One engine's settings, its database and its warehouse. Start it as often as a test likes."""

    uri: str
    client: MongoClient[Any]
    database: str
    folder: Path
    spark: SparkSession
    options: dict[str, object] = field(default_factory=dict)
    tune: Callable[[EngineConfig], EngineConfig] = lambda config: config

    def with_options(self, strategy: str = "insert_insert", **options: object) -> Lab:
        """Options by their names with ``__`` for a dot; a signal collection where the strategy needs one."""
        named = {name.replace("__", "."): value for name, value in options.items()}
        if strategy != "cluster_time":
            named.setdefault("signal.data.collection", f"{self.database}.signals")
        named["incremental.snapshot.watermarking.strategy"] = strategy
        self.options = {**self.options, **named}
        return self

    def settings(self) -> dict[str, object]:
        return {
            "name": f"engine-{self.database}",
            "engine.read.files.min.documents": "0",  # the chunks of most tests are small
            "mongodb.connection.string": self.uri,
            "database.include.list": self.database,
            "delta.warehouse": str(self.folder / "warehouse"),
            "engine.trigger.interval.ms": 50,
            "engine.oplog.warning.hours": 0,
            **self.options,
        }

    def config_file(self) -> Path:
        """The settings as a file, for the command line."""
        path = self.folder / "engine.json"
        path.write_text(json.dumps(self.settings()), encoding="utf-8")
        return path

    def engine(self) -> Snapshotter:
        """An engine that has not been started."""
        made = Snapshotter(self.settings(), self.spark)
        made.engine = Engine(self.spark, self.tune(made.engine.config))
        made.engine.config = replace(made.engine.config, poll_ms=50, drain_seconds=SECONDS)
        return made

    @contextmanager
    def running(self) -> Iterator[Snapshotter]:
        """Started, and stopped cleanly at the end of the block."""
        with self.engine() as engine:
            yield engine

    # What is at the source, and what has landed

    def collection(self, name: str) -> Documents:
        return self.client[self.database].get_collection(name, write_concern=WriteConcern("majority"))

    @property
    def signals(self) -> Documents:
        return self.collection("signals")

    def signal(self, kind: str, name: str, **data: object) -> None:
        """A signal document; ``__`` in the names of ``data`` stands for a hyphen."""
        named = {field.replace("__", "-"): value for field, value in data.items()}
        self.signals.insert_one({"_id": name, "type": kind, "data": named})

    def name(self, collection: str) -> str:
        return f"{self.database}.{collection}"

    def namespace(self, collection: str) -> Namespace:
        return Namespace(self.database, collection)

    def table(self, collection: str) -> Path:
        return self.folder / "warehouse" / "state" / self.database / collection

    @property
    def state(self) -> Path:
        return self.folder / "warehouse" / "_snapshotter" / f"engine-{self.database}"

    def status(self) -> Status:
        """What the engine says of itself."""
        return Status.from_json((self.state / STATUS_FILE).read_text(encoding="utf-8"))

    def assert_equal(self, *collections: str) -> None:
        """Collections at rest equal their tables, as an independent reader sees them."""
        for name in collections:
            found = difference(self.uri, self.database, name, self.table(name))
            assert found == [], f"{name}: {len(found)} differences: {found[:5]}"

    def commits(self, collection: str) -> list[dict[str, Any]]:
        """Of each landing in a table what its commit says of itself."""
        return landing_marks(self.table(collection))

    def rows(self, collection: str) -> list[dict[str, Any]]:
        return rows(self.table(collection))

    def assert_one_commit_a_batch(self, collection: str) -> None:
        marks = [(mark["app_id"], mark["batch"]) for mark in self.commits(collection)]
        assert len(marks) == len(set(marks)), marks


def limits(chunk_docs: int, windows: int, **more: int) -> Callable[[EngineConfig], EngineConfig]:
    """Exactly so many windows of so many documents in flight, landed in small commits; READs lie in files."""
    exact = Limits(
        chunk_docs=chunk_docs,
        windows_in_flight=windows,
        windows_in_flight_max=windows,
        rows_in_flight=1,
        target_lag_seconds=None,
        **{"commit_rows_target": 1, "file_docs_min": 0, **more},
    )
    return lambda config: replace(config, limits=exact)


def task_of(engine: Snapshotter, name: str, place: int = 0) -> TaskProgress:
    """The request's task at this place, as the run has it now; it has to be known."""
    request = _progress(engine).request(name)
    assert request is not None
    return request.tasks[place]


@dataclass(slots=True)
class Gate:
    """Holds up the chunk read that ``holds`` picks, once, until ``go``; ``ready`` says that it is there."""

    holds: Callable[[int, ReadJob], bool]
    ready: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)

    def __call__(self, number: int, job: ReadJob) -> None:
        if not self.ready.is_set() and self.holds(number, job):
            self.ready.set()
            assert self.go.wait(SECONDS)

    def stop_here(self, engine: Snapshotter) -> None:
        """Stop the engine cleanly: what is held up is the last that it reads."""
        assert self.ready.wait(SECONDS)
        run = engine.engine.run_state
        assert run is not None
        engine.engine.stop()
        engine.until("the engine to drain", lambda: run.machine.scheduler.draining, SECONDS)
        self.go.set()
        engine.stop()


def quiet_rereads(engine: Snapshotter) -> None:
    """Until every id that the stream could not give has been read again."""
    engine.until("the single ids to be read", lambda: not _progress(engine).rereads, SECONDS)


def _progress(engine: Snapshotter) -> Progress:
    run = engine.engine.run_state
    assert run is not None
    return run.progress


@dataclass(slots=True)
class Reads:
    """Chunk reads as they happen: ``before`` and ``after`` run around each, with its number from 0."""

    before: Callable[[int, ReadJob], None] = lambda number, job: None
    after: Callable[[int, ReadJob, Buffer], None] = lambda number, job, buffer: None
    jobs: list[ReadJob] = field(default_factory=list)

    def targets(self) -> list[Any]:
        return [part.target for job in self.jobs for part in job.ranges]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    """Watches all chunk reads of engines in this process."""
    watch = Reads()
    real = request_lane.read

    def read(spark: SparkSession, job: ReadJob) -> Buffer:
        number = len(watch.jobs)
        watch.jobs.append(job)
        watch.before(number, job)
        buffer = real(spark, job)
        watch.after(number, job, buffer)
        return buffer

    monkeypatch.setattr(request_lane, "read", read)
    return watch


@pytest.fixture
def lab(
    mongo_uri: str, mongo_client: MongoClient[Any], database: str, tmp_path: Path, spark: SparkSession
) -> Lab:
    return Lab(mongo_uri, mongo_client, database, tmp_path, spark)

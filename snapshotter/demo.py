"""``snapshotter demo``: the product's main job from nothing, on real parts.

It starts a MongoDB, loads a shop, lets writers change it without a pause, starts the engine, and inserts an
``execute-snapshot`` document as an operator would. Windows open and close while the writes go on. When the backfill is
done the writers stop, the stream catches up, and ``verify`` compares every document with its row.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TypeVar

from bson import ObjectId
from pymongo import MongoClient

from snapshotter import assembly
from snapshotter.core.progress import RequestProgress
from snapshotter.demo_shop import COLLECTION, DATABASE, Writer, load
from snapshotter.engine import Engine
from snapshotter.errors import EXIT_DIFFERENT, EXIT_OK, DefiniteError
from snapshotter.progress_view import View
from snapshotter.settings import Settings
from snapshotter.testing.mongodb import start_mongodb
from snapshotter.verify import verify_collection
from streaming.mongo import majority_time
from streaming.namespaces import Namespace
from streaming.positions import ORIGIN, ClusterTime
from streaming.table_paths import state_path, under

T = TypeVar("T")
_ORDERS = Namespace(DATABASE, COLLECTION)
_SIGNALS = "shop.signals"
_PATIENCE_SECONDS = 1_800


@dataclass(frozen=True, slots=True)
class Summary:
    """What the demo did. Seconds are of the backfill: from the signal to the last row visible in Delta."""

    documents: int
    rows: int
    dropped: int
    chunks: int
    seconds: float
    changes: int
    lag_max_seconds: float
    equal: bool

    def lines(self) -> list[str]:
        speed = (self.rows + self.dropped) / self.seconds if self.seconds else 0.0
        return [
            f"backfilled   {self.rows + self.dropped:,} documents in {self.chunks} windows, {self.seconds:.1f} s: "
            f"{speed:,.0f} documents/s",
            f"READs        {self.rows:,} landed, {self.dropped:,} dropped because a streamed change was newer",
            f"meanwhile    {self.changes:,} changes were written; the stream was at most "
            f"{self.lag_max_seconds:.0f} s behind while the backfill ran",
            f"verify       collection and table are {'equal' if self.equal else 'DIFFERENT'} ({self.documents:,} documents)",
        ]


def run_demo(documents: int, view: View, *, rate: int = 500, keep: bool = False) -> int:
    """Run it; returns 0 if collection and table are equal in the end, else 1. ``rate``: changes a second."""
    folder = Path(mkdtemp(prefix="snapshotter-demo-"))
    try:
        with start_mongodb() as mongodb:
            summary = _demo(mongodb.uri, documents, rate, folder, view)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    for line in summary.lines():
        view.message(line)
    return EXIT_OK if summary.equal else EXIT_DIFFERENT


def settings_for(uri: str, folder: Path) -> Settings:
    """What a Debezium user would write, and a warehouse."""
    return Settings.from_options(
        {
            "name": "demo",
            "mongodb.connection.string": uri,
            "collection.include.list": str(_ORDERS).replace(".", r"\."),
            "signal.data.collection": _SIGNALS,
            "snapshot.mode": "no_data",
            "delta.warehouse": str(folder / "warehouse"),
            "spark.driver.memory": "3g",
        },
        environ={},
    )


def _demo(uri: str, documents: int, rate: int, folder: Path, view: View) -> Summary:
    view.message(f"loading {documents:,} orders into {_ORDERS} at {uri}")
    for _ in load(uri, documents):
        pass
    settings = settings_for(uri, folder)
    spark = assembly.spark_session(settings)
    try:
        engine = assembly.assemble(settings, spark, view)
        running = _Running(engine)
        writer = Writer(uri, documents, rate)
        view.message(f"writers start: inserts, updates, replaces, deletes, about {rate} changes a second")
        writer.start()
        try:
            running.wait_for("its first batch", lambda: engine.run_state is not None and engine.run_state.started)
            started = time.monotonic()
            signal = _send_signal(uri, view)
            request = running.wait_for("the end of the backfill", lambda: running.ended(signal))
            seconds = time.monotonic() - started
        finally:
            changes = writer.stop()
        view.message("writers stop; the stream catches up")
        head = running.head()
        running.wait_for("the stream to catch up", lambda: running.position() >= head)
        running.stop()
        view.message("verify: every document of the collection against its row in the table")
        path = under(settings.warehouse(), state_path(_ORDERS))
        result = verify_collection(spark, uri, _ORDERS, path)
        if not result.equal:
            view.message(str(result))
        task = request.tasks[0]
        return Summary(
            documents=result.documents,
            rows=task.rows,
            dropped=task.dropped,
            chunks=task.chunks,
            seconds=seconds,
            changes=changes,
            lag_max_seconds=running.lag_max,
            equal=result.equal,
        )
    finally:
        spark.stop()


class _Running:
    """The engine on a thread, and what the demo waits for."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.error: BaseException | None = None
        self.lag_max = 0.0
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.engine.run()
        except BaseException as error:
            self.error = error  # raised by whoever waits

    def wait_for(self, what: str, ready: Callable[[], T | None]) -> T:
        """Poll until ``ready`` gives something true. Raises what ended the engine, or a DefiniteError in the end."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if self.error is not None:
                raise self.error
            found = ready()
            if found:
                return found
            self._note_lag()
            time.sleep(0.05)
        raise DefiniteError(f"the demo waited {_PATIENCE_SECONDS} s for {what} in vain")

    def ended(self, request_id: str) -> RequestProgress | None:
        run = self.engine.run_state
        refused = dict(self.engine.refused).get(request_id)
        if refused is not None:
            raise DefiniteError(refused)
        request = run.progress.request(request_id) if run is not None else None
        return request if request is not None and request.ended else None

    def head(self) -> ClusterTime:
        return majority_time(self.engine.client)

    def position(self) -> ClusterTime:
        return self.engine.run_state.progress.position if self.engine.run_state is not None else ORIGIN

    def stop(self) -> None:
        self.engine.stop()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _note_lag(self) -> None:
        run = self.engine.run_state
        if run is not None and run.started and run.known_head > ORIGIN:
            self.lag_max = max(self.lag_max, run.known_head.t - run.progress.position.t)


def _send_signal(uri: str, view: View) -> str:
    document = {
        "_id": str(ObjectId()),
        "type": "execute-snapshot",
        "data": {"data-collections": [str(_ORDERS)], "type": "incremental"},
    }
    view.message(f"an operator inserts into {_SIGNALS}: {json.dumps(document)}")
    database, _, collection = _SIGNALS.partition(".")
    with MongoClient(uri) as client:
        client[database][collection].insert_one(document)
    return document["_id"]

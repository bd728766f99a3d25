"""``snapshotter demo``: the product's main job from nothing, on real parts.

It starts a MongoDB, loads a shop, lets writers change it without a pause, starts the engine, and inserts an
``execute-snapshot`` document as an operator would. Windows open and close while the writes go on. When the backfill is
done the writers stop, the stream catches up, and ``verify`` compares every document with its row. The engine's page is
open meanwhile, and what it showed is kept in a file that replays it.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp, mkstemp
from types import TracebackType
from typing import Self

from bson import ObjectId
from pymongo import MongoClient
from pyspark.sql import SparkSession

from snapshotter.api import Snapshotter
from snapshotter.configuration.engine_config import LAYOUT
from snapshotter.configuration.settings import Settings
from snapshotter.demo.shop import COLLECTION, DATABASE, Writer, load
from snapshotter.demo.summary import Pace, Summary
from snapshotter.engine import assembly
from snapshotter.page.history import History
from snapshotter.page.standalone import standalone
from snapshotter.reporting.status import Status
from snapshotter.reporting.views import View
from snapshotter.reporting.window_log import LandedWindow
from snapshotter.testing.mongodb import start_mongodb
from snapshotter.testing.processes import free_port
from snapshotter.verification.verify import verify_collection
from streaming.delta.table_paths import state_path, under
from streaming.namespaces import Namespace

_ORDERS = Namespace(DATABASE, COLLECTION)
_SIGNALS = "shop.signals"
_LOOK_SECONDS = 0.5


def run_demo(
    documents: int, view: View, *, rate: int = 500, keep: bool = False, spark: SparkSession | None = None
) -> Summary:
    """Run it with this many ``documents``; what it did. ``view``, which the caller has opened, shows progress.
    ``rate``: changes a second. ``keep``: leave the warehouse in its temporary folder. ``spark``: a session to run on,
    which is left as it is; None starts one, and stops it."""
    folder = Path(mkdtemp(prefix="snapshotter-demo-"))
    try:
        with start_mongodb() as mongodb:
            return _demo(mongodb.uri, documents, rate, folder, view, spark)
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def settings_for(uri: str, folder: Path) -> Settings:
    """What a Debezium user would write, a warehouse, and a page."""
    return Settings.from_options(
        {
            "name": "demo",
            "mongodb.connection.string": uri,
            "collection.include.list": str(_ORDERS).replace(".", r"\."),
            "signal.data.collection": _SIGNALS,
            "snapshot.mode": "no_data",
            "delta.warehouse": str(folder / "warehouse"),
            "engine.http.port": free_port(),
            "spark.driver.memory": "3g",
            "spark.sql.warehouse.dir": str(
                folder / "spark-warehouse"
            ),  # else Spark makes one where it was called
        },
        environ={},
    )


def _demo(
    uri: str, documents: int, rate: int, folder: Path, view: View, given: SparkSession | None
) -> Summary:
    view.message(f"loading {documents:,} orders into {_ORDERS} at {uri}")
    for _ in load(uri, documents):
        pass
    settings, recorded = settings_for(uri, folder), _Recorded(view)
    view.doing("starting Spark")
    spark = given or assembly.spark_session(settings, brief=True)
    try:
        engine = Snapshotter(settings, spark, recorded)
        writer = Writer(uri, documents, rate)
        view.message(f"writers start: inserts, updates, replaces, deletes, about {rate} changes a second")
        writer.start()
        watch = _Watch(engine, view, documents)
        try:
            engine.start()
            started, sent = time.monotonic(), datetime.now(UTC)
            request = engine.wait(_send_signal(uri, view))
            seconds = time.monotonic() - started
        finally:
            changes = writer.stop()
            lag_max = watch.stop()
        view.message("writers stop; the stream catches up")
        engine.catch_up()
        engine.stop()
        view.message("verify: every document of the collection against its row in the table")
        table = under(settings.warehouse(), state_path(_ORDERS))
        result = verify_collection(spark, uri, _ORDERS, table, LAYOUT)
        if not result.equal:
            view.message(str(result))
        task, windows = request.tasks[0], engine.windows(request.id)
        counts = result.documents, task.rows, task.superseded, task.chunks, seconds, changes, lag_max
        return Summary(*counts, result.equal, Pace.of(sent, windows), _replay(recorded.history, windows))
    finally:
        if given is None:
            spark.stop()


def _replay(history: History, windows: list[LandedWindow]) -> Path:
    """The file that shows what the page showed, where it outlives the demo."""
    handle, path = mkstemp(prefix="snapshotter-demo-", suffix=".html")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(standalone(history.recording(windows)))
    return Path(path)


@dataclass(slots=True)
class _Recorded:
    """A ``view`` whose statuses are kept."""

    view: View
    history: History = field(default_factory=History)

    def update(self, status: Status) -> None:
        self.history.note(status)
        self.view.update(status)

    def doing(self, what: str | None) -> None:
        self.view.doing(what)

    def message(self, text: str) -> None:
        self.view.message(text)

    def announce(self, text: str) -> None:
        self.view.announce(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The view is whoever's that opened it."""


class _Watch:
    """Tells of windows as they land, and looks for the greatest lag of the stream: twice a second."""

    def __init__(self, engine: Snapshotter, view: View, documents: int) -> None:
        self._engine, self._view, self._documents = engine, view, documents
        self._stop = threading.Event()
        self._max = self._told = self._read = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            self._look()
        self._look()

    def _look(self) -> None:
        self._max = max(self._max, self._engine.lag_seconds())
        landed = self._engine.windows()
        if new := landed[self._told :]:
            self._told = len(landed)
            self._read += sum(window.rows + window.dropped for window in new)
            self._view.message(told(new, self._read, self._documents))

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return self._max


def told(windows: list[LandedWindow], read: int, documents: int) -> str:
    """One line about ``windows`` that have just landed, with what has been ``read`` up to them, of all ``documents``;
    writers delete and insert meanwhile."""
    numbers = sorted(window.number for window in windows)
    which = f"window {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} windows, up to {numbers[-1]},"
    rows, dropped = sum(w.rows for w in windows), sum(w.dropped for w in windows)
    share = min(100, 100 * read // documents)
    return f"{which} landed: {rows:,} rows, {dropped:,} READs superseded; {share} % read"


def _send_signal(uri: str, view: View) -> str:
    signal_id = str(ObjectId())
    document: dict[str, object] = {
        "_id": signal_id,
        "type": "execute-snapshot",
        "data": {"data-collections": [str(_ORDERS)], "type": "incremental"},
    }
    view.message(f"an operator inserts into {_SIGNALS}: {json.dumps(document)}")
    database, _, collection = _SIGNALS.partition(".")
    with MongoClient[dict[str, object]](uri) as client:
        client[database][collection].insert_one(document)
    return signal_id

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
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from bson import ObjectId
from pymongo import MongoClient
from pyspark.sql import SparkSession

from snapshotter.api import Snapshotter
from snapshotter.configuration.engine_config import LAYOUT
from snapshotter.configuration.settings import Settings
from snapshotter.demo.shop import COLLECTION, DATABASE, Writer, load
from snapshotter.engine import assembly
from snapshotter.errors import EXIT_DIFFERENT, EXIT_OK
from snapshotter.reporting.views import View
from snapshotter.testing.mongodb import start_mongodb
from snapshotter.verification.verify import verify_collection
from streaming.delta.table_paths import state_path, under
from streaming.namespaces import Namespace

_ORDERS = Namespace(DATABASE, COLLECTION)
_SIGNALS = "shop.signals"


@dataclass(frozen=True, slots=True)
class Summary:
    """What the demo did. Seconds are of the backfill: from the signal to the last row visible in Delta."""

    documents: int
    rows: int
    superseded: int
    chunks: int
    seconds: float
    changes: int
    lag_max_seconds: float
    equal: bool

    def lines(self) -> list[str]:
        outcome = "equal" if self.equal else "DIFFERENT"
        read = self.rows + self.superseded
        speed = read / self.seconds if self.seconds else 0.0
        lag = f"{self.lag_max_seconds:.0f} s"
        return [
            f"backfilled   {read:,} documents, {self.chunks} windows, {self.seconds:.1f} s: {speed:,.0f}/s",
            f"READs        {self.rows:,} landed, {self.superseded:,} superseded by streamed changes",
            f"meanwhile    {self.changes:,} changes were written; lag of the stream at most {lag}",
            f"verify       {self.documents:,} documents: collection and table are {outcome}",
        ]


def run_demo(
    documents: int, view: View, *, rate: int = 500, keep: bool = False, spark: SparkSession | None = None
) -> int:
    """Run it with this many ``documents``; returns 0 if collection and table are equal in the end, else 1. ``view``,
    which the caller has opened, shows progress and summary. ``rate``: changes a second. ``keep``: leave the warehouse
    in its temporary folder. ``spark``: a session to run on, which is left as it is; None starts one, and stops it."""
    folder = Path(mkdtemp(prefix="snapshotter-demo-"))
    try:
        with start_mongodb() as mongodb:
            summary = _demo(mongodb.uri, documents, rate, folder, view, spark)
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
    settings = settings_for(uri, folder)
    view.doing("starting Spark")
    spark = given or assembly.spark_session(settings)
    try:
        engine = Snapshotter(settings, spark, view)
        writer = Writer(uri, documents, rate)
        view.message(f"writers start: inserts, updates, replaces, deletes, about {rate} changes a second")
        writer.start()
        lag = _Lag(engine)
        try:
            engine.start()
            started = time.monotonic()
            request = engine.wait(_send_signal(uri, view))
            seconds = time.monotonic() - started
        finally:
            changes = writer.stop()
            lag_max = lag.stop()
        view.message("writers stop; the stream catches up")
        engine.catch_up()
        engine.stop()
        view.message("verify: every document of the collection against its row in the table")
        table = under(settings.warehouse(), state_path(_ORDERS))
        result = verify_collection(spark, uri, _ORDERS, table, LAYOUT)
        if not result.equal:
            view.message(str(result))
        task = request.tasks[0]
        return Summary(
            result.documents, task.rows, task.superseded, task.chunks, seconds, changes, lag_max, result.equal
        )
    finally:
        if given is None:
            spark.stop()


class _Lag:
    """The greatest lag of the stream, looked at twice a second."""

    def __init__(self, engine: Snapshotter) -> None:
        self._engine = engine
        self._stop = threading.Event()
        self._max = 0
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            self._max = max(self._max, self._engine.lag_seconds())

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return self._max


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

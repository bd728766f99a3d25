"""What tables need before anything lands in them, done while the change stream brings its first batch.

To make a table takes Spark seconds when it does so for the first time, and so does the look into the folder of one that
is there, for files that an earlier run has left (`Tables.folder`). Whoever reads the first chunk, or lands the first
batch, would wait for that after having waited for the stream. So it is begun before, for the first few tables. What
goes wrong is left to whoever needs the table: it comes to the same, and knows what follows from it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS

from snapshotter.core.values.progress import Progress
from snapshotter.engine.run_context import RunContext
from streaming.error_text import said_by
from streaming.namespaces import Namespace

_log = structlog.get_logger("snapshotter.initial")


@contextmanager
def made_ahead(context: RunContext) -> Iterator[None]:
    """Within, the tables of the collections that this run reads first are made, and the folders of those that there
    are looked into, by a thread that ends with what is within, or with the table that it is at then. One of a
    collection without documents is left to its first row."""
    progress = context.store.newest() or Progress()
    first = context.first_load.first(progress, context.store.generation)
    landed = context.first_load.landed(progress)
    over = threading.Event()

    def make(namespace: Namespace) -> None:
        database = context.client[namespace.database]
        read = database.get_collection(namespace.collection, DEFAULT_RAW_BSON_OPTIONS)
        if read.find_one({}, {"_id": 1}) is not None:
            context.tables.plan(namespace)

    def work() -> None:
        for do, namespace in (*((make, n) for n in first), *((context.tables.folder, n) for n in landed)):
            if over.is_set():
                return
            try:
                do(namespace)
            except Exception as error:  # noqa: BLE001 - whoever needs the table meets it again
                _log.info("a table is not prepared ahead", collection=str(namespace), why=said_by(error))

    thread = threading.Thread(target=work, name="tables-ahead", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

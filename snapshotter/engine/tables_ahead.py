"""Tables of a first load, made while the change stream brings its first batch.

To make a table takes Spark seconds when it does so for the first time, and whoever reads the first chunk would wait for
that after having waited for the stream. So it is begun before, for the first collections that a first start reads.
What goes wrong is left to the chunk that needs the table: it comes to the same, and knows what follows from it.
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

_log = structlog.get_logger("snapshotter.initial")


@contextmanager
def made_ahead(context: RunContext) -> Iterator[None]:
    """Within, the tables of the collections that this run reads first are made, by a thread that ends with what is
    within, or with the table that it is making then. One of a collection without documents is left to its first row."""
    names = context.first_load.first(context.store.newest() or Progress(), context.store.generation)
    over = threading.Event()

    def make() -> None:
        for namespace in names:
            try:
                if over.is_set():
                    return
                database = context.client[namespace.database]
                read = database.get_collection(namespace.collection, DEFAULT_RAW_BSON_OPTIONS)
                if read.find_one({}, {"_id": 1}) is not None:
                    context.tables.plan(namespace)
            except Exception as error:  # noqa: BLE001 - the first chunk meets it again
                _log.info("a table is not made ahead", collection=str(namespace), why=said_by(error))

    thread = threading.Thread(target=make, name="tables-ahead", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

"""Tables that a run needs first, made or looked into while the change stream is opened and brings its first batch.

To make a table takes Spark seconds when it does so for the first time, and so does its first look at the files of one
that is there. Whoever reads the first chunk, or lands the first batch, would wait for that after having waited for the
stream. So it is begun before: for the first collections that a first start reads, and at later starts for the tables
that were committed to most often. What goes wrong is left to whoever needs the table: it comes to the same, and knows
what follows from it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog
from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS

from snapshotter.core.values.progress import Progress
from snapshotter.engine.first_load import AHEAD
from snapshotter.engine.run_context import RunContext
from streaming.error_text import said_by
from streaming.namespaces import Namespace

_log = structlog.get_logger("snapshotter.initial")


@contextmanager
def made_ahead(context: RunContext) -> Iterator[None]:
    """Within, the tables of the collections that this run reads first are made, and the busiest of those that are there
    are looked into, by a thread that ends with what is within, or with the table that it is at then. That of a
    collection without documents is left to its first row."""
    progress = context.store.newest() or Progress()
    make = context.first_load.first(progress, context.store.generation)
    look = busiest(progress, context.config.captures_data)
    over = threading.Event()

    def work() -> None:
        for namespace, step in (*((n, _made) for n in make), *((n, _looked_into) for n in look)):
            if over.is_set():
                return
            try:
                step(context, namespace)
            except Exception as error:  # noqa: BLE001 - whoever needs it meets that again
                _log.info("a table is not there ahead", collection=str(namespace), why=said_by(error))

    thread = threading.Thread(target=work, name="tables-ahead", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def busiest(progress: Progress, captures: Callable[[Namespace], bool]) -> list[Namespace]:
    """The first tables of ``progress`` by how often somebody has committed to them; of captured collections."""
    names = [name for name in progress.tables if captures(name)]
    return sorted(names, key=lambda name: (-progress.tables[name].version, name))[:AHEAD]


def _made(context: RunContext, namespace: Namespace) -> None:
    database = context.client[namespace.database]
    read = database.get_collection(namespace.collection, DEFAULT_RAW_BSON_OPTIONS)
    if read.find_one({}, {"_id": 1}) is not None:
        context.tables.plan(namespace)


def _looked_into(context: RunContext, namespace: Namespace) -> None:
    """As the first batch would: what a killed run has left in its folder is looked for among the table's files."""
    context.tables.folder(namespace)

"""Python processes that Spark starts to plan a data source of Python's, and then keeps as long as it lives.

It asks Python which data sources there are, makes ours, and has it planned, each in a process forked from a nearly
empty daemon of its own, which imports all anew: six processes and 280 MB, which have nothing to do once the first batch
is there. Spark has no setting that ends them before an idle minute is over, and none that ends the daemons. It starts
one again where it needs one. What runs a stream's source stays.

A stream's start waits for them, one after the other. So an engine has them started by a source of nothing, while its
executors are asked whether they run the same code: eight tenths of a second of a cold start.

Another engine, or somebody's notebook, may plan with the same JVM just now: only those that are idle are ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import structlog

from streaming.error_text import said_by
from streaming.jvm import packages
from streaming.source.registration import plan_ahead

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = structlog.get_logger("snapshotter.run")
PLANNERS = frozenset(
    f"pyspark.sql.worker.{name}"
    for name in ("lookup_data_sources", "create_data_source", "plan_data_source_read")
)
_START_SECONDS = 10.0
_at_start: WeakSet[threading.Thread] = WeakSet()
"""Threads that have Spark start some, for as long as they live."""
_FACTORIES, _MODULE, _IDLE, _ALL = "pythonWorkers", "workerModule", "idleWorkers", "daemonWorkers"


def start_planners(session: SparkSession) -> None:
    """Have a thread start those that a stream of this ``session`` will ask for, while whoever calls goes on. What goes
    wrong is left to the stream, which starts what is not there."""

    def work() -> None:
        try:
            plan_ahead(session)
        except Exception as error:  # noqa: BLE001 - such as a session that is stopped meanwhile
            _log.info("Spark's planners are not there ahead", why=said_by(error))

    thread = threading.Thread(target=work, name="planners-ahead", daemon=True)
    thread.start()
    _at_start.add(thread)


def end_planners(session: SparkSession) -> None:
    """End those that Spark's driver has by now, or is about to have, and that plan nothing. Never raises: it is about
    memory alone."""
    try:
        for thread in tuple(_at_start):
            thread.join(_START_SECONDS)
        _end_planners(session)
    except Exception as error:  # noqa: BLE001 - a Spark that keeps them elsewhere, or none any more
        _log.info("Spark's planners are left as they are", why=said_by(error))


def _end_planners(session: SparkSession) -> None:
    env = packages(session).org.apache.spark.SparkEnv.get()
    for factory in _items(_field(env, _FACTORIES).values()):
        if _field(factory, _MODULE) in PLANNERS and not _plans(factory):
            factory.stop()


def _plans(factory: Any) -> bool:
    """Whether one of its workers is at work: it lives, and is not idle. Those that have ended are listed, too, until
    Java collects them."""
    handles, idle = _field(factory, _ALL), _items(_field(factory, _IDLE))
    living = sum(handle.isAlive() for handle in _items(handles.values()))
    return bool(
        living > sum(handles.get(worker).get().isAlive() for worker in idle if handles.contains(worker))
    )


def _items(collection: Any) -> Iterator[Any]:
    """Of one of Scala's collections."""
    items = collection.iterator()
    while items.hasNext():
        yield items.next()


def _field(of: Any, name: str) -> Any:
    """Spark's own, which has no way in."""
    field = of.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(of)

"""The deployment's clock: where its history stands now, and keeping it moving while nobody else writes.

A MongoDB that nobody writes to moves its clock every ten seconds. Whoever waits for the clock to pass a
position (the mongo-spark-connector does, at the end of every batch) would be charged up to ten seconds that
it never spends in a deployment in use. So streaming is measured, for everyone alike, with a small write ten
times a second elsewhere.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bson import Timestamp
from pymongo import MongoClient
from pymongo.errors import PyMongoError

TICK_S = 0.1
DATABASE = "bench_clock"


def next_position(uri: str) -> Timestamp:
    """The earliest cluster time that any later write can have: a change stream started there sees all of
    them, and nothing of what was written before."""
    with MongoClient[dict[str, object]](uri) as client:
        now: Timestamp = client.admin.command("ping")["operationTime"]
    return Timestamp(now.time, now.inc + 1)


@contextmanager
def ticking(uri: str) -> Iterator[None]:
    """Write to one document of `bench_clock`, a database of its own, until the block ends. A failure to is
    raised at its end."""
    stop = threading.Event()
    failures: list[PyMongoError] = []

    def tick() -> None:
        try:
            with MongoClient[dict[str, object]](uri) as client:
                while not stop.wait(TICK_S):
                    client[DATABASE].ticks.update_one({"_id": 1}, {"$inc": {"ticks": 1}}, upsert=True)
        except PyMongoError as error:
            failures.append(error)

    thread = threading.Thread(target=tick, name="clock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise RuntimeError("the clock stopped while a figure was taken") from failures[0]

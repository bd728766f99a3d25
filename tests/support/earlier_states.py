"""State folders and tables that earlier versions have left: kept as test data, and opened by what is written now.

`tests/data/states/<version>/<moment>.tar.gz` holds a warehouse as an engine of that version left it, small enough to be
kept. ``idle``: an initial load that has ended, changes that have landed, a request that has ended, one that was stopped
and one that is paused; ended by SIGTERM. ``middle``: killed in the middle of the initial load, its frontier inside the
larger collection, behind changes on both of its sides.

Whoever changes what is durable keeps a pair of the version before, and `test_earlier_states` opens it from then on::

    python -m tests.support.earlier_states VERSION      # in a checkout of that version, with nothing changed in it

Positions are cluster times of a MongoDB that is gone. `open_state` fills another one with the same documents, and puts
every saved position at its present: all that was written before had landed, so a batch that is replayed is empty. What
is kept of the MongoDB that is gone, so that another one is noticed, is made that of this one.
Nothing else is changed, but that an engine that was killed on a machine that is gone no longer holds its lock. No path
is stored in any of it, so a warehouse may lie anywhere.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pymongo import MongoClient, WriteConcern
from pymongo.collection import Collection

from snapshotter.testing.mongodb import start_mongodb
from streaming.mongo.deployment import deployment_id, majority_time, newest_time
from streaming.positions import ClusterTime
from tests.support.engine_process import EngineProcess

DATA = Path(__file__).parents[1] / "data" / "states"
DATABASE, NAME = "earlier_states", "earlier"
ORDERS, PEOPLE = "orders", "people"
COLLECTIONS = (ORDERS, PEOPLE)
MOMENTS = ("idle", "middle")
PAUSED = "paused-one"
_ORDERS, _PEOPLE = 300, 40
_CHUNK = (
    2  # 64 windows are in flight at most, and land before a pause takes effect: less than half of the orders
)
_LEFT_OUT = (".crc", ".tmp")


def options(uri: str) -> dict[str, str]:
    """Of the engine that left the states; whoever opens one says where it lies (``delta.warehouse``)."""
    return {
        "name": NAME,
        "mongodb.connection.string": uri,
        "database.include.list": DATABASE,
        "signal.data.collection": f"{DATABASE}.signals",
        "notification.enabled.channels": "log,delta",
        "provide.transaction.metadata": "true",
        "incremental.snapshot.chunk.size": str(_CHUNK),
        "engine.commit.target.rows": str(10 * _CHUNK),
    }


def _collection(client: MongoClient[Any], name: str) -> Collection[Any]:
    return client[DATABASE].get_collection(name, write_concern=WriteConcern("majority"))


def fill(client: MongoClient[Any]) -> None:
    """The documents that the engines began with: numbers and texts as ids, a field of two types, nested ones."""
    orders = [
        {
            "_id": n,
            "total": n if n % 7 else f"{n}?",
            "to": {"city": "Malmö", "zip": n},
            "tags": ["a", n, None],
        }
        for n in range(_ORDERS)
    ]
    _collection(client, ORDERS).insert_many(orders)
    people = [{"_id": f"p-{n:03d}", "name": f"Ana {n}", "age": n} for n in range(_PEOPLE)]
    _collection(client, PEOPLE).insert_many(people)


def change(client: MongoClient[Any]) -> None:
    """What the engines saw streaming: at the first ids, at the last ones and in between, and a transaction."""
    orders, people = _collection(client, ORDERS), _collection(client, PEOPLE)
    for n in (1, 100, 290):
        orders.update_one({"_id": n}, {"$set": {"total": -n, "note": "changed"}})
        orders.delete_one({"_id": n + 1})
        orders.replace_one({"_id": n + 2}, {"total": 0.5})
    orders.insert_one({"_id": -1, "total": 1})
    orders.insert_one({"_id": _ORDERS, "total": 2, "seen": {"at": None}})
    with client.start_session() as session, session.start_transaction(write_concern=WriteConcern("majority")):
        orders.update_one({"_id": 50}, {"$set": {"total": 7}}, session=session)
        people.update_one({"_id": "p-005"}, {"$set": {"age": 7}}, session=session)


def open_state(version: str, moment: str, client: MongoClient[Any], folder: Path) -> Path:
    """The warehouse that such an engine left, unpacked into ``folder``, and a MongoDB as it would find it: its
    documents are there, and its position is the present. The database must be empty. Returns the warehouse."""
    fill(client)
    change(client)
    with tarfile.open(DATA / version / f"{moment}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    warehouse = folder / "warehouse"
    state = warehouse / "_snapshotter" / NAME
    for path in _files(warehouse):
        os.utime(path)  # as if it had been written just now: Delta's log is kept for days from then on
    for path in _files(state / "lock"):
        _rewrite(path, lambda holding: {**holding, "released": True})
    known = {**deployment_id(client), "passed": str(newest_time(client).to_int())}
    for path in filter(Path.is_file, [state / "source.json"]):
        _rewrite(path, lambda source: {**source, **known})
    now = majority_time(client).to_json()
    for folder in ("checkpoint/offsets", "progress"):
        for path in _files(state / folder):
            _rewrite(path, lambda value: _at(value, now))
    return warehouse


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _rewrite(path: Path, change: Callable[[Any], Any]) -> None:
    """Change the JSON in a file, line by line; lines that are none stay (Spark begins some files with ``v1``)."""
    lines = [
        json.dumps(change(json.loads(li))) if li[:1] == "{" else li for li in path.read_text().split("\n")
    ]
    path.write_text("\n".join(lines))


def _at(value: Any, now: dict[str, int]) -> Any:
    """The value with every cluster time in it, ``{"t": ..., "i": ...}``, at this one."""
    if isinstance(value, list):
        return [_at(each, now) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: _at(each, now) for name, each in value.items()}
    return {**found, **now} if now.keys() <= found.keys() else found


def _streamed(engine: EngineProcess, client: MongoClient[Any]) -> None:
    """Until what has been written so far has landed, and is saved."""
    now = majority_time(client)

    def there() -> bool:
        progress = engine.progress()
        return progress is not None and ClusterTime.from_json(progress["position"]) >= now

    engine.until("the changes to land", there)


def _chunks(engine: EngineProcess, request: str) -> int:
    progress = engine.progress() or {"requests": []}
    return sum(t["chunks"] for r in progress["requests"] if r["id"] == request for t in r["tasks"])


def _signal(client: MongoClient[Any], kind: str, name: str, **data: object) -> None:
    _collection(client, "signals").insert_one({"_id": name, "type": kind, "data": data})


def leave_idle(engine: EngineProcess, client: MongoClient[Any]) -> None:
    """An engine's whole life up to a clean end."""
    orders, people = ([f"{DATABASE}.{name}"] for name in COLLECTIONS)
    engine.start()
    engine.until("the load", lambda: (r := engine.request("initial")) and r.state.ended)
    change(client)
    _streamed(engine, client)
    _signal(client, "execute-snapshot", "done-one", **{"data-collections": people})
    engine.until("its end", lambda: (r := engine.request("done-one")) and r.state.ended)
    for name, kind in (("stopped-one", "stop"), (PAUSED, "pause")):
        _signal(client, "execute-snapshot", name, **{"data-collections": orders})
        engine.until("its chunks", lambda n=name: _chunks(engine, n) > 3)  # type: ignore[misc]
        _signal(client, f"{kind}-snapshot", f"{kind}-it", requests=[name])
        engine.until(
            kind,
            lambda n=name: (r := engine.request(n)) and r.state.value in ("stopped", "paused"),  # type: ignore[misc]
        )
    assert 3 < _chunks(engine, PAUSED) < _ORDERS // _CHUNK, "the pause came too late"
    assert engine.terminate() == 0


def leave_in_the_middle(engine: EngineProcess, client: MongoClient[Any]) -> None:
    """An engine that is killed in its first load, behind the changes."""
    engine.start()
    engine.until("chunks", lambda: _chunks(engine, "initial") > 8)
    change(client)
    _streamed(engine, client)
    engine.kill(alone=False)
    print(f"killed after {_chunks(engine, 'initial')} chunks of {(_ORDERS + _PEOPLE) // _CHUNK}")


def main(version: str, *moments: str) -> None:
    """Make these states, or all, with this code, and keep them under the version's name."""
    for moment, leave in zip(MOMENTS, (leave_idle, leave_in_the_middle), strict=True):
        if moments and moment not in moments:
            continue
        with (
            start_mongodb(set_parameters={"periodicNoopIntervalSecs": 1}) as mongodb,
            mongodb.client() as client,
        ):
            fill(client)
            with tempfile.TemporaryDirectory() as folder:
                leave(EngineProcess(Path(folder), options(mongodb.uri)), client)
                packed = DATA / version / f"{moment}.tar.gz"
                packed.parent.mkdir(parents=True, exist_ok=True)
                with tarfile.open(packed, "w:gz") as tar:
                    tar.add(Path(folder) / "warehouse", "warehouse", filter=_kept)
                print(f"{packed}: {packed.stat().st_size} bytes")


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """All but checksums and drafts, and without anybody's name."""
    if entry.name.endswith(_LEFT_OUT):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main(*sys.argv[1:])

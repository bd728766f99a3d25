"""A seeded random workload: one process that keeps changing two collections until it is stopped.

Its documents are numbered (field ``k``); the number fixes the id, of one of ten types, or for the first twenty of one
of the twenty types that `tests.support.ids` lists. Each write of a document carries the next version of its number
(field ``v``, from 1), also across a delete, so that a history can be judged: a number's versions only ever grow.
A transaction writes its own number into ``tx`` of all the documents that it touches, in both collections.
"""

from __future__ import annotations

import multiprocessing
import random
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from typing import Any

import bson
from bson import Decimal128
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient, WriteConcern
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import ConnectionFailure, DuplicateKeyError, OperationFailure

from tests.support import raw_bson as b
from tests.support.ids import TWENTY_IDS

Documents = Collection[dict[str, Any]]
_START = datetime(2024, 6, 1, tzinfo=UTC)
_LOAD_BATCH = 1_000
_STATE_CHANGED = (189, 91, 10107, 11600, 11602, 13435, 13436)


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """What is written where. ``rate``: operations a second; ``documents``: those of each collection at first.
    ``settled``: the first documents show every field that later ones have, so that tables need not evolve."""

    uri: str
    database: str
    seed: int
    collections: tuple[str, str] = ("orders", "people")
    documents: int = 2_000
    rate: int = 200
    transactions: bool = True
    settled: bool = False


def id_value(k: int) -> b.Value:
    """The id of a number: no two numbers have equal ids."""
    if k < len(TWENTY_IDS):
        return TWENTY_IDS[k]
    n = k // 10
    return (
        b.int32(k),
        b.int64(2**40 + n),
        b.double(n + 0.5),
        b.decimal128(n * 100 + 25, -2),
        b.string(f"key-{n:06d}"),
        b.object_id(struct.pack(">IQ", 1_700_000_000 + n, k)),
        b.embedded(("region", b.string("eu" if n % 2 else "us")), ("n", b.int32(n))),
        b.date(1_600_000_000_000 + n * 1000),
        b.binary(n.to_bytes(16, "big"), 4),
        b.string(f"{k:024x}"),
    )[k % 10]


def key(k: int) -> RawBSONDocument:
    """``{"_id": ...}`` of a number: a filter, and what an event calls the document's key."""
    return b.raw(("_id", id_value(k)))


def document(k: int, body: dict[str, Any]) -> RawBSONDocument:
    """A whole document; written by hand, because no driver writes some of the ids."""
    fields = bson.encode(body)[4:-1]
    head = b.id_document(id_value(k))[4:-1]
    return RawBSONDocument(struct.pack("<i", len(head) + len(fields) + 5) + head + fields + b"\0")


def body(chance: random.Random, k: int, v: int, tx: int | None = None) -> dict[str, Any]:
    """Everything but the id: nested, with types that differ from document to document, and fields that come later."""
    found: dict[str, Any] = {"k": k, "v": v, "tx": tx}
    found["quantity"] = chance.choice(
        (chance.randrange(1000), chance.random() * 100, str(chance.randrange(9)))
    )
    found["price"] = Decimal128(f"{chance.randrange(100_000)}.{chance.randrange(100):02d}")
    found["at"] = _START + timedelta(milliseconds=chance.randrange(10**9))
    found["place"] = {
        "city": chance.choice(("Porto", "Gdańsk", "Malmö", None)),
        "geo": {"zip": chance.randrange(9)},
    }
    found["tags"] = [chance.choice(("a", "b", 7, None)) for _ in range(chance.randrange(4))]
    if chance.random() < 0.5:
        found["note"] = chance.choice((None, "x" * chance.randrange(60), {"by": k}))
    if chance.random() < 0.1:
        found[f"extra_{v % 7}"] = v
    return found


def every_field(chance: random.Random, k: int) -> dict[str, Any]:
    """A body with all fields that a later change may bring."""
    later = {"touched": {"times": 0}, **{f"extra_{n}": n for n in range(7)}}
    return {**body(chance, k, 1), "note": chance.choice((None, "x", {"by": k})), **later}


def load(plan: WorkloadPlan) -> None:
    """The collections as the workload finds them: ``documents`` each, inserted in no particular order."""
    chance = random.Random(plan.seed)
    whole = every_field if plan.settled else partial(body, v=1)
    with MongoClient[dict[str, Any]](plan.uri) as client:
        for name in plan.collections:
            numbers = list(range(plan.documents))
            chance.shuffle(numbers)
            for first in range(0, len(numbers), _LOAD_BATCH):
                batch = numbers[first : first + _LOAD_BATCH]
                _written(client, plan, name).insert_many([document(k, whole(chance, k)) for k in batch])


def _written(client: MongoClient[dict[str, Any]], plan: WorkloadPlan, name: str) -> Any:
    return client[plan.database].get_collection(name, write_concern=WriteConcern("majority"))


@dataclass(slots=True)
class _Numbers:
    """What one collection holds: versions of all numbers, and which of them are there."""

    versions: list[int]
    alive: list[int]
    dead: list[int] = field(default_factory=list)

    def next_version(self, k: int) -> int:
        self.versions[k] += 1
        return self.versions[k]

    def new(self) -> int:
        self.versions.append(0)
        self.alive.append(len(self.versions) - 1)
        return self.alive[-1]

    def bury(self, at: int) -> int:
        k, self.alive[at] = self.alive[at], self.alive[-1]
        self.alive.pop()
        self.dead.append(k)
        return k

    def raise_one(self, chance: random.Random) -> int:
        at = chance.randrange(len(self.dead))
        k, self.dead[at] = self.dead[at], self.dead[-1]
        self.dead.pop()
        self.alive.append(k)
        return k


class Changes:
    """Carries out one random operation after the other, here and now; elections are waited out, and each write is
    done once. Collections must hold what ``load`` put there."""

    def __init__(self, client: MongoClient[dict[str, Any]], plan: WorkloadPlan) -> None:
        self.client = client
        self.chance = random.Random(plan.seed + 1)
        self.plan = plan
        self.names = plan.collections
        self.collections: dict[str, Any] = {n: _written(client, plan, n) for n in self.names}
        self.numbers = {n: _Numbers([1] * plan.documents, list(range(plan.documents))) for n in self.names}
        self.transactions = 0

    def make(self, count: int) -> None:
        """At least so many writes."""
        while count > 0:
            count -= self.one()

    def one(self) -> int:
        """One operation, or one transaction; returns how many documents it wrote."""
        kind = self.chance.random()
        if kind < 0.1 and self.plan.transactions:
            return self._transaction()
        name = self.chance.choice(self.names)
        if kind < 0.9:
            step = self._step(name)
            _once(lambda: step(None))
            return 1
        delete, insert = self._recreate(name)
        _once(lambda: delete(None))
        _once(lambda: insert(None))
        return 2

    def _transaction(self) -> int:
        self.transactions += 1
        number = self.transactions
        steps = [self._step(self.names[n % 2], tx=number) for n in range(self.chance.randrange(2, 6))]

        def write(session: ClientSession) -> None:
            for step in steps:
                step(session)

        with self.client.start_session() as session:
            _once(lambda: session.with_transaction(write, write_concern=WriteConcern("majority")))
        return len(steps)

    def _step(self, name: str, tx: int | None = None) -> Callable[[ClientSession | None], object]:
        """A random write, decided now and carried out when called."""
        chance, numbers, to = self.chance, self.numbers[name], self.collections[name]
        kind = chance.random()
        if kind < 0.2:
            k = numbers.raise_one(chance) if numbers.dead and chance.random() < 0.5 else numbers.new()
            whole = document(k, body(chance, k, numbers.next_version(k), tx))
            return lambda session: to.insert_one(whole, session=session)
        at = chance.randrange(len(numbers.alive))
        if kind < 0.4:
            k = numbers.bury(at)
            return lambda session: to.delete_one(key(k), session=session)
        k = numbers.alive[at]
        v = numbers.next_version(k)
        if kind < 0.5:
            whole = document(k, body(chance, k, v, tx))
            return lambda session: to.replace_one(key(k), whole, session=session)
        update = self._update(v, tx)
        return lambda session: to.update_one(key(k), update, session=session)

    def _update(self, v: int, tx: int | None) -> dict[str, Any]:
        return {
            "$set": {"v": v, "tx": tx, "place.geo.zip": self.chance.choice((1, "00-950", None))},
            **self.chance.choice(
                ({"$unset": {"note": 1}}, {"$push": {"tags": v}}, {"$inc": {"touched.times": 1}})
            ),
        }

    def _recreate(self, name: str) -> list[Callable[[ClientSession | None], object]]:
        chance, numbers, to = self.chance, self.numbers[name], self.collections[name]
        k = numbers.alive[chance.randrange(len(numbers.alive))]
        whole = document(k, body(chance, k, numbers.next_version(k)))
        return [
            lambda session: to.delete_one(key(k), session=session),
            lambda session: to.insert_one(whole, session=session),
        ]


def _once(write: Callable[[], object]) -> None:
    """Write, again while there is no primary. A document that is there after all was written by the try before."""
    tried = False
    while True:
        try:
            write()
            return
        except DuplicateKeyError:
            if not tried:
                raise
            return
        except ConnectionFailure:
            tried = True
        except OperationFailure as error:
            if error.code not in _STATE_CHANGED:
                raise
            tried = True


def _write(plan: WorkloadPlan, stop: Event, written: Synchronized[int]) -> None:
    with MongoClient[dict[str, Any]](plan.uri) as client:
        writer = Changes(client, plan)
        due = time.monotonic()
        while not stop.is_set():
            count = writer.one()
            written.value += count
            due = max(due + count / plan.rate, time.monotonic() - 1.0)
            stop.wait(max(0.0, due - time.monotonic()))


class Workload:
    """The process: ``with Workload(plan) as writes: ...``; ``load`` comes first."""

    def __init__(self, plan: WorkloadPlan) -> None:
        context = multiprocessing.get_context("spawn")
        self.plan = plan
        self._stop: Event = context.Event()
        self._written: Synchronized[int] = context.Value("l", 0)
        arguments = (plan, self._stop, self._written)
        self._process: BaseProcess = context.Process(target=_write, args=arguments, daemon=True)

    @property
    def written(self) -> int:
        """Documents written so far."""
        return self._written.value

    def start(self) -> Workload:
        self._process.start()
        return self

    def stop(self) -> int:
        """Stop after the operation under way; returns how many documents were written. Raises if it had died."""
        died = not self._process.is_alive()
        self._stop.set()
        self._process.join(60)
        if died or self._process.exitcode != 0:
            raise RuntimeError(f"the workload ended with exit code {self._process.exitcode}")
        return self.written

    def __enter__(self) -> Workload:
        return self.start()

    def __exit__(self, *error: object) -> None:
        if self._process.is_alive():
            self._stop.set()
            self._process.join(60)

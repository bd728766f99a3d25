"""What happens to the orders: loading them, and a fixed amount of changes to them.

Invariant: `mixed_changes` makes exactly as many events as it says, or raises. An updated order is never one
that is deleted, an update always changes a value, and the parts (0 to PARTS - 1) touch disjoint orders, so
that several can follow each other on one collection.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from pymongo import DeleteOne, InsertOne, MongoClient, UpdateOne
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError

from bench.orders import BLOCK, STATUSES, IdKind, Maker, Order, order_id, orders

Operation = InsertOne[Order] | UpdateOne | DeleteOne

PARTS = 8
LOAD_PROCESSES = 2
SHARE_INSERTED, SHARE_UPDATED = 0.6, 0.3  # the rest is deleted


@dataclass(frozen=True)
class Changes:
    """How many events some changes have made."""

    inserts: int
    updates: int
    deletes: int

    @classmethod
    def of(cls, total: int) -> "Changes":
        """60 % inserts, 30 % updates, 10 % deletes."""
        inserts, updates = round(total * SHARE_INSERTED), round(total * SHARE_UPDATED)
        return cls(inserts, updates, total - inserts - updates)

    @property
    def events(self) -> int:
        return self.inserts + self.updates + self.deletes


def load_orders(
    uri: str,
    db: str,
    coll: str,
    n: int,
    seed: int = 1,
    *,
    ids: IdKind = "objectid",
    processes: int = LOAD_PROCESSES,
    make: Maker = orders,
) -> None:
    """Drop the collection and put orders [0, n) into it, as `make` has them. Raises RuntimeError when there are not n
    afterwards.

    Uses `spawn`: a script that calls it needs the usual `if __name__ == "__main__"`.
    """
    with open_collection(uri, db, coll) as collection:
        collection.drop()
        collection.database.create_collection(coll)
    blocks = [(uri, db, coll, seed, start, min(start + BLOCK, n), ids, make) for start in range(0, n, BLOCK)]
    if len(blocks) < 2 * processes:
        for block in blocks:
            _load_block(*block)
    else:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            pool.starmap(_load_block, blocks, chunksize=1)
    with open_collection(uri, db, coll) as collection:
        found = collection.count_documents({})
    if found != n:
        raise RuntimeError(f"{db}.{coll} holds {found} orders after loading {n}: something else writes to it")


def mixed_changes(
    uri: str,
    db: str,
    coll: str,
    n: int = 200_000,
    seed: int = 1,
    *,
    existing: int,
    part: int = 0,
    ids: IdKind = "objectid",
    bulk: int = 1_000,
    make: Maker = orders,
) -> Changes:
    """Make `n` changes to loaded orders [0, existing) in unordered bulks; the new orders, as `make` has
    them, follow those of the parts before (which are taken to have had `n` changes too).

    Raises ValueError when there are too few orders to change, RuntimeError when other changes were made
    than asked: the part was made before, or something else writes to the collection.
    """
    expected, operations = _mixed_operations(n, seed, existing, part, ids, make)
    inserted = updated = deleted = 0
    with open_collection(uri, db, coll) as collection:
        for start in range(0, n, bulk):
            try:
                result = collection.bulk_write(operations[start : start + bulk], ordered=False)
            except BulkWriteError as error:
                first = error.details["writeErrors"][:1]
                raise RuntimeError(
                    f"{db}.{coll}: part {part} was made before? load_orders first: {first}"
                ) from error
            inserted += result.inserted_count
            updated += result.modified_count
            deleted += result.deleted_count
    made = Changes(inserted, updated, deleted)
    if made != expected:
        raise RuntimeError(
            f"{db}.{coll}: made {made} instead of {expected}; load_orders first, and use a part once"
        )
    return made


def _mixed_operations(
    n: int, seed: int, existing: int, part: int, ids: IdKind, make: Maker
) -> tuple[Changes, Sequence[Operation]]:
    shares = Changes.of(n)
    if not 0 <= part < PARTS:
        raise ValueError(f"part {part} is not in 0..{PARTS - 1}")
    mine = range(part, existing, PARTS)
    if len(mine) < 2 * shares.deletes:
        raise ValueError(
            f"{n} changes delete {shares.deletes} orders, of {len(mine)} that a part may touch, "
            f"one in {PARTS} of {existing}: load {2 * shares.deletes * PARTS} orders or more, or change fewer"
        )
    random = Random(f"{seed}:mixed:{part}")
    doomed = random.sample(mine, shares.deletes)
    gone = set(doomed)
    rest = [index for index in mine if index not in gone]
    first_new = existing + part * shares.inserts
    operations: list[Operation] = [
        InsertOne(order) for order in make(seed, first_new, first_new + shares.inserts, ids)
    ]
    operations += [DeleteOne({"_id": order_id(seed, index, ids)}) for index in doomed]
    operations += [update_operation(random, seed, random.choice(rest), ids) for _ in range(shares.updates)]
    random.shuffle(operations)
    return shares, operations


def update_operation(random: Random, seed: int, index: int, ids: IdKind) -> UpdateOne:
    change = {"$set": {"status": random.choice(STATUSES)}, "$inc": {"revision": 1}}
    return UpdateOne({"_id": order_id(seed, index, ids)}, change)


def _load_block(
    uri: str, db: str, coll: str, seed: int, start: int, stop: int, ids: IdKind, make: Maker
) -> None:
    with open_collection(uri, db, coll) as collection:
        collection.insert_many(make(seed, start, stop, ids), ordered=False)


@contextmanager
def open_collection(uri: str, db: str, coll: str) -> Iterator[Collection[Order]]:
    with MongoClient[Order](uri) as client:
        yield client[db][coll]

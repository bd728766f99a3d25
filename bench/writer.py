"""A writer in the background: a steady rate of changes to a collection of orders, in a process of its own.

It shares the processors with what is measured, so the changes of its first half minute are made up before it starts:
what is left to do beside the work is to send them.

Invariants: it keeps its rate by the clock, not by sleeping a fixed time, and reports how far behind it
fell; it ends when its `with` block ends, whatever happened in there, and as a daemon also when its parent
dies.
"""

import gc
import multiprocessing
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from random import Random
from types import TracebackType
from typing import Any, Self

from pymongo import DeleteOne, InsertOne

from bench.orders import IdKind, few_orders, order_id
from bench.workload import Changes, Operation, open_collection, update_operation

_START_S, _STOP_S = 60, 60
_AHEAD_S = 30
_ROUNDS_MAX = 20


@dataclass(frozen=True)
class WriterReport:
    """What a writer did. `behind_s_max`: how late its latest bulk was; far above zero, it did not keep its
    rate."""

    events: int
    seconds: float
    behind_s_max: float

    @property
    def per_second(self) -> int:
        return round(self.events / self.seconds)


class Writer:
    """Writes to a collection of orders in a process of its own, from entering the context until `stop()`.

    Unordered bulks in the shares of `mixed_changes`, `rate` changes a second. An order that it changes may
    be gone by then, which makes no event: `report.events` counts what the server says it has done.
    """

    def __init__(
        self,
        uri: str,
        db: str,
        coll: str,
        *,
        existing: int,
        first_new: int | None = None,
        rate: float = 2_000,
        bulk: int = 100,
        seed: int = 1,
        ids: IdKind = "objectid",
    ) -> None:
        """`existing`: orders [0, existing) are updated and deleted; `first_new`: number of the first new
        order, by default beyond everything `mixed_changes` adds to a collection of that size."""
        context = multiprocessing.get_context("spawn")
        self._stop, self._started = context.Event(), context.Event()
        self._receiver, sender = context.Pipe(duplex=False)
        number = 10 * existing + 10_000_000 if first_new is None else first_new
        plan = _Plan(uri, db, coll, existing, number, bulk / rate, bulk, seed, ids)
        self._process = context.Process(
            target=_write, args=(plan, self._started, self._stop, sender), daemon=True
        )

    def __enter__(self) -> Self:
        self._process.start()
        if not self._started.wait(_START_S):
            self._process.kill()
            raise RuntimeError("the writer process did not start; its error is on standard error")
        return self

    def stop(self) -> WriterReport:
        """End it after the bulk it is in. Raises RuntimeError when the writer failed."""
        self._stop.set()
        try:
            if not self._receiver.poll(_STOP_S):
                raise RuntimeError(f"the writer did not stop within {_STOP_S} s")
            report: WriterReport = self._receiver.recv()
        except EOFError as error:
            raise RuntimeError("the writer failed; its error is on standard error") from error
        self._process.join()
        return report

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._process.join(_STOP_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def writer_of(plan: Mapping[str, Any]) -> Writer:
    """The writer beside a round (`turn`) of a program (`program`, a small number): at the plan's `rate`, and from a
    number of its own, for what the writers of other rounds have inserted is still there."""
    first_new = 10_000_000 * (_ROUNDS_MAX * plan["program"] + plan["turn"] + 1) + 10 * plan["documents"]
    place = plan["uri"], plan["db"], plan["coll"]
    return Writer(*place, existing=plan["documents"], first_new=first_new, rate=plan["rate"])


@dataclass(frozen=True)
class _Plan:
    uri: str
    db: str
    coll: str
    existing: int
    first_new: int
    interval_s: float
    bulk: int
    seed: int
    ids: IdKind


def _write(plan: _Plan, started: Event, stop: Event, sender: Connection) -> None:
    events, turn, behind_s_max = 0, 0, 0.0
    ahead = [_bulk(plan, turn) for turn in range(round(_AHEAD_S / plan.interval_s))]
    gc.freeze()  # thousands of documents that are not looked through again at each collection
    with sender, open_collection(plan.uri, plan.db, plan.coll) as collection:
        begun = time.perf_counter()
        started.set()
        while not stop.wait(max(0.0, (late := begun + turn * plan.interval_s - time.perf_counter()))):
            behind_s_max = max(behind_s_max, -late)
            bulk = ahead[turn] if turn < len(ahead) else _bulk(plan, turn)
            result = collection.bulk_write(bulk, ordered=False)
            events += result.inserted_count + result.modified_count + result.deleted_count
            turn += 1
        sender.send(WriterReport(events, time.perf_counter() - begun, behind_s_max))


def _bulk(plan: _Plan, turn: int) -> list[Operation]:
    shares = Changes.of(plan.bulk)
    # Not the same orders as another round's writer: those that it has deleted would make no event again.
    random = Random(f"{plan.seed}:bulk:{plan.first_new}:{turn}")
    changed = [random.randrange(plan.existing) for _ in range(shares.updates + shares.deletes)]
    new = few_orders(plan.seed, plan.first_new + turn * shares.inserts, shares.inserts, plan.ids)
    return [
        *(InsertOne(order) for order in new),
        *(update_operation(random, plan.seed, index, plan.ids) for index in changed[: shares.updates]),
        *(DeleteOne({"_id": order_id(plan.seed, index, plan.ids)}) for index in changed[shares.updates :]),
    ]

"""``provide.transaction.metadata``: the begin and the end of transactions, in a table beside the engine's state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pymongo.client_session import ClientSession
from pymongo.errors import AutoReconnect

from snapshotter.engine.engine_status import StatusWriter
from snapshotter.landing.targets import state_tables
from snapshotter.landing.targets.target import LandedCollection
from tests.support.engines import SECONDS, Lab, lab
from tests.support.tables import rows

__all__ = ["lab"]


def told(lab: Lab) -> list[dict[str, Any]]:
    return sorted(rows(lab.state / "transactions"), key=lambda row: (row["_cluster_time"], row["status"]))


def counts(row: dict[str, Any]) -> dict[str, int]:
    return {part["data_collection"]: part["event_count"] for part in row["data_collections"]}


@contextmanager
def transaction(lab: Lab) -> Iterator[ClientSession]:
    with lab.client.start_session() as session, session.start_transaction():
        yield session


def fail_once(patch: pytest.MonkeyPatch) -> list[int]:
    """The first landing of all fails before its commit, when what lands beside it may have committed."""
    real, failed = state_tables.land_table, []

    def land_table(spark: Any, opened: Any, batch: Any, identity: Any, **how: Any) -> LandedCollection:
        if not failed:
            failed.append(identity.batch_id)
            raise AutoReconnect("the network, just before the commit")
        return real(spark, opened, batch, identity, **how)

    patch.setattr(state_tables, "land_table", land_table)
    return failed


def change(lab: Lab, session: ClientSession) -> None:
    """Six changes of captured collections, and one of another."""
    orders, stock, hidden = (lab.client[lab.database][name] for name in ("orders", "stock", "hidden"))
    orders.insert_many([{"_id": "a"}, {"_id": "b"}], session=session)
    orders.update_one({"_id": "0"}, {"$set": {"n": 1}}, session=session)
    stock.insert_one({"_id": "c"}, session=session)
    stock.replace_one({"_id": "0"}, {"n": 2}, session=session)
    stock.delete_one({"_id": "1"}, session=session)
    hidden.insert_one({"_id": "d"}, session=session)


def told_of(status: StatusWriter) -> tuple[object, object]:
    """How many transactions the metrics count, and what was tried again."""
    found = status.newest.metrics if status.newest is not None else {}
    transactions = found.get("streaming", {}).get("number_of_committed_transactions")
    return transactions, found.get("engine", {}).get("retries_total")


def test_transactions_are_recorded_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has one BEGIN and one END with its counts, though the batch fails once and is landed again; END waits for
    nothing. What was rolled back, changed no captured collection, or was no transaction (retryable writes have
    sessions, too) is not told. The rows of state tables name their transaction by its cluster time.

    Without the option nothing is told, and later events of other kinds end no transaction twice.
    """
    captured = {"collection__exclude__list": rf"{lab.database}\.hidden", "snapshot__mode": "no_data"}
    lab.with_options(retriable__restart__connector__wait__ms=1, **captured)
    for name in ("orders", "stock", "hidden"):
        lab.collection(name).insert_many([{"_id": "0"}, {"_id": "1"}])
    with lab.running() as engine:
        with transaction(lab) as session:
            lab.client[lab.database]["orders"].insert_one({"_id": "untold"}, session=session)
        engine.catch_up(SECONDS)
    assert not (lab.state / "transactions").exists()

    with transaction(lab) as session:
        change(lab, session)
    lab.collection("orders").insert_one({"_id": "no transaction"})
    with transaction(lab) as session:
        lab.client[lab.database]["stock"].insert_one({"_id": "alone"}, session=session)
    with transaction(lab) as session:
        lab.client[lab.database]["hidden"].insert_one({"_id": "not captured"}, session=session)
        lab.client[lab.database]["signals"].insert_one(
            {"_id": "hello", "type": "log", "data": {}}, session=session
        )
    with lab.client.start_session() as session:
        session.start_transaction()
        lab.client[lab.database]["orders"].insert_one({"_id": "rolled back"}, session=session)
        session.abort_transaction()

    lab.with_options(provide__transaction__metadata="true")
    failed = fail_once(monkeypatch)
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        assert len(failed) == 1
        begin, end, second_begin, second_end = first = told(lab)
        lab.collection("orders").insert_many([{"_id": f"later {n}"} for n in range(3)])
        engine.catch_up(SECONDS)
        status = engine.engine.status
        engine.until(
            "the status to tell it", lambda: told_of(status) == (2, {"run": 1, "window": 0}), SECONDS
        )
    assert told(lab) == first

    assert [row["status"] for row in first] == ["BEGIN", "END"] * 2
    assert begin["id"] == end["id"] != second_begin["id"] == second_end["id"]
    assert json.loads(begin["id"].rpartition(":")[0]).keys() == {"id", "uid"}
    assert (begin["event_count"], begin["data_collections"]) == (None, None)
    assert (end["event_count"], counts(end)) == (6, {lab.name("orders"): 3, lab.name("stock"): 3})
    assert (second_end["event_count"], counts(second_end)) == (1, {lab.name("stock"): 1})
    assert begin["ts_ms"] // 1000 == begin["_cluster_time"] >> 32

    time = end["_cluster_time"]
    assert {row["_id"] for row in lab.rows("orders") if row["_cluster_time"] == time} == {"a", "b", "0"}
    assert {row["_id"] for row in lab.rows("stock") if row["_cluster_time"] == time} == {"c", "0"}

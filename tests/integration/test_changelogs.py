"""Changelog tables (``delta.changelog.enabled``): every event once, and READs that nothing supersedes."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from typing import Any

import pytest
from deltalake import DeltaTable
from pymongo.errors import AutoReconnect
from pyspark.sql import SparkSession

from snapshotter.landing.targets import changelogs, state_tables
from snapshotter.landing.targets.target import CollectionContents, LandedCollection
from snapshotter.reading.read_buffer import Buffer
from streaming.positions import ClusterTime
from tests.support.changes import now, read_since
from tests.support.commands import run, share
from tests.support.engines import SECONDS, Lab, Reads, lab, limits, quiet_rereads, reads
from tests.support.tables import added, landing_marks, rows

__all__ = ["lab", "reads"]

Row = dict[str, Any]
Event = tuple[str, str, int]


def changelog(lab: Lab, collection: str = "orders") -> list[Row]:
    path = lab.folder / "warehouse" / "changelog" / lab.database / collection
    found = rows(path) if DeltaTable.is_deltatable(str(path)) else []
    return sorted(found, key=lambda row: (row["_cluster_time"], row["_order"] or -1))


def told(lab: Lab, collection: str = "orders") -> list[Event]:
    """The events in the changelog, in their order."""
    return [
        (row["op"], row["key"], row["_cluster_time"])
        for row in changelog(lab, collection)
        if row["op"] != "r"
    ]


def happened(lab: Lab, start: ClusterTime, collection: str = "orders") -> list[Event]:
    """The events that MongoDB tells of."""
    found = read_since(lab.uri, start, database__include__list=lab.database)
    return [
        (row["op"], json.dumps(row["document_key"]["_id"]), row["cluster_time"])
        for row in found
        if row["collection"] == collection and row["op"] is not None
    ]


def reads_of(lab: Lab, request: str, collection: str = "orders") -> dict[str, list[Row]]:
    """The READs of a request by key."""
    found: dict[str, list[Row]] = {}
    for row in changelog(lab, collection):
        if row["_request"] == request:
            found.setdefault(row["key"], []).append(row)
    return found


def assert_no_file_is_left(lab: Lab) -> None:
    """All that lie in the state table's folder were added by a commit."""
    folder = lab.table("orders")
    assert {file.name for file in folder.glob("*.parquet")} == added(folder).keys()


def with_changelogs(lab: Lab, **options: object) -> Lab:
    given = {"delta__changelog__enabled": "true", "retriable__restart__connector__wait__ms": 1, **options}
    return lab.with_options("cluster_time", **given)


def change_some(lab: Lab) -> None:
    """Of each operation one, and a transaction."""
    orders = lab.collection("orders")
    orders.insert_one({"_id": 100, "v": "new"})
    orders.update_one({"_id": 100}, {"$set": {"v": "changed"}})
    orders.replace_one({"_id": 100}, {"w": "replaced"})
    orders.delete_one({"_id": 100})
    with lab.client.start_session() as session, session.start_transaction():
        for number in (101, 102, 103):
            orders.insert_one({"_id": number}, session=session)


def test_every_event_once_beside_reads(
    lab: Lab, reads: Reads, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a first load, an incremental snapshot, after a restart, and where the position is set back: each event
    that MongoDB tells of is in the table, once, in its order; also those of ids that the load had yet to read. READs
    name their window and their request, and none is there that an event in its window supersedes. The state table
    equals the collection. READs and their documents are files until they land, and of these none is left."""
    told_to = {"delta__changelog__enabled": "true", "provide__transaction__metadata": "true"}
    with_changelogs(lab, snapshot__mode="initial", **told_to)
    lab.tune = limits(chunk_docs=5, windows=1)
    orders = lab.collection("orders")
    start = now(lab.uri)
    orders.insert_many([{"_id": n, "v": 0} for n in range(20)])
    before_load = now(lab.uri)

    def after(number: int, job: object, buffer: Buffer) -> None:
        assert all(part.documents is not None for part in buffer.trailers)
        if number == 0:
            orders.update_one({"_id": 3}, {"$set": {"v": "after its read"}})
            orders.update_one({"_id": 19}, {"$set": {"v": "before its read"}})
            orders.delete_one({"_id": 4})

    reads.after = after
    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        change_some(lab)
        again = engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS).id
        engine.catch_up(SECONDS)
    assert told(lab) == happened(lab, before_load)
    initial, second = reads_of(lab, "initial"), reads_of(lab, again)
    assert set(map(int, initial)) == set(range(20)) - {3, 4}
    assert set(map(int, second)) == set(range(20)) - {4} | {101, 102, 103}
    assert all(len(found) == 1 for found in (*initial.values(), *second.values()))
    assert {row["source"]["snapshot"] for found in initial.values() for row in found} == {"true"}
    assert {row["source"]["snapshot"] for found in second.values() for row in found} == {"incremental"}
    assert json.loads(initial["19"][0]["after"]) == {"_id": 19, "v": "before its read"}
    assert len({row["_window"] for found in initial.values() for row in found}) == 4
    orders_within = [row["transaction"] for row in changelog(lab) if row["transaction"] is not None]
    assert [(one["total_order"], one["data_collection_order"]) for one in orders_within] == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]
    lab.assert_equal("orders")

    assert_no_file_is_left(lab)
    with lab.running() as engine:
        orders.insert_one({"_id": 200})
        engine.catch_up(SECONDS)
    assert told(lab) == happened(lab, before_load)
    read = Counter(row["op"] for row in changelog(lab))["r"]

    share(spark, monkeypatch)
    assert run(lab, "position reset", "--to", str(start)).exit_code == 0
    with lab.running() as engine:
        orders.insert_one({"_id": 201})
        engine.catch_up(SECONDS)
    assert told(lab) == happened(lab, before_load)
    assert Counter(row["op"] for row in changelog(lab))["r"] == read
    lab.assert_equal("orders")


def window_ends(lab: Lab, collection: str = "orders") -> dict[str, int]:
    """Of each window whose READs are told, the end of the batch that told them."""
    path = lab.folder / "warehouse" / "changelog" / lab.database / collection
    said = [mark["metadata"] for mark in landing_marks(path)]
    return {w: ClusterTime.from_json(one["position"]).to_int() for one in said for w in one["windows"]}


def superseded(lab: Lab, start: ClusterTime) -> list[tuple[str, str]]:
    """READs that an event of their key supersedes: behind the low watermark, up to the end of the batch that tells
    them. It must be none."""
    ends = window_ends(lab)
    times: dict[str, list[int]] = {}
    for _, key, time in happened(lab, start):
        times.setdefault(key, []).append(time)
    return [
        (row["_window"], row["key"])
        for row in changelog(lab)
        if row["op"] == "r"
        and any(row["_cluster_time"] < time <= ends[row["_window"]] for time in times.get(row["key"], []))
    ]


@pytest.mark.parametrize(
    ("mode", "file_docs_min"), [("change_streams_update_full", 0), ("change_streams", 10_000)]
)
def test_a_read_that_is_superseded_is_never_told(
    lab: Lab, reads: Reads, rng: random.Random, mode: str, file_docs_min: int
) -> None:
    """Beside writes while windows are open, of which some hide READs, and in batches of before the closing one as well;
    also by updates that come without their documents, which are read again by key. Whatever is not told by a READ is
    told by an event, and the state table equals the collection."""
    with_changelogs(lab, snapshot__mode="no_data", capture__mode=mode)
    lab.tune = limits(chunk_docs=10, windows=3, file_docs_min=file_docs_min)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0} for n in range(60)])
    start = now(lab.uri)
    changed: set[int] = set()

    def change(number: int, job: object, buffer: object = None) -> None:
        for key in rng.sample(range(60), 4) if number < 8 else ():  # reads by key are reads, too
            orders.update_one({"_id": key}, {"$inc": {"v": 1}})
            changed.add(key)

    reads.before = reads.after = change
    with lab.running() as engine:
        run_state = engine.engine.run_state
        assert run_state is not None

        def catches_up(number: int, job: object, buffer: object) -> None:
            change(number, job)
            if number == 1:  # the next batches come before the window closes
                change(number, job)
                engine.until("a batch", lambda: run_state.position > now_after[0], SECONDS)

        now_after = [now(lab.uri)]
        reads.after = catches_up
        request = engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS).id
        quiet_rereads(engine)
        engine.catch_up(SECONDS)
    assert told(lab) == happened(lab, start)
    assert superseded(lab, start) == []
    keys = {int(key) for key in reads_of(lab, request)}
    assert set(range(60)) - keys <= changed
    assert changed - keys, "no READ was superseded"
    lab.assert_equal("orders")
    if mode == "change_streams":
        again = {
            row["key"]: row["after"] for row in changelog(lab) if row["op"] == "r" and row["_request"] is None
        }
        assert again, "no key was read again"
        assert {row["after"] for row in changelog(lab) if row["op"] == "u"} == {None}


@pytest.mark.parametrize("first", ["state tables", "changelog tables"])
def test_a_window_that_landed_in_one_target_is_read_again_for_all(
    lab: Lab, reads: Reads, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A batch closes a window, and fails when one target has committed and the other has not. Its events are told
    once, its READs once at least, and both tables end whole."""
    with_changelogs(lab, snapshot__mode="no_data")
    lab.tune = limits(chunk_docs=50, windows=1)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n} for n in range(30)])
    start = now(lab.uri)
    reads.after = lambda number, job, buffer: orders.insert_one({"_id": f"during {number}"})
    failed = fail_once(monkeypatch, first)
    with lab.running() as engine:
        request = engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS).id
        engine.catch_up(SECONDS)
    assert failed
    assert len(reads.jobs) == 2
    assert told(lab) == happened(lab, start)
    found = reads_of(lab, request)
    assert found.keys() >= {str(n) for n in range(30)}
    times = {len(rows) for key, rows in found.items() if "during" not in key}
    assert times == ({1} if first == "state tables" else {2})
    lab.assert_equal("orders")


def fail_once(patch: pytest.MonkeyPatch, first: str) -> list[int]:
    """The first batch that closes a window fails once: ``first`` has committed it by then, and the other has not."""
    failed: list[int] = []
    committed = threading.Event()

    def fails(batch: CollectionContents, batch_id: int) -> bool:
        if not batch.closings or failed:
            return False
        assert committed.wait(SECONDS)
        failed.append(batch_id)
        return True

    land_table, land_one = state_tables.land_table, changelogs.Changelogs._land_one

    def state(spark: Any, opened: Any, batch: CollectionContents, identity: Any, **how: Any) -> Any:
        if first != "state tables" and fails(batch, identity.batch_id):
            raise AutoReconnect("the network, before the state table's commit")
        landed = land_table(spark, opened, batch, identity, **how)
        if first == "state tables" and batch.closings:
            committed.set()
        return landed

    def log(self: Any, contents: Any, orders: Any, batch: CollectionContents) -> LandedCollection:
        if first == "state tables" and fails(batch, contents.identity.batch_id):
            raise AutoReconnect("the network, before the changelog's commit")
        landed = land_one(self, contents, orders, batch)
        if first != "state tables" and batch.closings:
            committed.set()
        return landed

    patch.setattr(state_tables, "land_table", state)
    patch.setattr(changelogs.Changelogs, "_land_one", log)
    return failed


def test_drops_and_renames(lab: Lab) -> None:
    """What came before a drop stays told, though the state table forgets it, and the drop is no row. What a rename
    brings is told as READs in the changelog of its new name."""
    with_changelogs(lab, snapshot__mode="no_data")
    orders = lab.collection("orders")
    with lab.running() as engine:
        orders.insert_many([{"_id": n} for n in range(3)])
        orders.drop()
        orders.insert_one({"_id": 9})
        engine.catch_up(SECONDS)
        assert [(op, key) for op, key, _ in told(lab)] == [("c", "0"), ("c", "1"), ("c", "2"), ("c", "9")]
        assert [row["_id"] for row in lab.rows("orders")] == [9]
        orders.rename("archive")
        engine.until("what the rename brought", lambda: len(changelog(lab, "archive")) == 1, SECONDS)
        engine.catch_up(SECONDS)
    assert [(row["op"], row["key"]) for row in changelog(lab, "archive")] == [("r", "9")]
    assert len(told(lab)) == 4


def test_what_is_wrong_with_one_changelog_stops_that_collection_alone(lab: Lab) -> None:
    """A folder that is no changelog of ours, or another engine's: that collection is suspended, in its state table
    too, and the others land. When it is cured and read again it goes on."""
    with_changelogs(lab, snapshot__mode="no_data")
    foreign = lab.folder / "warehouse" / "changelog" / lab.database / "orders"
    lab.spark.range(3).write.format("delta").save(str(foreign))
    with lab.running() as engine:
        lab.collection("orders").insert_one({"_id": 1})
        lab.collection("stock").insert_one({"_id": 1})
        engine.catch_up(SECONDS)
        suspended = engine.engine.run_state.progress.suspended
        assert [str(namespace) for namespace in suspended] == [lab.name("orders")]
        (why,) = suspended.values()
        assert "was not made by snapshotter" in why.error
        assert len(told(lab, "stock")) == 1
        foreign.rename(lab.folder / "aside")
        lab.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
        request = engine.execute_snapshot(lab.name("orders"), reconcile=True)
        engine.wait(request, SECONDS)
        lab.collection("orders").insert_one({"_id": 2})
        engine.catch_up(SECONDS)
    assert [(row["op"], row["key"]) for row in changelog(lab)] == [("r", "1"), ("c", "2")]
    lab.assert_equal("orders", "stock")


def test_what_is_skipped_is_not_told_and_hides_nothing(lab: Lab, reads: Reads) -> None:
    """skipped.operations: a changelog tells no such event, and a READ of such a key is told, though the event came in
    its window; the state table gets all. Watermarks in the signal collection, which are inserts, pass all the same."""
    options = {"delta__changelog__enabled": "true", "skipped__operations": "c,u"}
    lab.with_options("insert_insert", snapshot__mode="no_data", **options)
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n, "v": 0} for n in range(4)])
    start = now(lab.uri)

    def after(number: int, job: object, buffer: object) -> None:
        orders.update_one({"_id": 1}, {"$set": {"v": 1}})
        orders.delete_one({"_id": 2})
        orders.insert_one({"_id": 9})

    reads.after = after
    with lab.running() as engine:
        lab.signal("execute-snapshot", "by-document", data__collections=[lab.name("orders")])
        engine.wait("by-document", SECONDS)
        engine.catch_up(SECONDS)
    assert told(lab) == [event for event in happened(lab, start) if event[0] == "d"]
    assert set(reads_of(lab, "by-document")) == {"0", "1", "3"}
    lab.assert_equal("orders")


def test_updates_that_change_nothing_are_skipped_where_that_is_wished(lab: Lab) -> None:
    """skip.messages.without.change alone: an update of a field that is left out is not told; any other is."""
    rules = f"{lab.database}.orders.secret"
    with_changelogs(
        lab, snapshot__mode="no_data", field__exclude__list=rules, skip__messages__without__change="true"
    )
    orders = lab.collection("orders")
    with lab.running() as engine:
        orders.insert_one({"_id": 1, "secret": 1, "v": 1, "note": "n" * 200})
        orders.update_one({"_id": 1}, {"$set": {"secret": 2}})
        orders.update_one({"_id": 1}, {"$set": {"secret": 3, "v": 2}})
        engine.catch_up(SECONDS)
    assert [(op, key) for op, key, _ in told(lab)] == [("c", "1"), ("u", "1")]
    (update,) = (row["updateDescription"] for row in changelog(lab) if row["op"] == "u")
    assert update["updatedFields"] == '{"v": 2}'


def test_what_each_changelog_was_given_is_counted(lab: Lab, reads: Reads) -> None:
    """Events and READs by collection, since the engine's start, in the status and in the metrics, equal to what the
    tables have got; also where a batch brings both, and where somebody has changed what Delta keeps statistics of."""
    with_changelogs(lab, snapshot__mode="initial")
    orders = lab.collection("orders")
    orders.insert_many([{"_id": n} for n in range(20)])
    reads.after = lambda number, job, buffer: orders.insert_one({"_id": f"during {number}"})

    def given(*names: str) -> list[tuple[str, int, int]]:
        found = {name: Counter(row["op"] for row in changelog(lab, name)) for name in names}
        return [(lab.name(n), ops.total() - ops["r"], ops["r"]) for n, ops in found.items()]

    def counted() -> list[tuple[str, int, int]]:
        status = lab.status()
        shown = status.metrics["engine"]
        both = [(c.collection, c.events, c.reads) for c in status.changelogs]
        assert shown["changelog_events_total"] == {name: events for name, events, _ in both}
        assert shown["changelog_reads_total"] == {name: reads for name, _, reads in both}
        return both

    with lab.running() as engine:
        engine.wait("initial", SECONDS)
        lab.collection("stock").insert_one({"_id": 1})
        engine.catch_up(SECONDS)
        engine.until("both counted", lambda: counted() == given("orders", "stock"), SECONDS)
        path = lab.folder / "warehouse" / "changelog" / lab.database / "orders"
        named = "'delta.dataSkippingStatsColumns' = '_key'"
        lab.spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({named})")
        engine.wait(engine.execute_snapshot(lab.name("orders")), SECONDS)
        engine.catch_up(SECONDS)
        engine.until("all counted", lambda: counted() == given("orders", "stock"), SECONDS)
    together = [mark for mark in landing_marks(path) if mark["metadata"]["windows"]]
    assert len(together) == 2
    assert given("orders") == [(lab.name("orders"), 2, 41)]
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        assert counted() == []

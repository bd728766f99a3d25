"""One contract for everything that batches land in (`snapshotter.landing.targets`): same tests for all, on real Delta.

What is particular to a target is tested where it is: state tables in tests/integration/test_landing_history.py,
transactions in tests/integration/test_transactions.py, changelogs in tests/integration/test_changelogs.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from snapshotter.landing.table_faults import Blame
from snapshotter.landing.tables import Tables
from snapshotter.landing.targets.changelogs import Changelogs
from snapshotter.landing.targets.outbox import OutboxTarget
from snapshotter.landing.targets.replays import Behind, source_rows
from snapshotter.landing.targets.state_tables import StateTables
from snapshotter.landing.targets.target import CollectionContents, Contents, Identity, Need, Promise, Target
from snapshotter.landing.targets.transactions import TransactionTable
from snapshotter.outbox.table import Outbox
from snapshotter.outbox.topics_config import TopicsConfig
from snapshotter.state.storage import MemoryStorage
from streaming.connect.topic_names import TopicNames
from streaming.events.envelope import Envelope, mark_of, of_replayed
from streaming.keys.decoded import key_of
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.observe import observe
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.source.change_events import ARROW_SCHEMA
from tests.support.tables import rows

ORDERS, STOCK = Namespace("shop", "orders"), Namespace("shop", "stock")
APP_ID = "snapshotter:test:1"


@dataclass(slots=True)
class Rig:
    """A target, made anew as often as one likes over the same tables, as starts of an engine do."""

    spark: SparkSession
    make: Callable[[], Target]
    needs: frozenset[Need]
    folders: Sequence[Path]

    def contents(self, batch_id: int, numbers: Sequence[int]) -> Contents:
        """An insert a number into each of two collections, by one transaction."""
        events = self.spark.createDataFrame(pa.Table.from_pylist(_events(batch_id, numbers), ARROW_SCHEMA))
        collections = {
            name: CollectionContents(name, events.where(f"collection = '{name.collection}'"))
            for name in (ORDERS, STOCK)
            if numbers
        }
        identity = Identity(batch_id, {"run": "r-1", "batch": batch_id})
        return Contents(identity, events, transactional=True, collections=collections)

    def rows(self) -> list[str]:
        """All that the target holds, in some order that stays."""
        return sorted(
            str(sorted(row.items())) for folder in self.folders if folder.exists() for row in rows(folder)
        )

    def commits(self) -> list[dict[str, Any]]:
        """What each commit that says something of a batch says, by folder, oldest first."""
        logs = [log for folder in self.folders for log in sorted((folder / "_delta_log").glob("[0-9]*.json"))]
        told = (json.loads(log.read_text().splitlines()[0])["commitInfo"].get("userMetadata") for log in logs)
        said = [json.loads(text) for text in told if text]
        return [one for one in said if "batch" in one]


def _events(batch_id: int, numbers: Sequence[int]) -> list[dict[str, Any]]:
    lsid = bson.encode({"id": bson.Binary(bytes(16), 4)})
    return [
        {
            "kind": "event",
            "op": "c",
            "db": namespace.database,
            "collection": namespace.collection,
            "_key": key_of(number),
            "document_key": bson.encode({"_id": number}),
            "document": bson.encode({"_id": number, "batch": batch_id}),
            "cluster_time": ClusterTime(1_700_000_000 + batch_id, 1).to_int(),
            "wall_time": datetime(2024, 6, 1, tzinfo=UTC),
            "ord": 2 * number + at,
            "lsid": lsid,
            "txn_number": batch_id,
        }
        for number in numbers
        for at, namespace in enumerate((ORDERS, STOCK))
    ]


@pytest.fixture(params=["state tables", "transactions", "changelog tables", "outbox"])
def rig(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Rig:
    def state_tables() -> Target:
        plan = observe(bson.encode({"_id": 1, "batch": 1}))
        return StateTables(
            spark, Tables(spark, str(tmp_path), lambda: APP_ID, COLUMNS, lambda _: plan), Blame()
        )

    def transactions() -> Target:
        return TransactionTable(spark, str(tmp_path / "transactions"), lambda: APP_ID)

    storage = MemoryStorage()

    def outbox() -> Target:
        table = Outbox(lambda: spark, str(tmp_path / "outbox"), storage, 1 << 30)
        table.open()
        config = TopicsConfig(TopicNames("shop"), "nowhere:9092", transactions=True)
        # The same moment each time, or a repetition would not be the same.
        envelope = Envelope("shop", "1", transactions=True)
        return OutboxTarget(table, config, envelope, lambda: APP_ID, clock=lambda: 1_764_000_000_000_000_000)

    def changelog_tables() -> Target:
        envelope = Envelope("shop", "1", transactions=True)
        return Changelogs(spark, str(tmp_path), envelope, lambda: APP_ID, lambda: None, Blame())

    states = [tmp_path / "state" / "shop" / name.collection for name in (ORDERS, STOCK)]
    logs = [tmp_path / "changelog" / "shop" / name.collection for name in (ORDERS, STOCK)]
    made = {
        "state tables": (state_tables, frozenset({Need.DOCUMENTS}), states),
        "transactions": (transactions, frozenset[Need](), [tmp_path / "transactions"]),
        "outbox": (
            outbox,
            frozenset({Need.DOCUMENTS, Need.BEFORE_IMAGES, Need.ORDER}),
            [tmp_path / "outbox"],
        ),
        "changelog tables": (changelog_tables, frozenset(Need), logs),
    }
    return Rig(spark, *made[request.param])


def test_a_batch_lands_under_its_identity(rig: Rig) -> None:
    """Every commit says which batch it holds, in the words that came with it; the next batch adds to what is there."""
    target = rig.make()
    target.land(rig.contents(1, [1, 2]))
    first = rig.rows()
    target.land(rig.contents(2, [3]))
    assert first
    assert set(first) < set(rig.rows())
    said = {("r-1" in json.dumps(mark), mark["batch"]) for mark in rig.commits()}
    assert said == {(True, 1), (True, 2)}


def test_a_batch_that_is_landed_again_keeps_the_promise(rig: Rig) -> None:
    """After a crash behind the landing a new start lands the same batch: exactly once means that nothing changes, not
    even the number of commits; at least once, that nothing is missing."""
    rig.make().land(rig.contents(1, [1, 2]))
    before, commits = rig.rows(), rig.commits()
    again = rig.make()
    again.land(rig.contents(1, [1, 2]))
    assert set(before) <= set(rig.rows())
    if again.promises is Promise.EXACTLY_ONCE:
        assert (rig.rows(), rig.commits()) == (before, commits)


def test_a_batch_without_contents_writes_nothing(rig: Rig) -> None:
    """An idle engine makes no versions, and no folders."""
    rig.make().land(rig.contents(1, []))
    assert not any(folder.exists() for folder in rig.folders)
    rig.make().land(rig.contents(2, [1]))
    commits = rig.commits()
    rig.make().land(rig.contents(3, []))
    assert rig.commits() == commits


def test_all_of_it_has_landed_when_it_says_so(rig: Rig) -> None:
    """Nothing lost, no faults; what it says of collections is of those that it was given."""
    contents = rig.contents(1, [1, 2, 3])
    landed = rig.make().land(contents)
    assert landed.complete
    assert landed.collections.keys() <= contents.collections.keys()
    assert all(one.wrote and one.events == 3 for one in landed.collections.values())


def test_what_is_replayed_is_taken_once(rig: Rig) -> None:
    """Events of dead letters, each with its mark, go into targets of events, and not again: not in the same batch, not
    after another start, not in a later batch. What is new beside them is added."""
    target = rig.make()
    if not hasattr(target, "replay"):
        return
    target.land(rig.contents(1, [1]))
    before = len(rig.rows())

    def replayed(batch_id: int, *letters: str) -> int:
        given = [
            dict.fromkeys(("request", "window", "hashes"))
            | {"id": letter, "stage": "stream", "collection": str(ORDERS), "operation": "insert"}
            | {"_key": letter, "_cluster_time": 7 << 32, "bytes": bson.encode({"_id": letter})}
            for letter in letters
        ]
        made = pa.Table.from_batches(
            source_rows({str(ORDERS): Behind()}, pa.Table.from_pylist(given).to_batches())
        )
        frame = rig.spark.createDataFrame(made).drop("id", "refused")
        told = of_replayed(frame, Envelope("shop", "1"), 1_764_000_000_000_000_000)
        marks = {mark_of(letter): "c" for letter in letters}
        found = rig.make().replay(
            told, {ORDERS: marks}, Identity(batch_id, {"run": "r-1", "batch": batch_id})
        )  # type: ignore[attr-defined]
        assert found == marks.keys()
        return len(rig.rows()) - before

    assert replayed(1, "a", "b") == 2
    assert replayed(1, "a", "b") == 2
    assert replayed(2, "a", "b") == 2
    assert sum("replayed" in row for row in rig.rows()) == 2
    target = rig.make()
    target.land(rig.contents(3, [2]))
    assert len(rig.rows()) == 2 * before + 2


def test_it_says_what_it_needs(rig: Rig) -> None:
    """By the words of the port, under a name of its own; so an engine can ask the source for just that."""
    target = rig.make()
    assert target.name
    assert target.needs == rig.needs
    assert target.promises in set(Promise)

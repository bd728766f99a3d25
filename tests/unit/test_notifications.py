"""Notifications: the documented payloads to the letter, and what the core announces as one of them."""

from __future__ import annotations

import json
from dataclasses import replace

import bson
import pytest

from signals.notifications.notification import Aggregate, Kind, Notification, ScanStatus, Subject
from snapshotter.core.values.chunks import Bound
from snapshotter.core.values.effects import Announce
from snapshotter.core.values.progress import RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.reporting.notices import key_text, notification_of
from streaming.namespaces import Namespace
from tests.support.bson_documents import document

AT = 1_695_817_046_353
INCREMENTAL = Subject("again-1", Aggregate.INCREMENTAL, "shop", ("shop.orders", "shop.customers"))
INITIAL = Subject("initial", Aggregate.INITIAL, "shop", ("shop.orders", "shop.customers"))
BOTH = {"data_collections": "shop.orders,shop.customers"}
ORDERS, CUSTOMERS = Namespace("shop", "orders"), Namespace("shop", "customers")


def bound(value: object) -> Bound:
    return Bound(bson.encode({"_id": value}), f"key of {value}")


@pytest.mark.parametrize(
    ("notification", "kind", "data"),
    [
        (INCREMENTAL.started(AT), "STARTED", BOTH),
        (INCREMENTAL.paused(AT), "PAUSED", BOTH),
        (INCREMENTAL.resumed(AT), "RESUMED", BOTH),
        (
            INCREMENTAL.in_progress(AT, "shop.orders", maximum_key="1000", last_processed_key="20"),
            "IN_PROGRESS",
            BOTH
            | {
                "current_collection_in_progress": "shop.orders",
                "maximum_key": "1000",
                "last_processed_key": "20",
            },
        ),
        (
            INCREMENTAL.table_scan_completed(AT, "shop.orders", ScanStatus.SUCCEEDED, rows=1_000),
            "TABLE_SCAN_COMPLETED",
            BOTH | {"scanned_collection": "shop.orders", "total_rows_scanned": "1000", "status": "SUCCEEDED"},
        ),
        (INCREMENTAL.completed(AT), "COMPLETED", {}),
        (INCREMENTAL.aborted(AT, ["shop.orders"]), "ABORTED", {"data_collections": "shop.orders"}),
        (INCREMENTAL.aborted(AT, []), "ABORTED", {"data_collections": ""}),
        (INCREMENTAL.stopped(AT, ["shop.orders"]), "STOPPED", {"data_collections": "shop.orders"}),
        (
            INCREMENTAL.failed(AT, "no such index", "shop.orders"),
            "FAILED",
            BOTH | {"failed_collection": "shop.orders", "error": "no such index"},
        ),
    ],
)
def test_incremental_snapshots_have_the_documented_data(
    notification: Notification, kind: str, data: dict[str, str]
) -> None:
    """Each carries its request's id, the connector's name, and exactly the additional data that is documented."""
    assert notification == Notification(
        "again-1", "Incremental Snapshot", kind, {"connector_name": "shop", **data}, AT
    )


@pytest.mark.parametrize(
    ("notification", "kind", "data"),
    [
        (INITIAL.started(AT), "STARTED", {}),
        (
            INITIAL.in_progress(AT, "shop.orders"),
            "IN_PROGRESS",
            {"current_collection_in_progress": "shop.orders"},
        ),
        (
            INITIAL.table_scan_completed(AT, "shop.orders", ScanStatus.SQL_EXCEPTION, rows=7),
            "TABLE_SCAN_COMPLETED",
            {"scanned_collection": "shop.orders", "status": "SQL_EXCEPTION"},
        ),
        (INITIAL.completed(AT), "COMPLETED", {}),
        (INITIAL.aborted(AT, ["shop.orders"]), "ABORTED", {}),
        (INITIAL.skipped(AT), "SKIPPED", {}),
        (INITIAL.failed(AT, "why"), "FAILED", {"error": "why"}),
    ],
)
def test_initial_and_blocking_snapshots_have_the_documented_data(
    notification: Notification, kind: str, data: dict[str, str]
) -> None:
    """Of MongoDB's initial snapshots neither collections nor rows are listed; their id is their request's."""
    assert notification == Notification(
        "initial", "Initial Snapshot", kind, {"connector_name": "shop", **data}, AT
    )


def test_the_shape_of_a_record() -> None:
    """Key and value have the documented fields, the timestamp a number, and can be read back."""
    made = Subject("ä 1", Aggregate.INCREMENTAL, "shop").completed(AT)
    assert json.loads(made.key_to_json()) == {"id": "ä 1"}
    assert json.loads(made.to_json()) == {
        "id": "ä 1",
        "aggregate_type": "Incremental Snapshot",
        "type": "COMPLETED",
        "additional_data": {"connector_name": "shop"},
        "timestamp": AT,
    }
    assert list(json.loads(made.to_json())) == [
        "id",
        "aggregate_type",
        "type",
        "additional_data",
        "timestamp",
    ]
    assert Notification.from_json(made.to_json()) == made


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"id": 1}', "null", '"x"'])
def test_what_is_no_notification_is_refused(text: str) -> None:
    """Reading back says what it was given."""
    with pytest.raises(ValueError, match="is no notification"):
        Notification.from_json(text)


def request(*tasks: TaskProgress, origin: Origin = Origin.SIGNAL) -> RequestProgress:
    return RequestProgress("again-1", origin, tasks)


RUNNING = TaskProgress(
    ORDERS, state=TaskState.RUNNING, frontier=bound(20), last=bound("zz"), chunks=2, rows=15, superseded=5
)
DONE = TaskProgress(CUSTOMERS, state=TaskState.DONE, rows=90, superseded=10, last=bound(1))


def of(kind: str, *tasks: TaskProgress, namespace: Namespace | None = None, detail: str = "") -> Notification:
    return notification_of(Announce(kind, "again-1", namespace, detail), request(*tasks), "shop", AT)


def test_announcements_become_notifications() -> None:
    """Progress says how far the scan has come, what was read and how much; the announcement which of it is told."""
    both = {"connector_name": "shop", "data_collections": "shop.orders,shop.customers"}
    assert of("STARTED", RUNNING, DONE).additional_data == both
    assert of("IN_PROGRESS", RUNNING, DONE, namespace=ORDERS).additional_data == both | {
        "current_collection_in_progress": "shop.orders",
        "maximum_key": "zz",
        "last_processed_key": "20",
    }
    scanned = of("TABLE_SCAN_COMPLETED", RUNNING, DONE, namespace=CUSTOMERS, detail="SUCCEEDED")
    assert scanned.additional_data["total_rows_scanned"] == "100", "superseded ones were read too"
    assert scanned.additional_data["status"] == "SUCCEEDED"
    assert of("ABORTED", RUNNING, DONE).additional_data["data_collections"] == "shop.orders"
    assert of("STOPPED", RUNNING, DONE).additional_data["data_collections"] == "shop.orders"
    assert {of(kind, DONE, namespace=CUSTOMERS, detail="EMPTY").type for kind in Kind} == set(Kind)


def test_the_origin_gives_the_aggregate_type() -> None:
    """The first start is an initial snapshot, and so is a blocking one; what a rename brought is an incremental one,
    and so is what is not known."""
    announced = Announce("COMPLETED", "x")
    types = {
        origin: notification_of(announced, request(DONE, origin=origin), "shop", AT).aggregate_type
        for origin in Origin
    }
    assert types[Origin.INITIAL] == "Initial Snapshot"
    assert types[Origin.SIGNAL] == types[Origin.RENAME] == "Incremental Snapshot"
    blocking = replace(request(DONE), blocking=True)
    assert notification_of(announced, blocking, "shop", AT).aggregate_type == "Initial Snapshot"
    assert notification_of(announced, None, "shop", AT).aggregate_type == "Incremental Snapshot"


def test_more_data_is_added_and_the_documented_stays_as_documented() -> None:
    """What the core says besides goes out with it; which collections were stopped, only it knows."""
    given = {
        "connector_name": "y",
        "data_collections": "shop.customers",
        "maximum_key": "encoded",
        "rows": "3",
    }

    def made(kind: str, origin: Origin) -> dict[str, str]:
        announced = Announce(kind, "again-1", ORDERS)
        return dict(
            notification_of(announced, request(RUNNING, origin=origin), "shop", AT, given).additional_data
        )

    assert made("COMPLETED", Origin.SIGNAL) == {"connector_name": "shop", "rows": "3"}
    assert made("STARTED", Origin.INITIAL) == {"connector_name": "shop", "rows": "3"}
    assert made("IN_PROGRESS", Origin.SIGNAL)["maximum_key"] == "zz"
    assert made("STARTED", Origin.SIGNAL)["data_collections"] == "shop.orders"
    assert made("ABORTED", Origin.SIGNAL)["data_collections"] == "shop.customers"


def test_a_request_that_failed_as_a_whole_says_why() -> None:
    """Of an end without a reason of its own, the reasons are those of its collections."""
    broken = TaskProgress(ORDERS, state=TaskState.FAILED, error="no index")
    failed = of("FAILED", broken, DONE).additional_data
    assert failed["error"] == "shop.orders: no index"
    assert "failed_collection" not in failed


def test_a_failure_shows_no_credentials() -> None:
    """An address in an error's text leaves without its password."""
    failed = of("FAILED", RUNNING, namespace=ORDERS, detail="mongodb://me:secret@host/ is down")
    assert failed.additional_data["error"] == "mongodb://***:***@host/ is down"
    assert failed.additional_data["failed_collection"] == "shop.orders"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("abc", "abc"),
        (7, "7"),
        (bson.Int64(2**40), str(2**40)),
        (1.5, "1.5"),
        (bson.ObjectId("65f000000000000000000001"), "65f000000000000000000001"),
        (bson.Decimal128("1.50"), '{"$numberDecimal": "1.50"}'),
        ({"a": 1}, '{"a": {"$numberInt": "1"}}'),
        (bson.MinKey(), '{"$minKey": 1}'),
        (bson.datetime_ms.DatetimeMS(2**60), f'{{"$date": {{"$numberLong": "{2**60}"}}}}'),
        (None, "null"),
    ],
)
def test_keys_are_shown_as_text(value: object, text: str) -> None:
    """An id of any type: plain where it has a plain form, Extended JSON where not."""
    assert key_text(bound(value)) == text
    assert key_text(None) == "<null>"


def test_a_key_that_is_no_text_is_shown_as_far_as_it_is() -> None:
    """MongoDB takes strings that are no UTF-8 as ids."""
    raw = bson.encode({"_id": "a?b"}).replace(b"?", b"\xff")
    assert key_text(Bound(raw, "")) == "a\ufffdb"


def test_a_key_that_no_driver_reads_is_shown() -> None:
    """MongoDB takes old binary data without the length that belongs in it."""
    raw = document([(b"_id", (0x05, b"\x02\0\0\0\x02ab"))])
    assert key_text(Bound(raw, "")) == '{"$binary": {"base64": "YWI=", "subType": "02"}}'

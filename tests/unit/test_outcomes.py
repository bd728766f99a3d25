"""What the status collection says of a request, as values: the rows that a reconciling request deleted among them."""

from __future__ import annotations

from signals.outcomes import SnapshotStatus
from snapshotter.core.values.progress import RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.reporting.status_collection import status_of
from streaming.namespaces import Namespace


def test_rows_that_went_are_counted() -> None:
    """Of each collection, and of the request as a whole; they come back from the document as they were written."""
    tasks = tuple(
        TaskProgress(Namespace("shop", name), state=TaskState.DONE, rows=9, deleted=deleted, reconcile=True)
        for name, deleted in (("orders", 2), ("customers", 3))
    )
    written = status_of(RequestProgress("q", Origin.SIGNAL, tasks), "shop")
    assert written.to_document()["collections"][0]["deleted"] == 2
    read = SnapshotStatus.from_document(written.to_document())
    assert read == written
    assert [c.deleted for c in read.collections] == [2, 3]
    assert read.deleted == 5


def test_a_document_of_before_says_none() -> None:
    """One that an engine wrote when deleted rows were not counted yet is read all the same."""
    collection = {"name": "shop.orders", "state": "completed", "rows": 9, "dropped": 1}
    status = SnapshotStatus.from_document({"_id": "q", "state": "completed", "collections": [collection]})
    assert (status.rows, status.dropped, status.deleted) == (9, 1, 0)


def test_a_request_that_waits_for_suspended_collections_says_so() -> None:
    """Whatever else its state would be: it has not ended, and whoever waits for it learns why it stands."""
    task = TaskProgress(Namespace("shop", "orders"))
    waiting = RequestProgress("q", Origin.SIGNAL, (task,))
    assert status_of(waiting, "shop", rests=True).state == "suspended"
    assert not status_of(waiting, "shop", rests=True).ended

"""What the figures say of a status and of what was counted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from snapshotter.metrics.catalogue import ABSENT, CATALOGUE, COUNTED, measured
from snapshotter.metrics.figures import Context, Lag, Look, snake_case
from snapshotter.reporting.status import (
    CollectionReport,
    EngineState,
    ErrorReport,
    GapReport,
    OplogReport,
    Position,
    RequestReport,
    RequestState,
    RestartReport,
    Status,
    SuspensionReport,
    WindowReport,
)
from streaming.mongo.connection_watch import Connection

NOW = datetime(2024, 6, 1, 12, tzinfo=UTC)
R = RequestState


def status(**fields: Any) -> Status:
    return Status(name="shop", **{"state": EngineState.RUNNING, "updated_at": NOW, **fields})


def request(name: str, state: RequestState, *collections: CollectionReport, **fields: Any) -> RequestReport:
    return RequestReport(id=name, state=state, collections=collections, **fields)


def collection(name: str, state: RequestState = R.RUNNING, **fields: Any) -> CollectionReport:
    return CollectionReport(name=f"shop.{name}", state=state, **fields)


def of(context: str, look: Look) -> Mapping[str, Any]:
    return measured(look)[context]


@pytest.mark.parametrize(
    ("attribute", "name"),
    [
        ("LastEvent", "last_event"),
        ("MilliSecondsBehindSource", "milli_seconds_behind_source"),
        ("MilliSecondsBehindSourceP50", "milli_seconds_behind_source_p50"),
        ("SnapshotDurationInSeconds", "snapshot_duration_in_seconds"),
        ("Connected", "connected"),
    ],
)
def test_debeziums_names_in_snake_case(attribute: str, name: str) -> None:
    """Word by word, so that whoever knows the attribute knows the name."""
    assert snake_case(attribute) == name


def test_percentiles_are_looks_that_there_were() -> None:
    """The smallest one that so many looks do not exceed; of one look all are that; of none there are none."""
    lag = Lag.of(range(100, 0, -1))
    assert lag == Lag(1, 100, 50.5, 50, 95, 99)
    assert Lag.of([7]) == Lag(7, 7, 7, 7, 7, 7)
    assert Lag.of([]) is None


def test_what_is_not_known_is_not_shown() -> None:
    """Before the first batch there is no lag and no position, and no event that was the last."""
    found = of("streaming", Look(status()))
    for name in ("milli_seconds_behind_source", "milli_seconds_behind_source_p99", "source_event_position"):
        assert name not in found
    assert "milli_seconds_since_last_event" not in found
    assert found["total_number_of_events_seen"] == 0


def test_streaming_figures() -> None:
    """Lag, position, events by operation, the connection."""
    counts = {
        "events_seen": {"c": 5, "u": 3},
        "last_landed": {"": NOW.timestamp() - 2.5},
        "poll_ms": {"": 120},
    }
    look = Look(
        status(lag_seconds=4, position=Position(t=100, i=7)),
        counts,
        Lag.of([1_000, 4_000]),
        Connection(True, 2, 1),
        tables=3,
    )
    found = of("streaming", look)
    assert (found["milli_seconds_behind_source"], found["milli_seconds_behind_source_max_value"]) == (
        4_000,
        4_000,
    )
    assert found["source_event_position"] == {"sec": 100, "ord": 7}
    seen = [found[f"total_number_of_{kind}events_seen"] for kind in ("", "create_", "update_", "delete_")]
    assert seen == [8, 5, 3, 0]
    assert found["milli_seconds_since_last_event"] == 2_500
    assert (found["connected"], found["number_of_disconnects"], found["number_of_primary_elections"]) == (
        1,
        2,
        1,
    )
    assert (found["captured_tables"], found["last_source_event_poll_time"]) == (3, 120)


def test_snapshots_under_way_are_looked_at_together() -> None:
    """Collections are counted once, and rows of two snapshots in one collection are added up."""
    orders = collection("orders", rows=90, dropped=10, chunks_done=2, estimated_total=400)
    done = collection("people", R.COMPLETED, rows=7, chunks_done=1)
    requests = (
        request("old", R.COMPLETED, collection("items", R.COMPLETED, rows=1), completed_at=NOW),
        request("a", R.RUNNING, orders, done, accepted_at=NOW - timedelta(seconds=50)),
        request("b", R.PAUSED, orders, accepted_at=NOW - timedelta(seconds=30), paused_seconds=12.4),
        request("refused", R.FAILED, error="no such collection"),
    )
    found = of("snapshot", Look(status(requests=requests)))
    assert (found["total_table_count"], found["remaining_table_count"]) == (2, 1)
    assert (found["snapshot_running"], found["snapshot_paused"]) == (1, 1)
    assert (found["snapshot_completed"], found["snapshot_aborted"]) == (0, 0)
    assert found["rows_scanned"] == {"shop.orders": 200, "shop.people": 7}
    assert found["table_chunks_completed_counts"] == {"shop.orders": 4, "shop.people": 1}
    assert (found["snapshot_duration_in_seconds"], found["snapshot_paused_duration_in_seconds"]) == (50, 12)
    ours = of("engine", Look(status(requests=requests)))
    assert ours["rows_estimated"] == {"shop.orders": 800}
    assert ours["requests"] == {
        **dict.fromkeys([state.value for state in R], 0),
        "completed": 1,
        "running": 1,
        "paused": 1,
        "failed": 1,
    }


@pytest.mark.parametrize(("state", "completed"), [(R.COMPLETED, 1), (R.FAILED, 0), (R.STOPPED, 0)])
def test_when_none_is_left_it_is_the_last_that_ended(state: RequestState, completed: int) -> None:
    """How it ended, and how long it took."""
    began, ended = NOW - timedelta(seconds=90), NOW - timedelta(seconds=30)
    requests = (
        request("last", state, collection("orders", state, rows=5), accepted_at=began, completed_at=ended),
        request(
            "first", R.COMPLETED, collection("people", R.COMPLETED), accepted_at=began, completed_at=began
        ),
    )
    found = of("snapshot", Look(status(requests=requests)))
    assert found["rows_scanned"] == {"shop.orders": 5}
    assert (found["snapshot_running"], found["remaining_table_count"]) == (0, 0)
    assert (found["snapshot_completed"], found["snapshot_aborted"]) == (completed, 1 - completed)
    assert found["snapshot_duration_in_seconds"] == 60


def test_before_any_snapshot() -> None:
    """None has run, completed or failed; whether this start had one to make is known."""
    found = of("snapshot", Look(status(), {"loads_skipped": {"": 1}}))
    assert [found[f"snapshot_{name}"] for name in ("running", "completed", "aborted", "skipped")] == [
        0,
        0,
        0,
        1,
    ]
    assert "snapshot_duration_in_seconds" not in found


def test_the_engines_own_figures() -> None:
    """Its state, errors, windows by state, suspended collections, gaps, runway, restarts."""
    window = WindowReport(collection="shop.orders", number=1, state="read")
    suspended = SuspensionReport(
        collection="shop.a", cause="missing", error="gone", next_step="read it", since=NOW
    )
    gap = GapReport(
        number=2, cause="reset", error="moved", policy="continue", since=NOW, left=("shop.a", "shop.b")
    )
    restored = suspended.model_copy(update={"collection": "shop.b", "restored_by": "r1"})
    look = Look(
        status(
            error=ErrorReport(kind="X", message="x"),
            windows=(window, window),
            suspended=(suspended, restored),
            gaps=(gap, gap.model_copy(update={"number": 3, "left": ("shop.a",)})),
            oplog=OplogReport(oldest=NOW, hours=50, runway_hours=47.5),
            restarts=RestartReport(count=2),
        ),
        {"rows_landed": {"read": 9}},
    )
    found = of("engine", look)
    assert found["state"] == {
        "running": 1,
        **{s.value: 0 for s in EngineState if s is not EngineState.RUNNING},
    }
    assert (found["failing"], found["suspended_collections"]) == (1, 1)
    assert found["windows_in_flight"] == {"registered": 0, "open": 0, "read": 2, "closing": 0}
    assert found["rows_landed_total"] == {"change": 0, "read": 9, "delete": 0, "missing": 0}
    assert (found["gaps_open"], found["gap_collections"]) == (2, 2)
    assert (found["oplog_runway_seconds"], found["restarts"]) == (47.5 * 3_600, 2)
    assert found["updated_timestamp_seconds"] == NOW.timestamp()


def test_the_status_holds_them() -> None:
    """They come out of the file as they went in."""
    look = Look(status(lag_seconds=1), {"batches": {"": 3}}, Lag.of([1, 2]))
    written = look.status.model_copy(update={"metrics": measured(look)})
    assert Status.from_json(written.to_json()).metrics == measured(look)
    assert Status.from_json('{"name": "old", "state": "stopped"}').metrics == {}


def test_names_are_there_once_and_counters_end_as_prometheus_wants() -> None:
    """Within a context; an attribute of Debezium's is shown or absent, not both; what is counted has a figure."""
    names = [figure.full_name for figure in CATALOGUE]
    assert len(names) == len(set(names))
    assert not {figure.attribute for figure in CATALOGUE} & set(ABSENT)
    for figure in CATALOGUE:
        assert figure.attribute != "" or figure.context is Context.ENGINE
        assert figure.name.endswith("_total") == (figure.kind == "counter")
    assert "events_seen" in COUNTED

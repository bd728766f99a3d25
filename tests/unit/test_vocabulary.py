"""One vocabulary: an engine in a program and the client of another take the same names, with the same parameters."""

from __future__ import annotations

import inspect
import subprocess
import sys
from datetime import UTC, datetime

import pytest

import signals
import snapshotter
from signals.errors import MalformedSignal, unnamed
from signals.outcomes import CollectionStatus, History, SnapshotFailed, SnapshotStatus
from snapshotter import SnapshotClient, Snapshotter
from snapshotter.errors import ConfigurationError
from snapshotter.reporting.answers import CollectionEstimate, DryRun
from snapshotter.reporting.status import CollectionReport, EngineState, RequestReport, RequestState, Status

SAME = (
    *("execute_snapshot", "pause_snapshot", "resume_snapshot", "stop_snapshot", "dry_run", "status", "log"),
    *(
        "table",
        "pause_stream",
        "resume_stream",
        "restart",
        "wait",
        "close",
        "history",
        "__enter__",
        "__exit__",
    ),
)
STARTED, ENDED = datetime(2026, 11, 27, 14, 5, tzinfo=UTC), datetime(2026, 11, 27, 14, 7, 5, tzinfo=UTC)
DONE = SnapshotStatus(
    "r",
    "completed",
    kind="incremental",
    collections=(CollectionStatus("shop.<orders>", "completed", rows=45_000, keys=3),),
    started_at=STARTED,
    ended_at=ENDED,
)


@pytest.mark.parametrize("name", SAME)
def test_both_are_asked_alike(name: str) -> None:
    """What an engine takes, a client takes under the same name and at the same place; it may take more."""
    ours = list(inspect.signature(getattr(Snapshotter, name)).parameters)
    theirs = list(inspect.signature(getattr(SnapshotClient, name)).parameters)
    assert theirs[: len(ours)] == ours


def test_a_list_where_each_is_an_argument() -> None:
    """Is an error that says how it is given: of collections, and of requests."""
    with SnapshotClient("mongodb://localhost:1", "shop.signals") as client:
        with pytest.raises(
            MalformedSignal, match=r"collections are texts, got \['shop.x'\]; give each by itself"
        ):
            client.execute_snapshot(["shop.x"])  # type: ignore[arg-type]
        for command in (client.pause_snapshot, client.resume_snapshot, client.stop_snapshot):
            with pytest.raises(MalformedSignal, match="ids of requests are texts"):
                command(["r1", "r2"])  # type: ignore[arg-type]


def test_old_names_stay() -> None:
    """Of both; and signals has its own client still."""
    assert all(hasattr(SnapshotClient, name) for name in ("execute", "pause", "resume", "stop", "history"))
    assert all(hasattr(Snapshotter, name) for name in ("pause", "resume", "stop", "live_rows", "table_path"))
    assert issubclass(SnapshotClient, signals.SnapshotClient)
    assert {"SnapshotClient", "Snapshotter"} <= set(snapshotter.__all__)


def test_a_client_needs_no_spark() -> None:
    """Neither to be imported, nor to say where a table lies."""
    code = (
        "import sys\n"
        "from snapshotter import SnapshotClient\n"
        "client = SnapshotClient('mongodb://localhost:1', 'shop.signals', warehouse='/lake/')\n"
        "print(client.table('shop.orders').path, client)\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "/lake/state/shop/orders <SnapshotClient, signals by shop.signals>\n"


def test_a_client_without_a_warehouse_knows_no_table() -> None:
    """It says what it lacks."""
    with SnapshotClient("mongodb://localhost:1", "shop.signals") as client, pytest.raises(ConfigurationError):
        client.table("shop.orders")


def test_statuses_say_what_they_are() -> None:
    """In a line, and in a notebook as a table in which nothing is taken for markup."""
    line = "r completed · incremental, keys · started 2026-11-27 14:05:00 · took 2m05s"
    assert repr(DONE) == f"<{line} · shop.<orders> completed: 45,000 rows>"
    assert DONE.took_seconds == 125.0
    shown = DONE._repr_html_()
    assert "shop.&lt;orders&gt;" in shown
    assert "took 2m05s" in shown
    assert repr(History([DONE, DONE])).count("\n") == 1
    assert repr(History()) == "nothing was asked for"
    table = History([DONE])._repr_html_()
    assert all(word in table for word in ("asked", "started", "ended", "took", "2m05s", "45,000"))
    failed = SnapshotStatus(
        "f", "failed", collections=(CollectionStatus("shop.x", "failed", error="no disk"),)
    )
    assert repr(failed) == "<f failed · shop.x failed: 0 rows · shop.x: no disk>"
    with pytest.raises(SnapshotFailed):
        failed.raise_if_bad()


def test_what_an_engine_says_is_a_line() -> None:
    """Its status, a request of it, and the answer to a dry run; in a notebook a request is a table."""
    part = CollectionReport(name="shop.<orders>", state=RequestState.RUNNING, rows=45_000)
    request = RequestReport(id="r", state=RequestState.RUNNING, collections=(part,), started_at=STARTED)
    status = Status(name="shop", state=EngineState.RUNNING, requests=(request,))
    assert repr(status).startswith("<shop running | lag=unknown events/s=0")
    assert str(status) == repr(status)
    told = repr(request)
    assert told.startswith("<request r is running · incremental · started ")
    assert told.endswith(" so far · shop.<orders> running: 45,000 rows>")
    assert "shop.&lt;orders&gt;" in request._repr_html_()
    answer = DryRun(
        id="d", answered_at=STARTED, collections=(CollectionEstimate(name="a.b", documents=5_000),)
    )
    assert repr(answer) == "<dry run · a.b: 5,000 documents>"
    assert str(answer).splitlines()[0] == "a.b: 5,000 documents"


def test_what_goes_on_has_taken_the_time_so_far() -> None:
    """Up to the newest word of it."""
    running = SnapshotStatus("r", "running", started_at=STARTED, updated_at=ENDED)
    assert repr(running) == "<r running · started 2026-11-27 14:05:00 · took 2m05s so far>"
    assert SnapshotStatus("r", "completed", started_at=STARTED).took_seconds is None


@pytest.mark.parametrize(
    ("made_up", "expected"),
    [(None, "signal 'id': it is wrong, says signal 'id'"), ("id", "it is wrong, says the signal")],
)
def test_a_made_up_id_is_left_out_of_an_error(made_up: str | None, expected: str) -> None:
    """One that was given is not."""
    with pytest.raises(MalformedSignal) as raised, unnamed(made_up):
        raise MalformedSignal("signal 'id': it is wrong, says signal 'id'")
    assert str(raised.value) == expected

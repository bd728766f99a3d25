"""A status as lines: what a terminal of 80 columns shows, and one of 200, in each state of an engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from snapshotter.reporting.status import (
    CollectionReport,
    EngineState,
    ErrorReport,
    RequestReport,
    RequestState,
    RestartReport,
    Status,
    UpkeepReport,
    WindowReport,
)
from snapshotter.reporting.status_html import html_of
from snapshotter.reporting.status_screen import fitting, screen

NOW = datetime(2026, 11, 27, 14, 7, 30, tzinfo=UTC)
LONG_NAME = "warehouse_europe_west.inventory_movements_by_location_and_day"
LONGER_NAME = f"warehouse.{'stock_' * 20}end"


def at(minute: int, second: int = 0) -> datetime:
    return NOW.replace(minute=minute, second=second)


ORDERS = CollectionReport(
    name="shop.orders",
    state=RequestState.RUNNING,
    filter='{"status": "open"}',
    chunks_done=12,
    rows=45_000,
    dropped=5_000,
    estimated_total=200_000,
    rows_per_second=51_234.4,
    eta_seconds=125.0,
)
MOVEMENTS = CollectionReport(
    name=LONG_NAME,
    state=RequestState.RUNNING,
    chunks_done=12_345,
    rows=145_000_000,
    dropped=1_234_567,
    estimated_total=200_000_000,
    rows_per_second=151_234.0,
    eta_seconds=1_250,
)
FIRST = RequestReport(
    id="initial",
    type="initial",
    state=RequestState.COMPLETED,
    started_at=at(0),
    completed_at=at(3, 5),
    collections=(
        CollectionReport(name="shop.customers", state=RequestState.COMPLETED, rows=10, chunks_done=1),
    ),
)
BACKFILL = RequestReport(
    id="backfill-of-november",
    state=RequestState.RUNNING,
    priority=5,
    asked_at=at(4),
    accepted_at=at(4, 1),
    started_at=at(5),
    collections=(ORDERS, MOVEMENTS),
)
KEYS = RequestReport(
    id="three-keys",
    type="blocking",
    state=RequestState.COMPLETED,
    started_at=at(4),
    completed_at=at(4, 2),
    collections=(
        CollectionReport(name="shop.items", state=RequestState.COMPLETED, keys=3, rows=1, chunks_done=1),
    ),
)
QUEUED = RequestReport(id="q7", asked_at=at(6), collections=(CollectionReport(name="shop.people"),))
STATUS = Status(
    name="shop",
    state=EngineState.RUNNING,
    updated_at=NOW,
    pid=42,
    host="db-7",
    lag_seconds=1.26,
    events_total=1_000,
    events_per_second=99.6,
    requests=(FIRST, KEYS, BACKFILL, QUEUED),
    windows=(WindowReport(collection="shop.orders", number=13, state="open"),),
)


def text(status: Status, width: int, now: datetime = NOW, **more: Any) -> str:
    return "\n".join(line.text for line in screen(status, width, now, **more)) + "\n"


AT_80 = """\
shop running · lag=1.3s events/s=100 events=1000 windows=1
request backfill-of-november is running, priority 5 · incremental, filter ·
  started 14:05:00 · took 2m30s so far
  collection             done         rows     rows/s  chunks    dropped    left
  shop.orders     ━────   25%       45,000     51,234      12      5,000   2m05s
  warehouse_europe_west.inventory_movements_by_location_and_day
                  ━━━──   73%  145,000,000    151,234  12,345  1,234,567  20m50s
request q7 is queued · incremental · asked 14:06:00
  shop.people     ─────     -            0     queued       0          0
request three-keys is completed · blocking, keys · started 14:04:00 · took 2s
  shop.items has 1 of the 3 ids that were named
  shop.items      ━━━━━  100%            1  completed       1          0
request initial is completed · initial · started 14:00:00 · took 3m05s
  shop.customers  ━━━━━  100%           10  completed       1          0
windows of shop.orders: 13 open
"""


def test_eighty_columns_cut_no_name_and_no_number() -> None:
    """Bars give way first, and a name that leaves no room for its numbers has a line of its own. Requests say what they
    are, their state, when they started and how long they took; an id that no document has is told by its count."""
    shown = text(STATUS, 80)
    assert shown == AT_80
    assert max(map(len, shown.splitlines())) <= 80


def test_two_hundred_columns_have_all_in_a_line() -> None:
    """The same facts, each collection in one line, below each other."""
    shown = text(STATUS, 200).splitlines()
    assert shown[1].startswith("request backfill-of-november is running")
    assert shown[1].endswith("so far")
    movements = next(line for line in shown if LONG_NAME in line)
    assert movements.split() == [
        *(LONG_NAME, "━" * 17 + "─" * 7, "73%", "145,000,000", "151,234", "12,345", "1,234,567", "20m50s")
    ]
    assert len(movements) == len(next(line for line in shown if "shop.orders  " in line))
    narrow, wide = text(STATUS, 80).split(), text(STATUS, 200).split()
    assert [w for w in narrow if "━" not in w and "─" not in w] == [
        w for w in wide if "━" not in w and "─" not in w
    ]


@pytest.mark.parametrize("width", [20, 50, 79, 80, 120, 200])
def test_whatever_the_width_names_and_numbers_are_whole(width: int) -> None:
    """Also where a name is wider than the terminal, and where it has room for no column."""
    longer = MOVEMENTS.model_copy(update={"name": LONGER_NAME})
    odd = BACKFILL.model_copy(update={"collections": (ORDERS, longer, MOVEMENTS)})
    lines = text(STATUS.model_copy(update={"requests": (odd,)}), width).splitlines()
    for whole in (LONGER_NAME, LONG_NAME, "145,000,000", "12,345", "1,234,567", "151,234", "20m50s"):
        assert any(whole in line for line in lines), whole
    assert all(len(line) <= width or len(line.split()) == 1 for line in lines)


def test_names_in_wide_characters_stand_in_their_columns() -> None:
    """Such a character takes two columns of a terminal."""
    wide = ORDERS.model_copy(update={"name": "店.注文"})
    both = BACKFILL.model_copy(update={"collections": (ORDERS, wide)})
    lines = text(STATUS.model_copy(update={"requests": (both,)}), 80).splitlines()
    (orders,) = [line for line in lines if "shop.orders " in line]
    (other,) = [line for line in lines if "店.注文" in line]
    assert len(orders) == len(other) + 3


FULL = {"failure": "resource", "condition": "disk-full"}
LINES: dict[str, tuple[dict[str, Any], str]] = {
    "running": (
        {"health": "Active"},
        "shop running · lag=1.3s events/s=100 events=1000 windows=1",
    ),
    "paused": (
        {"health": "Paused", "stream_paused": True},
        "shop running, paused · lag=1.3s events/s=100 events=1000 windows=1",
    ),
    "starting": ({"state": EngineState.STARTING}, "shop starting · lag=1.3s events/s=100 events=1000"),
    "stopping": ({"state": EngineState.STOPPING}, "shop stopping · lag=1.3s events/s=100 events=1000"),
    "stopped": (
        {"state": EngineState.STOPPED, "health": "Paused"},
        "shop stopped at 2026-11-27 14:07:30 UTC, 3 min ago\nit said last: lag=1.3s events/s=100 events=1000",
    ),
    "failed": (
        {
            "state": EngineState.FAILED,
            "health": "Broken",
            "error": ErrorReport(kind="GaveUp", message="no room", next_step="make room", **FULL),
        },
        """\
shop failed, broken at 2026-11-27 14:07:30 UTC, 3 min ago
it said last: lag=1.3s events/s=100 events=1000
resource (disk-full): GaveUp: no room
next: make room""",
    ),
    "restarts": (
        {
            "state": EngineState.FAILED,
            "health": "Broken",
            "restarts": RestartReport(enabled=True, count=2, most=7, next_at=at(9)),
        },
        "shop failed, broken, restarts at 14:09:00 UTC (2 of 7 so far)",
    ),
    "lost": (
        {"health": "Active"},
        """\
shop lost: last heard of 3 min ago, at 2026-11-27 14:07:30 UTC (process 42 on
  db-7); it said running
it said last: lag=1.3s events/s=100 events=1000 windows=1
next: look whether process 42 on db-7 hangs, and end it if it does; then
  `snapshotter run -c FILE` goes on behind what has landed""",
    ),
    "gone": (
        {"health": "Active", "gone": True},
        """\
shop lost: last heard of 3 min ago, at 2026-11-27 14:07:30 UTC (process 42 on
  db-7, which is gone); it said running
it said last: lag=1.3s events/s=100 events=1000 windows=1
next: start it again: `snapshotter run -c FILE` goes on behind what has landed""",
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_whether_the_engine_lives_is_said_first(case: str) -> None:
    """With what is wrong and what to do behind it. Of one that does not live no speed is shown, nor what is left: its
    requests have taken as long as they had when it was last heard of."""
    fields, expected = LINES[case]
    alive = case in ("running", "paused", "starting", "stopping")
    now = NOW + timedelta(seconds=1 if alive or case == "restarts" else 180)
    shown = text(STATUS.model_copy(update=fields), 80, now)
    assert shown.startswith(f"{expected}\n") or (case == "restarts" and shown.startswith(expected))
    assert ("51,234" in shown) is alive
    assert ("took 2m31s so far" if alive else "took 2m30s so far") in shown


def test_what_runs_is_always_shown_then_the_newest() -> None:
    """Of 30 that run, 12 that wait and 40 that have ended: all, the head of the queue, the newest; how many more there
    are is said, by their states. ``--all`` leaves out none."""
    running = [RequestReport(id=f"r{n}", state=RequestState.RUNNING) for n in range(30)]
    queued = [RequestReport(id=f"q{n}") for n in range(12)]
    ended = [RequestReport(id=f"e{n}", state=RequestState.COMPLETED) for n in range(40)]
    status = STATUS.model_copy(update={"requests": (*ended, *queued, *running)})
    lines = text(status, 80).splitlines()
    ids = [line.split()[1] for line in lines if line.startswith("request ")]
    assert ids == [*(f"r{n}" for n in range(30)), "q0", "q1", "e39", "e38"]
    assert "… 48 more (--all): 10 queued, 38 completed" in lines
    everything = text(status, 80, every=True)
    assert everything.count("request ") == 82
    assert "more" not in everything


def test_a_request_of_many_collections_shows_those_that_are_read() -> None:
    """And those that failed; of the others the first, and how many more there are."""
    parts = [CollectionReport(name=f"shop.c{n:03}") for n in range(200)]
    parts[150] = parts[150].model_copy(update={"state": RequestState.RUNNING})
    parts[199] = parts[199].model_copy(update={"state": RequestState.FAILED})
    whole = BACKFILL.model_copy(update={"collections": tuple(parts)})
    lines = text(STATUS.model_copy(update={"requests": (whole,)}), 80).splitlines()
    names = [line.split()[0] for line in lines if "shop.c" in line]
    assert names == ["shop.c150", "shop.c199", *(f"shop.c{n:03}" for n in range(6))]
    assert "  … 192 more (--all): 192 queued" in lines


def test_a_terminal_of_24_lines_has_room_for_what_runs() -> None:
    """What does not run gives way."""
    queued = [QUEUED.model_copy(update={"id": f"q{n}"}) for n in range(30)]
    status = STATUS.model_copy(update={"requests": (*queued, FIRST, KEYS, BACKFILL)})
    assert len(fitting(status, 80, 23, NOW)) <= 23
    small = fitting(status, 80, 12, NOW)
    assert len(small) <= 12
    assert any("backfill-of-november" in line.text for line in small)
    assert any(LONG_NAME in line.text for line in small)


def test_why_a_request_ended_badly_is_said_with_what_to_do() -> None:
    """One that was rejected was never started, and has no type; names that it left out are named."""
    failed = BACKFILL.model_copy(
        update={
            "state": RequestState.FAILED,
            "completed_at": at(6),
            "error": "shop.orders: no room",
            "next_step": "make room",
            "collections": (),
        }
    )
    rejected = RequestReport(id="typo", state=RequestState.REJECTED, error="no such type")
    odd = RequestReport(id="odd", state=RequestState.COMPLETED, unknown=("shop.ordres",))
    status = STATUS.model_copy(update={"requests": (failed, rejected, odd), "windows": ()})
    assert text(status, 120).splitlines()[1:] == [
        "request odd is completed · incremental",
        "  left out, for it is no captured collection: shop.ordres",
        "request typo is rejected",
        "  why: no such type",
        "request backfill-of-november failed, priority 5 · incremental · started 14:05:00 · took 1m00s",
        "  why: shop.orders: no room",
        "  next: make room",
    ]


def test_a_notebook_shows_the_same_as_a_table() -> None:
    """A row for each collection; nothing in it is taken for markup."""
    odd = QUEUED.model_copy(update={"id": "<b>q7</b>"})
    shown = html_of(STATUS.model_copy(update={"requests": (BACKFILL, odd)}), NOW)
    assert shown.count("<tr>") == 4
    for expected in (
        "shop running",
        "&lt;b&gt;q7&lt;/b&gt;",
        LONG_NAME,
        "145,000,000",
        "incremental, filter",
    ):
        assert expected in shown
    assert "<b>" not in shown


def test_what_tables_are_made_of_is_one_line_or_one_for_each() -> None:
    """All together where nothing is asked for, with the first that is to be cared for; with ``--all`` each table, the
    oldest version that can be read, and why its files are left alone. What was not looked at is not counted."""
    orders = UpkeepReport(
        collection="shop.orders",
        files=40,
        small_files=32,
        marked_rows=1_204,
        log=9,
        oldest_version=1_120,
        due="32 files of less than 64 MB",
    )
    items = UpkeepReport(collection="shop.items", table="changelog", files=3, lacks="it has row tracking")
    status = Status(
        name="shop", state=EngineState.RUNNING, upkeep=(items, orders, UpkeepReport(collection="shop.new"))
    )

    def told(**how: Any) -> list[str]:
        return [line.text for line in screen(status, 200, NOW, **how)][1:]

    counted, why = "40 files, 32 of them small, with 1,204 rows marked as gone", "32 files of less than 64 MB"
    both = "43 files, 32 or more of them small, with 1,204 or more rows marked as gone"
    assert told() == [f"tables: 2, of {both}; due for shop.orders: {why}"]
    lacks = "its files are left as they are: it has row tracking"
    behind = "9 commits behind the newest checkpoint of the log; versions from 1,120 on can be read"
    assert told(every=True) == [
        f"the changelog of shop.items: 3 files; {lacks}",
        f"shop.orders: {counted}; {behind}; due: {why}",
    ]

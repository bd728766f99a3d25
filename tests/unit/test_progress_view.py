"""Progress on a terminal and in a log."""

from __future__ import annotations

import io
from datetime import UTC, datetime

import pytest
from rich.console import Console

from snapshotter.reporting.progress_view import duration, line, render
from snapshotter.reporting.status import (
    ChangelogReport,
    ChannelReport,
    CollectionReport,
    DeadLettersReport,
    EngineState,
    ErrorReport,
    NotificationReport,
    RequestReport,
    RequestState,
    RestartReport,
    Status,
    TableReport,
    UpkeepReport,
    WindowReport,
)
from snapshotter.reporting.views import LineView, LiveView, SilentView, open_view

ORDERS = CollectionReport(
    name="shop.orders",
    state=RequestState.RUNNING,
    chunks_done=12,
    rows=45_000,
    dropped=5_000,
    estimated_total=200_000,
    rows_per_second=51_234.4,
    eta_seconds=125.0,
)
DONE = CollectionReport(name="shop.customers", state=RequestState.COMPLETED, chunks_done=1, rows=10)
RUNNING = Status(
    name="shop",
    state=EngineState.RUNNING,
    lag_seconds=1.26,
    events_total=1_000,
    events_per_second=99.6,
    requests=(RequestReport(id="r1", state=RequestState.RUNNING, collections=(ORDERS, DONE)),),
    windows=(WindowReport(collection="shop.orders", number=13, state="open"),),
)


def console(*, terminal: bool) -> tuple[Console, io.StringIO]:
    """A console that records, and what it recorded."""
    out = io.StringIO()
    return Console(file=out, width=120, force_terminal=terminal, color_system=None), out


def drawn(status: Status) -> str:
    """What the live display draws for a status."""
    screen, out = console(terminal=True)
    screen.print(render(status))
    return out.getvalue()


def test_the_display_has_a_row_a_collection_and_the_stream() -> None:
    """Bar, share, rows, speed, chunks, dropped, time left; below them lag, events, windows."""
    text = drawn(RUNNING)
    orders, customers = (next(r for r in text.splitlines() if name in r) for name in (ORDERS.name, DONE.name))
    assert orders.split()[-6:] == ["25%", "45,000", "51,234", "12", "5,000", "2m05s"]
    assert "━" in orders
    assert customers.split()[-5:] == ["100%", "10", "completed", "1", "0"]
    assert "shop running · lag=1.3s events/s=100 events=1000 windows=1" in text


def test_windows_in_flight_are_shown_by_collection() -> None:
    """Number, state, and how many READs one holds; an engine that has ended has none."""
    windows = (
        WindowReport(collection="shop.orders", number=13, state="read", rows=45_000),
        WindowReport(collection="shop.people", number=15, state="opening"),
        WindowReport(collection="shop.orders", number=14, state="open"),
    )
    status = RUNNING.model_copy(update={"windows": windows})
    text = drawn(status)
    assert "windows of shop.orders: 13 read 45,000, 14 open" in text
    assert "windows of shop.people: 15 opening" in text
    assert "windows of" not in drawn(status.model_copy(update={"state": EngineState.STOPPED}))


def test_a_table_that_is_written_the_slower_way_is_shown() -> None:
    """With the reason, for somebody may want to change it. The others are what is to be expected."""
    quick = TableReport(collection="shop.orders", written_by="upsert", reason="the table is large")
    slow = TableReport(collection="shop.feed", written_by="merge", reason="it has a feed", slower=True)
    text = drawn(RUNNING.model_copy(update={"tables": (quick, slow)}))
    assert "shop.feed is written by Delta's MERGE, the slower way: it has a feed" in text
    assert "the table is large" not in text


def test_files_that_are_not_kept_in_order_are_named() -> None:
    """With the error; those of a sound table are not."""
    sound = UpkeepReport(collection="shop.orders", files=3)
    failing = UpkeepReport(collection="shop.items", error="a file is gone")
    text = drawn(RUNNING.model_copy(update={"upkeep": (sound, failing)}))
    assert "files of shop.items are not kept in order: a file is gone" in text
    assert "files of shop.orders" not in text


def test_what_changelogs_were_given_is_shown() -> None:
    """Those that were given most, and how many there are besides."""
    reports = [ChangelogReport(collection=f"shop.c{n:02}", events=1_000 * n, reads=n) for n in range(12)]
    text = drawn(RUNNING.model_copy(update={"changelogs": tuple(reports)}))
    assert "the changelog of shop.c11 was given 11,000 events and 11 READs" in text
    assert "shop.c01" not in text
    assert "and 2 more changelogs were written to" in text
    assert "changelog" not in drawn(RUNNING)


def test_an_estimate_that_was_short_does_not_end_a_collection() -> None:
    """The bar is full when the collection is done, not when the estimate is reached."""
    short = ORDERS.model_copy(update={"estimated_total": 10})
    request = RequestReport(id="r1", state=RequestState.RUNNING, collections=(short,))
    assert "99%" in drawn(RUNNING.model_copy(update={"requests": (request,)}))


def test_a_collection_without_estimate_has_no_share() -> None:
    """With a filter nobody knows how many there will be: a dash, not a number."""
    unknown = ORDERS.model_copy(update={"estimated_total": None, "eta_seconds": None})
    request = RequestReport(id="r1", state=RequestState.RUNNING, collections=(unknown,))
    text = drawn(RUNNING.model_copy(update={"requests": (request,)}))
    assert "%" not in text
    assert " - " in text


def test_failures_are_shown_with_the_next_step() -> None:
    """A failed request and a failed engine say why, and what to do."""
    failed = Status(
        name="shop",
        state=EngineState.FAILED,
        error=ErrorReport(kind="Unauthorized", message="not authorized on shop", next_step="grant read"),
        requests=(RequestReport(id="r9", state=RequestState.FAILED, error="shop.x is not captured"),),
    )
    text = drawn(failed)
    for expected in (
        "request r9 failed · incremental\n  why: shop.x is not captured\n",
        "Unauthorized: not authorized",
        "next: grant read",
    ):
        assert expected in text
    assert "lag=unknown" in line(failed)
    assert "Unauthorized: not authorized on shop" in line(failed)
    assert "r9 failed" in line(failed)


def test_an_error_that_is_over_is_shown_still() -> None:
    """With its time: an engine that fails every few minutes is seldom looked at in the moment."""
    at = datetime(2026, 11, 23, 14, 5, 1, tzinfo=UTC)
    last = ErrorReport(kind="SourceUnavailable", message="no primary", next_step="look at MongoDB", at=at)
    going_on = RUNNING.model_copy(update={"last_error": last})
    shown = "goes on after an error at 2026-11-23 14:05:01 UTC: SourceUnavailable: no primary"
    assert shown in line(going_on)
    assert shown in drawn(going_on)
    assert "if it comes back: look at MongoDB" in drawn(going_on)
    assert "next:" not in drawn(going_on), "that is for what is wrong now"
    now = RUNNING.model_copy(update={"error": last.model_copy(update={"next_step": "look, and start again"})})
    assert "next: look; the engine tries again by itself" in drawn(now)
    long = last.model_copy(update={"message": "x" * 300 + "\nTraceback"})
    going_on = RUNNING.model_copy(update={"last_error": long})
    assert line(going_on).endswith(f"SourceUnavailable: {'x' * 200}"), "it is said in every line"
    assert "Traceback" not in drawn(going_on)


def test_an_engine_that_has_ended_goes_on_after_nothing() -> None:
    """What was wrong before, it does not say then."""
    last = ErrorReport(kind="SourceUnavailable", message="no primary", next_step="look at MongoDB")
    stopped = RUNNING.model_copy(update={"last_error": last, "state": EngineState.STOPPED})
    assert "no primary" not in line(stopped)
    assert "look at MongoDB" not in drawn(stopped)


def test_old_requests_make_room() -> None:
    """Of many that have ended the newest are shown; those that are not over are always shown."""
    ended = tuple(
        RequestReport(
            id=f"e{n}",
            state=RequestState.COMPLETED,
            collections=(CollectionReport(name=f"old.c{n}", state=RequestState.COMPLETED),),
        )
        for n in range(20)
    )
    text = drawn(RUNNING.model_copy(update={"requests": (*ended, *RUNNING.requests)}))
    assert "shop.orders" in text
    assert "old.c19" in text
    assert "old.c15 " not in text


def test_lines_come_now_and_then() -> None:
    """One at once, no more until the pause is over; a request that begins or ends does not wait."""
    clock = [0.0]
    screen, out = console(terminal=False)
    ended = RUNNING.model_copy(
        update={"requests": (RUNNING.requests[0].model_copy(update={"state": RequestState.COMPLETED}),)}
    )
    with LineView(screen, every_seconds=5, now=lambda: clock[0]) as view:
        for moment in (0.0, 1.0, 4.9, 5.0):
            clock[0] = moment
            view.update(RUNNING)
        assert len(out.getvalue().splitlines()) == 2
        view.update(ended)
        assert len(out.getvalue().splitlines()) == 3
        view.update(ended.model_copy(update={"events_total": 2_000}))
        assert len(out.getvalue().splitlines()) == 3
        view.message("signal [r1] sent")
    lines = out.getvalue().splitlines()
    assert lines[3] == "signal [r1] sent"
    assert "events=2000" in lines[4], "what was held back is said at the end"
    assert len(lines) == 5


def test_a_line_has_the_facts() -> None:
    """Stream and collections in one line, however long, without control characters."""
    screen, out = console(terminal=False)
    with LineView(screen) as view:
        view.update(RUNNING)
    assert out.getvalue() == (
        "shop running | lag=1.3s events/s=100 events=1000 windows=1"
        " | shop.orders running rows=45000/200000 chunks=12 dropped=5000 rows/s=51234 eta=2m05s"
        " | shop.customers completed rows=10 chunks=1 dropped=0\n"
    )


def test_a_line_says_until_when_changes_wait() -> None:
    """Where landings are put off: what looks like a lag is meant."""
    at = datetime(2026, 1, 2, 14, 8, 12, tzinfo=UTC)
    screen, out = console(terminal=False)
    with LineView(screen) as view:
        view.update(RUNNING.model_copy(update={"next_landing_at": at}))
    assert "events=1000 windows=1 changes wait until 14:08:12 UTC | shop.orders" in out.getvalue()


def test_the_live_display_keeps_messages_and_the_last_state() -> None:
    """Messages scroll above; when the view is left, the last table stays."""
    screen, out = console(terminal=True)
    with LiveView(screen) as view:
        view.update(RUNNING)
        view.message("signal sent")
    assert "signal sent" in out.getvalue()
    assert "shop.orders" in out.getvalue().rpartition("signal sent")[2]


def test_the_view_fits_the_stream() -> None:
    """What is no terminal gets lines."""
    out = io.StringIO()
    with open_view(out) as view:
        assert isinstance(view, LineView)
        view.message("hello")
    assert out.getvalue() == "hello\n"


def test_the_silent_view_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """For programs that embed an engine."""
    with SilentView() as view:
        view.update(RUNNING)
        view.message("x")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.4, "0s"), (59.6, "1m00s"), (125, "2m05s"), (3_720, "1h02m"), (-1, "0s")],
)
def test_durations(seconds: float | None, text: str) -> None:
    """As a person says them."""
    assert duration(seconds) == text


def test_a_channel_that_does_not_work_is_shown() -> None:
    """With its reason, in a line and on a terminal; not those that work, and not once the engine has ended."""
    channels = (ChannelReport(name="file"), ChannelReport(name="kafka", trouble="Kafka at k1: gone"))
    status = RUNNING.model_copy(update={"channels": channels})
    for text in (line(status), drawn(status)):
        assert "signals by kafka do not come: Kafka at k1: gone" in text
        assert "by file" not in text
    assert "kafka" not in line(status.model_copy(update={"state": EngineState.STOPPED}))


def test_a_notification_channel_that_does_not_keep_up_is_shown() -> None:
    """A dead one with its last error, a slow one with what waits and what it has lost; not those that keep up."""
    told = (
        NotificationReport(name="log", waiting=3),
        NotificationReport(name="sink", waiting=12, trouble="no broker"),
        NotificationReport(name="delta", waiting=10_000, dropped=7),
    )
    status = RUNNING.model_copy(update={"notifications": told})
    assert Status.from_json(status.to_json()).notifications == told
    for text in (line(status), drawn(status)):
        assert "notifications by sink are not taken (12 wait, 0 were dropped): no broker" in text
        assert "notifications by delta are taken slowly: 10000 wait, 7 were dropped" in text
        assert "by log" not in text
    assert "delta" not in line(status.model_copy(update={"state": EngineState.STOPPED}))


def test_a_long_queue_is_cut_short() -> None:
    """What runs comes first, then the head of the queue, then how many more there are."""
    queued = [RequestReport(id=f"q{n}", state=RequestState.QUEUED) for n in range(1_000)]
    (running,) = [r for r in RUNNING.requests if r.state is RequestState.RUNNING][:1]
    status = RUNNING.model_copy(update={"requests": (*queued, running)})
    text = drawn(status)
    assert "shop.orders" in text
    assert "request q0 is queued" in text
    assert "q900" not in text
    assert "… 996 more (--all): 996 queued" in text
    assert "and 981 more requests wait" in line(status)


def test_dead_letters_that_wait_are_shown() -> None:
    """With the newest one's reason, and what to do; once all are replayed nothing is said."""
    dead = DeadLettersReport(
        total=5, waiting=2, collection="shop.people", error="two fields meet", next_step="see them"
    )
    status = Status(name="e", state=EngineState.RUNNING, dead_letters=dead)
    text = "2 of 5 dead letters wait; the newest of shop.people: two fields meet; next: see them"
    assert text in line(status)
    assert text in " ".join(drawn(status).split())
    done = status.model_copy(update={"dead_letters": dead.model_copy(update={"waiting": 0})})
    assert "dead letters" not in line(done) + drawn(done)


def test_health_is_shown_where_it_is_not_active() -> None:
    """A pause, and a breakdown with the time of the restart, how many there were, and the class of the error."""
    assert "shop running ·" in drawn(RUNNING.model_copy(update={"health": "Active"}))
    assert "shop running, paused ·" in drawn(RUNNING.model_copy(update={"health": "Paused"}))
    due = datetime(2026, 11, 23, 14, 5, 1, tzinfo=UTC)
    error = ErrorReport(kind="GaveUp", message="no room", failure="resource", condition="disk-full")
    broken = {
        "state": EngineState.FAILED,
        "health": "Broken",
        "error": error,
        "restarts": RestartReport(enabled=True, count=2, most=7, next_at=due),
    }
    failed = RUNNING.model_copy(update=broken)
    for text in (drawn(failed), line(failed)):
        assert "shop failed, broken, restarts at 14:05:01 UTC (2 of 7 so far)" in text
        assert "resource (disk-full): GaveUp: no room" in text

"""The page in a real browser, fed with recorded statuses: what a person sees, and what a person can do.

No engine runs; the server and the inbox are real. One browser serves all of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Keys

from signals.actions import (
    ExecuteSnapshot,
    PauseSnapshot,
    PauseStream,
    Restart,
    ResumeSnapshot,
    StopSnapshot,
    Write,
)
from snapshotter.configuration.page_config import PageConfig
from snapshotter.page.history import History
from snapshotter.page.standalone import standalone
from snapshotter.reporting.answers import CollectionEstimate, DryRun, write_answer
from snapshotter.reporting.status import RequestReport, RequestState
from tests.support.chromium import DESK, PHONE, UNREADABLE, Browser, chromium
from tests.support.pages import CUSTOMERS, ORDERS, TOKEN, Stage, backfill, landed, moment, staged, trouble

CLOCK = "return [...document.querySelectorAll('#strip text')].map((e) => e.textContent).find((s) => s.includes(':'))"
"""What the right end of the strip says of the time."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def stage() -> Iterator[Stage]:
    with staged(Stage(lives=True)) as found:
        backfill(found, moment())
        yield found


def unlocked(stage: Stage) -> str:
    """The page's address as the engine prints it."""
    return f"{stage.address}#token={TOKEN}"


def sent(browser: Browser, stage: Stage, number: int = 1) -> list[Any]:
    """The signals that have come, once there are so many."""
    return list(
        browser.wait(f"{number} signals", lambda: len(stage.received()) >= number and stage.received())
    )


def test_what_is_seen(browser: Browser, stage: Stage) -> None:
    """Health, the figures, collections with their progress, windows as they open and land, snapshots with a report;
    nothing is asked of anywhere else, and the browser finds nothing to complain of."""
    browser.open(stage.address)
    browser.says("#name", "shop")
    assert browser.text("#headline") == "Reading shop.orders while changes stream"
    assert browser.text("#state") == "running"
    assert [browser.text(f"#{name}") for name in ("lag", "changes", "rows")] == ["1 s", "512", "31,250"]
    assert browser.text("#runway") == "2.9 days"
    orders = browser.text(f'#collections > li[data-key="{ORDERS}"]')
    for shown in ("running", "by nightly", "24 %", "480,000 of 2,000,000", "31,250", "49 s", "1,764"):
        assert shown in orders
    assert "streaming" in browser.text('#collections > li[data-key="shop.items"]')
    assert browser.run("return document.querySelector('#collections progress').value") == pytest.approx(0.24)
    assert len(browser.all("#strip .window")) == 26
    assert len(browser.all("#strip .superseded")) == 7
    assert "2 in flight, 24 landed in 120 s, 588 READs superseded" in browser.text("#windows-said")
    browser.click("#requests summary")
    report = browser.text('#requests > li[data-key="nightly"]')
    for shown in ("incremental", "478,236", "470,000", "8,000", "236"):
        assert shown in report
    assert "took 3.4 s" in browser.text('#requests > li[data-key="customers-again"]')
    browser.click("main .card:nth-of-type(2) summary")
    browser.wait("the table of windows", lambda: len(browser.all("#windows tr")) == 20)
    names = browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert {name.removeprefix(stage.address) for name in names} <= {"page.css", "page.js", "api/events"} | {
        name for name in names if name.startswith("data:")
    }
    assert browser.complaints() == []


def test_it_follows_the_engine(browser: Browser, stage: Stage) -> None:
    """What has changed is drawn within a second or so; what is open in it stays open. Where the engine is gone that is
    said, with when it was heard of last, and taken back once it is there again."""
    browser.open(stage.address)
    browser.click("#requests summary")
    assert stage.status is not None
    (nightly, earlier) = stage.status.requests
    orders = nightly.collections[0].model_copy(update={"rows": 1_998_236, "rows_per_second": 7.25})
    nightly = nightly.model_copy(update={"collections": (orders,)})
    stage.status = stage.status.model_copy(update={"requests": (nightly, earlier), "updated_at": moment()})
    browser.says("#collections", "100 %")
    assert browser.text("#rows") == "7"
    assert "1,998,236" in browser.text("#requests .report")
    stage.status = stage.status.model_copy(update={"requests": (earlier,), "updated_at": moment()})
    browser.says("#headline", "Changes land as they come")
    assert len(browser.all("#requests > li")) == 1
    port = stage.port
    stage.endpoint.close()
    browser.says("#lost", "The engine does not answer since")
    stage.site.config = replace(stage.site.config, port=port)
    stage.endpoint.open()
    browser.wait("the engine to be there again", lambda: not browser.find("#lost").is_displayed())
    assert "updated" in browser.text("#fresh")


def test_what_comes_from_data_is_text(browser: Browser) -> None:
    """Ids, names and errors that would be HTML are shown as they are; the worst is said first, each with what to do."""
    with staged() as stage:
        trouble(stage, moment())
        browser.open(stage.address)
        browser.says("#headline", "The engine tries again after an error: mongo-1:27017: connection refused")
        assert browser.text("#next") == "see whether MongoDB is up"
        assert browser.text("#state") == "running, broken"
        assert "onerror" in browser.text("#requests .error")
        assert browser.text("#requests .title") == "<b>nightly</b>"
        assert browser.all("main img, main b, main script") == []
        assert browser.run("return document.title") == "shop · snapshotter"
        notes = browser.text("#notes")
        assert "connection: source-away" in notes
        assert "shop.items is suspended" in notes
        assert "send execute-snapshot for it with reconcile" in notes
        assert browser.complaints() == []


def test_decisions_go_as_signals(browser: Browser, stage: Stage) -> None:
    """With the token of the address, which does not stay there. What cannot be taken back is asked about first, and
    nothing is sent where the answer is no."""
    browser.open(unlocked(stage))
    browser.click('[aria-label="Pause nightly"]')
    browser.says("#toast", "pause-snapshot was sent")
    assert browser.run("return location.hash") == ""
    assert TOKEN not in browser.run("return document.documentElement.outerHTML")
    (pause,) = sent(browser, stage)
    assert isinstance(pause, PauseSnapshot)
    assert pause.requests == ("nightly",)
    browser.click('[aria-label="Stop nightly"]')
    assert "It cannot be resumed" in browser.text("#confirm")
    browser.click('#confirm button[value="no"]')
    browser.click('[aria-label="Stop nightly"]')
    browser.click("#confirm-yes")
    stop = sent(browser, stage, 2)[1]
    assert isinstance(stop, StopSnapshot)
    assert stop.requests == ("nightly",)
    browser.click("#do-stream")
    browser.click("#confirm-yes")
    assert isinstance(sent(browser, stage, 3)[2], PauseStream)
    browser.click("#do-restart")
    browser.click("#confirm-yes")
    assert isinstance(sent(browser, stage, 4)[3], Restart)
    assert stage.status is not None
    paused = stage.status.requests[0].model_copy(update={"state": RequestState.PAUSED})
    stage.status = stage.status.model_copy(
        update={"requests": (paused,), "stream_paused": True, "updated_at": moment()}
    )
    browser.says("#do-stream", "Resume stream")
    browser.click('[aria-label="Resume nightly"]')
    assert isinstance(sent(browser, stage, 5)[4], ResumeSnapshot)


def test_the_token_is_asked_for(browser: Browser, stage: Stage) -> None:
    """Before anything acts, and again where it is not the engine's; whoever gives none has sent nothing."""
    browser.open(stage.address)
    browser.run("sessionStorage.clear()")
    browser.open(stage.address)
    browser.click('[aria-label="Pause nightly"]')
    browser.says("#unlock", "The engine's token")
    browser.click("#unlock [data-close]")
    browser.says("#toast", "nothing was sent")
    browser.click('[aria-label="Pause nightly"]')
    browser.find("#token").send_keys("wrong", Keys.ENTER)
    browser.says("#unlock-wrong", "This is not the engine's token")
    assert stage.received() == []
    browser.find("#token").send_keys(TOKEN, Keys.ENTER)
    sent(browser, stage)


def test_where_others_reach_it_the_token_is_asked_for_to_look(browser: Browser) -> None:
    """Nothing of the engine is shown before."""
    with staged(Stage(PageConfig("0.0.0.0", 0, TOKEN))) as stage:
        backfill(stage, moment())
        browser.open(stage.address)
        browser.run("sessionStorage.clear()")
        browser.open(stage.address)
        browser.says("#unlock", "The engine's token")
        assert browser.text("#name") == "…"
        browser.find("#token").send_keys(TOKEN, Keys.ENTER)
        browser.says("#name", "shop")
        browser.run("sessionStorage.clear()")


def test_a_snapshot_is_tried_before_it_is_started(browser: Browser, stage: Stage) -> None:
    """Start is there once the engine has said what this very form would read; a change of the form takes it back. What
    is wrong is said in the dialog, and nothing is read."""
    browser.open(unlocked(stage))
    browser.click("#do-snapshot")
    assert not browser.find("#start").is_enabled()
    browser.click("#dry")
    browser.says("#estimate", "Choose a collection")
    browser.click(f'#known input[value="{ORDERS}"]')
    browser.click("#snapshot summary")
    browser.find("#filter").send_keys('{"status": ')
    browser.click("#dry")
    browser.says("#estimate", "filter")
    browser.find("#filter").send_keys('"open"}')
    browser.find("#id").send_keys("tonight")
    browser.click("#all")
    browser.click("#dry")
    (dry,) = sent(browser, stage)
    assert isinstance(dry, ExecuteSnapshot)
    assert dry.dry_run
    amounts = {"documents": 1_200, "bytes": 360_000, "seconds": 2.5}
    part = CollectionEstimate(name=ORDERS, counted=True, **amounts)
    answered = DryRun(id=dry.id, answered_at=moment(), collections=(part,), rows_per_second=480, **amounts)
    write_answer(stage.storage, answered)
    browser.says("#estimate", f"{ORDERS}: 1,200 documents, about 360.0 kB, about 2.5 s")
    assert browser.find("#start").is_enabled()
    browser.click(f'#known input[value="{CUSTOMERS}"]')
    assert not browser.find("#start").is_enabled()
    browser.click(f'#known input[value="{CUSTOMERS}"]')
    browser.click("#dry")
    again = sent(browser, stage, 2)[1]
    write_answer(stage.storage, answered.model_copy(update={"id": again.id}))
    browser.click("#start")
    started = sent(browser, stage, 3)[2]
    assert isinstance(started, ExecuteSnapshot)
    assert (started.id, started.data_collections, started.dry_run) == ("tonight", (ORDERS,), False)
    assert started.write is Write.ALL
    assert json.loads(started.additional_conditions[0].filter) == {"status": "open"}
    browser.wait("the dialog to close", lambda: not browser.find("#snapshot").is_displayed())


def test_a_dry_run_that_is_refused_is_said_in_the_dialog(browser: Browser, stage: Stage) -> None:
    """The engine's own reason, which comes with its status."""
    browser.open(unlocked(stage))
    browser.click("#do-snapshot")
    browser.find("#pattern").send_keys("shop.ordres")
    browser.click("#dry")
    (dry,) = sent(browser, stage)
    refused = RequestReport(
        id=dry.id, state=RequestState.REJECTED, error="shop.ordres is no captured collection"
    )
    assert stage.status is not None
    stage.status = stage.status.model_copy(update={"requests": (refused,), "updated_at": moment()})
    browser.says("#estimate", "shop.ordres is no captured collection")
    assert not browser.find("#start").is_enabled()
    browser.find("#pattern").send_keys(Keys.ESCAPE)


def test_the_keyboard_is_enough(browser: Browser, stage: Stage) -> None:
    """In the order of the page; a dialog takes the focus and gives it back, Escape leaves it, and what is focused stays
    so while the page is drawn anew."""
    browser.open(unlocked(stage))
    browser.says("#name", "shop")
    body, order = browser.find("body"), []
    for _ in range(6):
        body.send_keys(Keys.TAB) if not order else browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        order.append(browser.focused())
    assert order[:5] == ["Skip to the content", "do-stream", "do-restart", "do-snapshot", "do-replay"]
    browser.run("document.getElementById('do-snapshot').focus()")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.wait("the dialog", lambda: browser.find("#snapshot").is_displayed())
    assert browser.run("return document.getElementById('snapshot').contains(document.activeElement)")
    browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    browser.wait("the dialog to close", lambda: not browser.find("#snapshot").is_displayed())
    assert browser.focused() == "do-snapshot"
    browser.run("""document.querySelector('[aria-label="Pause nightly"]').focus()""")
    at = browser.run(CLOCK)
    browser.wait("another drawing", lambda: browser.run(CLOCK) != at)
    here = browser.driver.switch_to.active_element
    assert here.get_attribute("aria-label") == "Pause nightly"
    assert browser.run("return getComputedStyle(document.activeElement).outlineStyle") != "none"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_it_can_be_read_and_touched(
    browser: Browser, stage: Stage, size: tuple[int, int], dark: bool
) -> None:
    """On a phone and on a desk, in light and in dark: nothing sticks out, contrast is enough, all that is operated has
    a name, and a finger finds it."""
    for scene in (backfill, trouble):
        scene(stage, moment())
        browser.open(unlocked(stage), size, dark=dark)
        browser.says("#name", "shop")
        assert browser.run("return document.scrollingElement.scrollWidth") <= size[0]
        assert browser.run(UNREADABLE) == []
        ground = browser.run("return getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, ground[4:-1].split(","))) < 120) is dark
        assert nameless(browser) == []
    for opener, dialog in (("#do-snapshot", "#snapshot"), ("#do-restart", "#confirm")):
        browser.click(opener)
        browser.wait(f"{dialog} to open", lambda name=dialog: browser.find(name).is_displayed())
        assert browser.run(UNREADABLE) == []
        assert nameless(browser, dialog) == []
        browser.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    buttons = [e for e in browser.all("button:not(.link)") if e.is_displayed()]
    assert size == DESK or [e.text for e in buttons if e.rect["height"] < 40] == []


OPERATED = ("button", "a", "input", "select", "textarea", "progress", "svg[role]")


def nameless(browser: Browser, within: str = "body") -> list[str | None]:
    """What can be operated, is shown, and has no name for whoever does not see it."""
    shown = [e for e in browser.all(",".join(f"{within} {kind}" for kind in OPERATED)) if e.is_displayed()]
    return [e.get_attribute("outerHTML") for e in shown if not e.accessible_name]


def test_a_recording_replays_in_the_page(browser: Browser) -> None:
    """At its own pace or faster, from any moment; nothing can be decided meanwhile, and then it is live again."""
    stage, now = Stage(lives=True), moment()
    for second in range(20):
        backfill(stage, now - timedelta(seconds=20 - second))
        stage.site.history.note(stage.status)
    backfill(stage, now)
    with staged(stage):
        browser.open(unlocked(stage))
        browser.says("#name", "shop")
        browser.click("#do-replay")
        browser.says("#fresh", "replay")
        assert not browser.find("#do-snapshot").is_displayed()
        assert not any(e.is_displayed() for e in browser.all('[aria-label="Pause nightly"]'))
        began = len(browser.all("#strip .window .landed"))
        browser.run(
            "document.getElementById('speed').value = '16'; document.getElementById('speed').onchange()"
        )
        browser.says("#play", "Play again")
        assert len(browser.all("#strip .window .landed")) == 12 > began
        browser.run("const s = document.getElementById('seek'); s.value = 0; s.oninput()")
        assert browser.text("#moment").startswith("0 s of")
        browser.click("#play")
        browser.says("#play", "Pause")
        browser.click("#do-live")
        browser.says("#fresh", "updated")
        assert browser.find("#do-snapshot").is_displayed()
        assert browser.complaints() == []


def test_one_file_replays_without_an_engine(browser: Browser, stage: Stage, tmp_path: Path) -> None:
    """From the disk, under a policy that allows nothing but what is in it. Another recording can be opened in it; what
    is none is refused."""
    history, start = History(), datetime(2024, 6, 1, 12, tzinfo=UTC)
    for second in range(3):
        backfill(stage, start + timedelta(seconds=second))
        history.note(stage.status)
    file = tmp_path / "replay.html"
    file.write_text(standalone(history.recording([landed(1, start, dropped=3)])), encoding="utf-8")
    browser.open(file.as_uri())
    browser.says("#name", "shop")
    browser.says("#fresh", "replay")
    assert not browser.find("#do-live").is_displayed()
    assert not browser.find("#as-json").is_displayed()
    browser.says("#play", "Play again")
    assert browser.run("return document.querySelectorAll('#strip .superseded').length") == 1
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"format": 2}')
    browser.find("#open").send_keys(str(wrong))
    browser.says("#toast", "This is no recording")
    good = tmp_path / "good.json"
    good.write_bytes(history.recording([]))
    browser.find("#open").send_keys(str(good))
    browser.says("#play", "Pause")
    assert browser.complaints() == []

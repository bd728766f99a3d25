"""The page of a real engine, in a real browser: a snapshot is tried, started and watched, the stream is paused."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from snapshotter.page.tokens import FILE
from snapshotter.reporting.status import RequestState
from snapshotter.testing.processes import free_port, wait_until
from tests.support.chromium import chromium
from tests.support.engines import SECONDS, Lab, Reads, lab, reads

__all__ = ["lab", "reads"]

pytestmark = pytest.mark.guard


def test_an_engine_is_watched_and_steered(lab: Lab, reads: Reads) -> None:
    """engine.http.port opens it for this machine; the token lies beside the state, for its owner alone. What is asked
    for there is carried out as any signal is, and seen there: windows with the READs that a change superseded, the
    snapshot with its report, the stream paused and resumed. Without the token nothing happens."""
    orders, name, port = lab.collection("orders"), lab.name("orders"), free_port()
    orders.insert_many([{"_id": n, "v": 0} for n in range(40)])
    reads.before = lambda number, job: orders.update_one({"_id": 1}, {"$set": {"v": number + 1}})
    lab.with_options(snapshot__mode="no_data", engine__http__port=port)
    address = f"http://127.0.0.1:{port}/"
    with chromium() as browser, lab.running() as running:
        token = (lab.state / FILE).read_text().strip()
        assert (lab.state / FILE).stat().st_mode & 0o777 == 0o600
        assert refused(address) == 401
        browser.open(f"{address}#token={token}")
        browser.says("#headline", "Changes land as they come")
        browser.click("#do-snapshot")
        browser.find("#pattern").send_keys(name)
        browser.click("#snapshot summary")
        browser.find("#id").send_keys("tonight")
        browser.click("#dry")
        browser.says("#estimate", f"{name}: 40 documents")
        assert reads.jobs == []
        browser.click("#start")
        running.until("the signal", lambda: running.engine.journal.requests or reads.jobs, SECONDS)
        request = running.wait("tonight", SECONDS)
        browser.says("#requests", "completed")
        browser.click("#requests summary")
        browser.says('#requests > li[data-key="tonight"]', str(request.tasks[0].rows))
        assert request.tasks[0].superseded > 0
        assert browser.all("#strip .window .superseded")
        browser.click("#do-stream")
        browser.click("#confirm-yes")
        browser.says("#headline", "The stream is paused: nothing lands")
        wait_until(lambda: running.engine.rests, "the stream to rest")
        browser.click("#do-stream")
        browser.says("#headline", "Changes land as they come")
        with urllib.request.urlopen(f"{address}api/recording", timeout=30) as answer:
            recording = json.loads(answer.read())
        assert sum(window["rows"] for window in recording["windows"]) == request.tasks[0].rows
        assert lab.status().requests[0].state is RequestState.COMPLETED
        running.catch_up(SECONDS)
        running.stop()
        browser.says("#lost", "The engine does not answer")
    lab.assert_equal("orders")


def refused(address: str) -> int:
    """The code of the answer to a signal that the page did not send."""
    said = {
        "Content-Type": "application/json",
        "Origin": address.rstrip("/"),
        "Authorization": "Bearer guessed",
    }
    wanted = urllib.request.Request(f"{address}api/signals", b'{"type": "pause-stream"}', said)
    try:
        with urllib.request.urlopen(wanted, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code

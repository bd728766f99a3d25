"""The newest minutes of an engine, and the file that replays them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from snapshotter.page import history
from snapshotter.page.history import IDLE_MS, History
from snapshotter.page.standalone import standalone
from snapshotter.reporting.status import EngineState, RequestReport, RequestState, Status
from tests.support.pages import landed

START = datetime(2024, 6, 1, 12, tzinfo=UTC)


def status(second: float, *, busy: bool = True, name: str = "shop") -> Status:
    reads = (RequestReport(id="r", state=RequestState.RUNNING),) if busy else ()
    at = START + timedelta(seconds=second)
    return Status(name=name, state=EngineState.RUNNING, updated_at=at, lag_seconds=second, requests=reads)


def test_a_status_is_noted_once() -> None:
    """However often it is looked at, and by whomever; before the first there is none."""
    found = History()
    found.note(None)
    for second in (0, 0, 1, 1, 2):
        found.note(status(second))
    assert [sample[1] for sample in found.samples] == [0, 1, 2]
    assert len(found.frames) == 3


def test_an_idle_engine_fills_no_memory() -> None:
    """A frame now and then is enough; the curves have every second."""
    found = History()
    for second in range(60):
        found.note(status(second, busy=False))
    assert len(found.samples) == 60
    assert len(found.frames) == 60_000 // IDLE_MS


def test_an_end_is_kept_at_once() -> None:
    """The last frame of a recording shows what came out, however soon the engine ends after it."""
    found = History()
    for second, busy in ((0, True), (1, True), (2, False), (3, False)):
        found.note(status(second, busy=busy))
    assert len(found.frames) == 3
    found.note(status(4, busy=False).model_copy(update={"state": EngineState.STOPPED}))
    assert json.loads(found.recording([]))["frames"][-1]["model"]["engine"]["state"] == "stopped"


def test_the_oldest_frames_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may run for years."""
    monkeypatch.setattr(history, "BYTES_MAX", 20_000)
    found = History()
    for second in range(100):
        found.note(status(second))
    assert sum(len(text) for _, text in found.frames) <= 20_000
    recorded = json.loads(found.recording([]))
    assert recorded["frames"][-1]["model"]["stream"]["lag_seconds"] == 99
    assert recorded["frames"][0]["model"]["stream"]["lag_seconds"] > 0


def test_a_recording_has_the_windows_of_its_time() -> None:
    """Not those that had landed before it began."""
    found = History()
    found.note(status(10))
    found.note(status(11))
    windows = [landed(1, START), landed(2, START + timedelta(seconds=9))]
    recorded = json.loads(found.recording(windows))
    assert recorded["format"] == 1
    assert [w["number"] for w in recorded["windows"]] == [2]
    assert [frame["model"]["stream"]["lag_seconds"] for frame in recorded["frames"]] == [10, 11]


def test_one_file_replays_it() -> None:
    """With everything in it; only that script and that style may run, and nothing in the data can end its element."""
    found = History()
    found.note(status(0, name="</script><script>alert(1)</script>"))
    page = standalone(found.recording([]))
    assert re.findall(r'(?:src|href)="(?!data:|#)([^"]+)"', page) == ["api/page"]
    assert "alert(1)" in page
    assert "</script><script>alert" not in page
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    for element, directive in (("style", "style-src"), ("script", "script-src")):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy[1]
    (data,) = re.findall(r'<script type="application/json" id="recording">(.*?)</script>', page, re.DOTALL)
    assert json.loads(data) == json.loads(found.recording([]))

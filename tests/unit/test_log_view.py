"""Progress as log lines: one JSON object each."""

from __future__ import annotations

from structlog.testing import capture_logs

from snapshotter.reporting.log_view import LogView
from snapshotter.reporting.status import EngineState, RequestReport, RequestState, Status

RUNNING = Status(
    name="shop",
    state=EngineState.RUNNING,
    health="Active",
    lag_seconds=2.0,
    requests=(
        RequestReport(id="again", state=RequestState.RUNNING),
        RequestReport(id="old", state=RequestState.COMPLETED),
    ),
)


def test_a_line_now_and_then_and_at_each_change() -> None:
    """Of state, of health, of a request's state; what has ended is left out."""
    now = 0.0
    with capture_logs() as logs, LogView(every_seconds=5.0, now=lambda: now) as view:
        view.update(RUNNING)
        view.update(RUNNING.model_copy(update={"lag_seconds": 3.0}))
        view.update(RUNNING.model_copy(update={"health": "Broken"}))
        now = 5.0
        view.update(RUNNING.model_copy(update={"health": "Broken"}))
        view.message("signal sent")
    assert [(line["event"], line.get("health")) for line in logs] == [
        ("progress", "Active"),
        ("progress", "Broken"),
        ("progress", "Broken"),
        ("signal sent", None),
    ]
    first = logs[0]
    assert (first["engine"], first["state"], first["lag_seconds"]) == ("shop", "running", 2.0)
    assert first["requests"] == {"again": "running"}

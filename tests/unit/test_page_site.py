"""The page's port over HTTP: what it shows and to whom, what it refuses, and where its signals go."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.client import HTTPConnection

import pytest

from signals.actions import ExecuteSnapshot, PauseSnapshot, PauseStream, Restart
from snapshotter.configuration.metrics_config import MetricsConfig
from snapshotter.configuration.page_config import PageConfig
from snapshotter.errors import ConfigurationError
from snapshotter.metrics.endpoint import Endpoint, check_port
from snapshotter.page import site
from snapshotter.reporting.answers import CollectionEstimate, DryRun, write_answer
from snapshotter.reporting.status import RequestReport, RequestState
from snapshotter.state.storage import StorageError
from snapshotter.testing.processes import free_port, wait_until
from tests.support.pages import TOKEN, Stage, backfill, moment, staged


@pytest.fixture
def stage() -> Iterator[Stage]:
    with staged() as found:
        yield found


PAUSE = {"type": "pause-stream", "id": "p"}


def test_the_page_and_its_files(stage: Stage) -> None:
    """They come from here alone, and the browser is told to take nothing from elsewhere."""
    for path, kind in (("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")):
        code, headers, content = stage.ask(path)
        assert (code, headers["content-type"]) == (200, f"{kind}; charset=utf-8")
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        text = content.decode()
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text
        assert "innerHTML" not in text
        assert " style=" not in text
    assert stage.opened == [stage.port]


def test_before_the_first_status_there_is_nothing_to_show(stage: Stage) -> None:
    """The page answers from the start on."""
    assert stage.ask("/api/page")[2]["model"] is None
    assert stage.ask("/api/status")[0] == 404
    assert stage.ask("/api/recording")[2]["frames"] == []
    assert stage.ask("/healthz")[2] == b"starting\n"


def test_the_same_data_as_json(stage: Stage) -> None:
    """What the page shows; the status as the command line prints it; the figures for Prometheus."""
    backfill(stage, moment())
    assert stage.status is not None
    found = stage.ask("/api/page")[2]
    assert found["model"]["engine"]["headline"] == "Reading shop.orders while changes stream"
    assert [w["number"] for w in found["windows"]] == list(range(26))
    assert found["samples"][-1][1:] == [1, 512.4]
    assert stage.ask("/api/status")[2] == json.loads(stage.status.to_json())
    assert stage.ask("/metrics")[0] == 200
    assert stage.ask("/readyz")[2] == b"ready\n"
    assert stage.ask("/", "HEAD")[::2] == (200, b"")


def test_windows_of_another_run_are_not_in_flight(stage: Stage) -> None:
    """What a run that has failed had open is gone."""
    backfill(stage, moment())
    assert stage.status is not None
    stage.status = stage.status.model_copy(update={"run_id": "run-2"})
    assert all(w["landed"] for w in stage.ask("/api/page")[2]["windows"])


def events(stage: Stage, number: int) -> list[dict[str, object]]:
    """So many of the server-sent events."""
    connection = HTTPConnection("127.0.0.1", stage.port, timeout=30)
    try:
        connection.request("GET", "/api/events")
        answer = connection.getresponse()
        assert answer.getheader("content-type", "").startswith("text/event-stream")
        found = []
        while len(found) < number:
            line = answer.readline()
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:]))
        return found
    finally:
        connection.close()


def test_events_follow_the_engine(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """The first at once, then about one a second; what is open does not keep the port from being closed."""
    backfill(stage, moment())
    first, second = events(stage, 2)
    assert first["model"] is not None
    assert isinstance(second["at"], int)
    assert isinstance(first["at"], int)
    assert second["at"] > first["at"]
    connection = HTTPConnection("127.0.0.1", stage.port, timeout=30)
    connection.request("GET", "/api/events")
    answer = connection.getresponse()
    assert answer.readline().startswith(b"data: ")
    closing = threading.Thread(target=stage.endpoint.close)
    closing.start()
    while answer.readline():
        pass
    closing.join(5)
    assert not closing.is_alive()
    assert [
        record.message for record in caplog.records
    ] == []  # it has ended by itself; nothing was cancelled
    connection.close()


def test_no_more_pages_than_there_is_room_for(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that probes are answered still; one that is closed makes room."""
    monkeypatch.setattr(site, "STREAMS_MAX", 1)
    connection = HTTPConnection("127.0.0.1", stage.port, timeout=30)
    connection.request("GET", "/api/events")
    connection.getresponse().readline()
    assert stage.ask("/api/events")[0] == 503
    connection.close()
    wait_until(lambda: events_are_open(stage), "the stream that was closed to end")


def events_are_open(stage: Stage) -> bool:
    connection = HTTPConnection("127.0.0.1", stage.port, timeout=30)
    try:
        connection.request("GET", "/api/events")
        return connection.getresponse().status == 200
    finally:
        connection.close()


def test_signals_go_into_the_inbox(stage: Stage) -> None:
    """As any other way of sending them: by their type, with their data, under an id of their own or one made up."""
    assert stage.act({"type": "pause-snapshot", "data": {"requests": ["nightly"]}, "id": "p1"}) == (
        202,
        {"id": "p1"},
    )
    code, said = stage.act({"type": "restart"})
    assert code == 202
    data = {"data-collections": ["shop.orders"], "reconcile": True}
    assert stage.act({"type": "execute-snapshot", "data": data, "id": "again"})[0] == 202
    pause, restart, execute = stage.received()
    assert pause == PauseSnapshot("p1", ("nightly",))
    assert restart == Restart(said["id"])
    assert said["id"].startswith("page-")
    assert execute == ExecuteSnapshot("again", ("shop.orders",), reconcile=True)


@pytest.mark.parametrize(
    ("signal", "code", "why"),
    [
        ({"type": "explode"}, 400, "unknown type"),
        ({"data": {}}, 400, "a type"),
        ({"type": "execute-snapshot", "data": {}}, 400, "data-collections"),
        ([1], 400, "one JSON object"),
        (b"{", 400, "signal"),
        (b"\xff", 400, "signal"),
        ({"type": "snapshot-window-open", "id": "w"}, 400, "no signal"),
        ({"type": "log", "data": {"message": "x" * 70_000}}, 413, "65,536 bytes"),
    ],
)
def test_what_is_no_signal_is_refused(stage: Stage, signal: object, code: int, why: str) -> None:
    """With what is wrong with it, and what to do; nothing is sent."""
    found, said = stage.act(signal)
    assert (found, why in said["error"]) == (code, True), said
    assert "page-" not in said["error"]
    assert said["next"]
    assert stage.received() == []


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Origin": ""}, 403),
        ({"Origin": "http://evil.example.org"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example.org"}, 421),
        ({"Host": "evil.example.org", "Origin": "http://evil.example.org"}, 421),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Type": ""}, 415),
    ],
)
def test_what_does_not_come_from_the_page_does_nothing(
    stage: Stage, headers: dict[str, str], code: int
) -> None:
    """Neither without the token, nor from elsewhere, nor as a form of another page would send it."""
    found, said = stage.act(PAUSE, **headers)
    assert found == code, said
    assert TOKEN not in json.dumps(said)
    assert stage.received() == []
    assert stage.act(PAUSE)[0] == 202
    assert stage.received() == [PauseStream("p")]


def test_an_id_that_waits_already(stage: Stage) -> None:
    """Is said to, and the first one stays."""
    assert stage.act(PAUSE)[0] == 202
    assert stage.act({"type": "restart", "id": "p"})[0] == 409
    assert stage.received() == [PauseStream("p")]


def test_a_state_that_cannot_be_written(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender is told, and may try again."""

    def refuse(path: str, text: str) -> bool:
        raise StorageError("the disk is full")

    monkeypatch.setattr(stage.storage, "create_text", refuse)
    assert stage.act(PAUSE) == (
        503,
        {"error": "the disk is full", "next": "nothing was sent: try again when the state can be reached"},
    )


@pytest.mark.parametrize(
    "path", ["/", "/api/page", "/api/status", "/api/recording", "/api/answers/x", "/page.js"]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_else_acts(stage: Stage, path: str, method: str) -> None:
    """Whatever comes with the token; and nothing acts by GET."""
    headers = {"Origin": stage.address.rstrip("/"), "Authorization": f"Bearer {TOKEN}"}
    assert stage.ask(path, method, {}, **headers)[0] == 405
    assert stage.ask("/api/signals", "GET")[0] == 405


@pytest.mark.parametrize(
    "path", ["/index.html", "/static/page.js", "/../etc/passwd", "/api/", "/api/answers/"]
)
def test_there_is_nothing_else(stage: Stage, path: str) -> None:
    """No other file, and no list of them."""
    assert stage.ask(path)[0] in (404, 202)
    assert b"root:" not in (stage.ask(path)[2] if isinstance(stage.ask(path)[2], bytes) else b"")


def test_a_dry_run_is_answered(stage: Stage) -> None:
    """Once the engine has; an earlier answer under its id is none to this one."""
    write_answer(stage.storage, DryRun(id="d/1", answered_at=datetime.now(UTC), error="an old one"))
    data = {"data-collections": ["shop.orders"], "dry-run": True}
    assert stage.act({"type": "execute-snapshot", "data": data, "id": "d/1"})[0] == 202
    assert stage.ask("/api/answers/d%2F1")[::2] == (202, {"waits": True})
    part = CollectionEstimate(name="shop.orders", documents=12)
    write_answer(
        stage.storage, DryRun(id="d/1", answered_at=datetime.now(UTC), collections=(part,), documents=12)
    )
    code, _, said = stage.ask("/api/answers/d%2F1")
    assert (code, said["documents"], said["error"]) == (200, 12, None)


def test_a_dry_run_that_is_refused(stage: Stage) -> None:
    """The engine says so in its status, and the sender is told the reason."""
    backfill(stage, moment())
    assert stage.status is not None
    refused = RequestReport(
        id="d2", state=RequestState.REJECTED, error="shop.ordres is no captured collection"
    )
    stage.status = stage.status.model_copy(update={"requests": (refused,)})
    assert stage.ask("/api/answers/d2")[::2] == (200, {"id": "d2", "error": refused.error})


def test_where_others_reach_it_looking_needs_the_token_too() -> None:
    """Its files and the probes do not."""
    with staged(Stage(PageConfig("0.0.0.0", 0, TOKEN, ("lake.example.org",)))) as stage:
        backfill(stage, moment())
        for path in ("/api/page", "/api/events", "/api/status", "/api/recording", "/api/answers/x"):
            assert stage.ask(path)[0] == 401
        assert stage.ask("/api/page", Authorization=f"Bearer {TOKEN}", Host="lake.example.org")[0] == 200
        assert stage.ask("/")[0] == 200
        assert stage.ask("/metrics", Host="10.0.0.7:8585")[0] == 200
        assert stage.ask("/api/page", Authorization=f"Bearer {TOKEN}", Host="10.0.0.7")[0] == 421


def at(port: int, path: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_metrics_port_shows_nothing_of_the_page() -> None:
    """The three paths are at each port, the page is at its own alone."""
    with staged(Stage(metrics=MetricsConfig("127.0.0.1", 0))) as stage:
        port = stage.endpoint.port
        assert port is not None
        assert port != stage.port
        assert [at(port, path) for path in ("/metrics", "/healthz", "/", "/api/page")] == [200, 200, 404, 404]
        assert [at(stage.port, path) for path in ("/metrics", "/healthz", "/")] == [200, 200, 200]


def test_one_port_for_both() -> None:
    """Then the page is there, and the three paths; it is free again afterwards, and may be opened again."""
    port = free_port()
    with staged(Stage(PageConfig(port=port, token=TOKEN), MetricsConfig(port=port))) as stage:
        assert [at(port, path) for path in ("/metrics", "/", "/api/page")] == [200, 200, 200]
        stage.endpoint.close()
        stage.endpoint.open()
        assert at(port, "/") == 200
    check_port(PageConfig(port=port))


def test_a_port_that_is_taken() -> None:
    """An error that names the page's option; the metrics' port is let go of."""
    with staged() as other:
        taken, free = PageConfig(port=other.port, token=TOKEN), free_port()
        stage = Stage(taken, MetricsConfig(port=free))
        with pytest.raises(ConfigurationError, match=rf"engine\.http\.port = {other.port}"):
            stage.endpoint.open()
        check_port(MetricsConfig(port=free))
        with pytest.raises(ConfigurationError) as refusal:
            check_port(taken)
        assert "another engine.http.port" in str(refusal.value.next_step)


def test_without_a_port_there_is_no_page() -> None:
    """Nor a server."""
    stage = Stage(PageConfig(port=None))
    stage.endpoint.open()
    assert (stage.endpoint.page_port, stage.opened) == (None, [])
    Endpoint(MetricsConfig(), lambda: None).open()

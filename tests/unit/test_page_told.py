"""The address of the page: who is told of it, and who of the token."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from signals.actions import PauseStream
from snapshotter.engine import web
from snapshotter.engine.assembly import engine_config
from snapshotter.engine.engine import Engine
from snapshotter.engine.web import Told
from snapshotter.page.tokens import FILE, Token
from snapshotter.testing.processes import free_port
from tests.unit.test_settings import made

MADE_UP = Token("s3cret", made_up=True, file=Path("state/http-token"))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True)))


@pytest.mark.usefixtures("terminal")
def test_a_terminal_is_told_once_with_the_token() -> None:
    """So that a click opens it; the log never has it, nor is it said again when the engine restarts."""
    said: list[str] = []
    told = Told("127.0.0.1")
    with capture_logs() as logged:
        told.tell(8_585, MADE_UP, said.append)
        told.tell(8_585, MADE_UP, said.append)
    assert said == ["page: http://127.0.0.1:8585/#token=s3cret"]
    assert "s3cret" not in str(logged)
    assert "state/http-token" in str(logged)


def test_elsewhere_it_is_said_where_the_token_is() -> None:
    """What is not a terminal may be a log that others read."""
    said: list[str] = []
    Told("::1").tell(8_585, MADE_UP, said.append)
    assert said == ["page: http://[::1]:8585/ (its token is in state/http-token)"]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("token", "where"),
    [
        (Token("s3cret"), "its token is engine.http.token"),
        (MADE_UP, "#token=s3cret"),
        (Token("s3cret", made_up=True), "#token=s3cret"),
    ],
)
def test_one_that_was_set_is_not_shown(token: Token, where: str) -> None:
    """Whoever set it knows it. An address that is every one is opened by this machine's own."""
    said: list[str] = []
    Told("0.0.0.0").tell(8_585, token, said.append)
    (line,) = said
    assert line.startswith("page: http://127.0.0.1:8585/")
    assert where in line


def test_an_engine_serves_its_page_and_finds_its_token(tmp_path: Path) -> None:
    """Before it has started anything: no MongoDB and no Spark is asked. What is sent there waits in its inbox, which is
    beside the token."""
    port = free_port()
    options = {"engine_http_port": port, "delta_warehouse": str(tmp_path)}
    engine = Engine(_no_spark, engine_config(made(**options)))
    engine.endpoint.open()
    try:
        state = tmp_path / "_snapshotter" / "shop"
        token, address = (state / FILE).read_text().strip(), f"http://127.0.0.1:{port}"
        headers = {"Authorization": f"Bearer {token}", "Origin": address, "Content-Type": "application/json"}
        body = b'{"type": "pause-stream", "id": "rest"}'
        wanted = urllib.request.Request(f"{address}/api/signals", body, headers)
        with urllib.request.urlopen(wanted, timeout=30) as answer:
            assert answer.status == 202
        assert [path.name for path in (state / "inbox").iterdir()] == ["rest.json"]
        assert [one.action for one in engine.inbox.poll()] == [PauseStream("rest")]
    finally:
        engine.endpoint.close()


def _no_spark() -> SparkSession:
    raise AssertionError("nothing of this needs Spark")


def test_a_program_is_told_nothing() -> None:
    """It asks the engine; without a place to keep one, the log says what to set."""
    with capture_logs() as logged:
        Told("127.0.0.1").tell(8_585, Token("s3cret", made_up=True), None)
    assert "to act there, set engine.http.token" in str(logged)
    assert "s3cret" not in str(logged)

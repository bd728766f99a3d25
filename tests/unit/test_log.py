"""Log lines: where they go, and what is never in them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from snapshotter.log import LogFormat, set_up, warn_of


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Logging as it was before."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """One object a line, from structlog and from libraries alike; standard output stays free."""
    set_up(LogFormat.JSON)
    structlog.get_logger("x").info("landed", rows=5)
    logging.getLogger("library").warning("lost %s", "it")
    captured = capsys.readouterr()
    own, foreign = (json.loads(text) for text in captured.err.splitlines())
    assert captured.out == ""
    assert (own["event"], own["rows"], own["level"]) == ("landed", 5, "info")
    assert (foreign["event"], foreign["level"]) == ("lost it", "warning")


def test_key_value_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Time, level, event, then the rest."""
    set_up()
    structlog.get_logger("x").info("window closed", collection="shop.orders", kept=5)
    text = capsys.readouterr().err
    assert text.startswith("timestamp=")
    assert 'level=info event="window closed" collection=shop.orders kept=5\n' in text


def test_levels(capsys: pytest.CaptureFixture[str]) -> None:
    """Below the level nothing is written; libraries that chatter are held to warnings."""
    set_up(level="info")
    structlog.get_logger("x").debug("no")
    logging.getLogger("py4j.clientserver").info("no")
    assert capsys.readouterr().err == ""


def test_credentials_are_masked(capsys: pytest.CaptureFixture[str]) -> None:
    """In values, in events, and in tracebacks."""
    set_up(LogFormat.JSON)
    log = structlog.get_logger("x")
    log.info("to mongodb://u:hunter2@h/", uri="mongodb://u:hunter2@h/")
    try:
        int("mongodb://u:hunter2@h/")
    except ValueError:
        log.exception("failed")
    text = capsys.readouterr().err
    assert "mongodb://***:***@h/" in text
    assert "hunter2" not in text


def test_what_is_lived_with_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Its cause is. The whole of it is for those who look into it, at the level debug."""
    error = RuntimeError(
        "a job failed\n: java.io.IOException: no room\n\tat org.apache.x.Y(Z.scala:1)\n" * 50
    )
    set_up(LogFormat.JSON, "info")
    warn_of(structlog.get_logger("x"), "tried again", error, wait_ms=5)
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert (line["event"], line["error"], line["wait_ms"]) == (
        "tried again",
        "java.io.IOException: no room",
        5,
    )
    set_up(LogFormat.JSON, "debug")
    warn_of(structlog.get_logger("x"), "tried again", error)
    _, whole = map(json.loads, capsys.readouterr().err.splitlines())
    assert (whole["level"], whole["of"]) == ("debug", "tried again")
    assert whole["exception"].count("no room") == 50

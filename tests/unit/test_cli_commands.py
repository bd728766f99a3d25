"""Commands to an engine: what they send, what they refuse, what they wait for, and what a shell completes."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from signals.actions import (
    TYPE_NAMES,
    Log,
    PauseSnapshot,
    ResumeSnapshot,
    StopSnapshot,
)
from signals.channels.inbox_channel import InboxChannel
from snapshotter.cli import waiting
from snapshotter.cli.app import app
from snapshotter.reporting.status import (
    STATUS_FILE,
    CollectionReport,
    CommandReport,
    EngineState,
    RequestReport,
    RequestState,
    Status,
)
from snapshotter.state.storage import LocalStorage
from tests.support.shop_engine import config, invoke, report, state

__all__ = ["config", "state"]


@pytest.mark.parametrize("kind", ["pause-stream", "resume-stream", "restart"])
def test_commands_about_the_stream_go_by_the_inbox(config: Path, state: LocalStorage, kind: str) -> None:
    """Also while MongoDB is away, as it is here."""
    sent = invoke(kind, "-c", config, "--id", "one")
    assert sent.exit_code == 0, sent.output
    assert sent.stdout == "one\n"
    (received,) = InboxChannel(state).poll()
    assert received.action is not None
    assert TYPE_NAMES[type(received.action)] == kind
    again = invoke(kind, "-c", config, "--id", "one")
    assert again.exit_code == 2
    assert "waits already" in again.stderr


def test_pause_resume_and_stop_are_signals_too(config: Path, state: LocalStorage) -> None:
    """Each waits in the inbox under its id; a stop may name collections. So does a message for the log."""
    report(state, requests=(RequestReport(id="q1"), RequestReport(id="q2")))
    assert invoke("pause-snapshot", "-c", config, "--id", "p").stdout == "p\n"
    assert invoke("resume-snapshot", "-c", config, "--id", "r").exit_code == 0
    assert invoke("stop-snapshot", "-c", config, "--id", "s", "shop.orders").exit_code == 0
    assert invoke("stop-snapshot", "-c", config, "--id", "all").exit_code == 0
    named = ("--request", "q1", "--request", "q2")
    for name in ("pause", "resume", "stop"):
        assert invoke(f"{name}-snapshot", "-c", config, "--id", f"{name}s", *named).exit_code == 0
    assert invoke("log", "-c", config, "--id", "l", "at {}").exit_code == 0
    received = {r.id: r.action for r in InboxChannel(state).poll()}
    assert received == {
        "p": PauseSnapshot("p"),
        "r": ResumeSnapshot("r"),
        "s": StopSnapshot("s", ("shop.orders",)),
        "all": StopSnapshot("all"),
        "pauses": PauseSnapshot("pauses", ("q1", "q2")),
        "resumes": ResumeSnapshot("resumes", ("q1", "q2")),
        "stops": StopSnapshot("stops", requests=("q1", "q2")),
        "l": Log("l", "at {}"),
    }


@pytest.mark.parametrize("command", ["pause-snapshot", "resume-snapshot", "stop-snapshot"])
def test_a_command_about_a_request_that_there_is_not(config: Path, state: LocalStorage, command: str) -> None:
    """Exit 2 with the ones that there are, those that go on first, and nothing is sent. One that waits for the engine
    is there, and ``--force`` asks nobody."""
    none = invoke(command, "-c", config, "--request", "q1")
    assert (none.exit_code, "there is no request q1; there is none; nothing was sent" in none.stderr) == (
        2,
        True,
    )
    ended = RequestReport(id="done", state=RequestState.COMPLETED)
    report(state, requests=(RequestReport(id="backfill-1"), ended))
    near = invoke(command, "-c", config, "--request", "backfil-1", "--request", "done")
    assert near.exit_code == 2
    assert "there is no request backfil-1; there are backfill-1, done; nothing was sent" in near.stderr
    assert InboxChannel(state).poll() == []
    assert invoke(command, "-c", config, "--request", "backfil-1", "--force").exit_code == 0
    assert invoke("execute-snapshot", "-c", config, "a.b", "--force", "--id", "early").exit_code == 0
    assert invoke(command, "-c", config, "--request", "early").exit_code == 0


def test_a_command_is_waited_for(config: Path, state: LocalStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the engine has carried it out and its effect shows; what it met is said."""
    running = RequestReport(id="r", state=RequestState.RUNNING)
    report(state, requests=(running,), run_id="one")
    done: dict[str, Any] = {}

    def engine(seconds: float) -> None:
        """Carries out what waits, and says so at the second look."""
        for received in InboxChannel(state).poll():
            met = () if received.id in ("b", "p") else ("r",)
            kind = TYPE_NAMES[type(received.action)]
            done.setdefault(received.id, CommandReport(id=received.id, type=kind, requests=met, met=len(met)))
            InboxChannel(state).ack(received.name)
        ended = running.model_copy(update={"state": RequestState.STOPPED})
        later = {"run_id": "two", "stream_paused": "p" in done}
        report(state, requests=(ended,), commands=tuple(done.values()), **later)

    monkeypatch.setattr(waiting, "time", SimpleNamespace(sleep=engine, monotonic=time.monotonic))
    stopped = invoke("stop-snapshot", "-c", config, "--request", "r", "--id", "s", "--wait")
    assert stopped.exit_code == 0, stopped.output
    assert "stop-snapshot s is carried out (r)" in stopped.stderr
    report(state, requests=(running,), run_id="one")
    assert invoke("restart", "-c", config, "--id", "b", "--wait").exit_code == 0
    paused = invoke("pause-stream", "-c", config, "--id", "p", "--wait")
    assert (paused.exit_code, "pause-stream p is carried out" in paused.stderr) == (0, True)
    late = invoke("log", "-c", config, "--wait", "--timeout", "0", "hello")
    assert late.exit_code == 3


def test_made_up_ids_are_in_no_message(config: Path, state: LocalStorage) -> None:
    """Nobody has seen them; those of requests are printed, for whoever wants to ask for them later."""
    ids = []
    for words in (["pause-snapshot"], ["log", "x"], ["execute-snapshot", "a.b", "--force"], ["restart"]):
        sent = invoke(*words, "-c", config)
        assert sent.exit_code == 0, sent.output
        ids.append(sent.stdout.strip())
        assert ids[-1] not in sent.stderr
    wrong = invoke("execute-snapshot", "-c", config, "a.b", "--key", "1", "--min", "1")
    assert "error: keys and range exclude each other" in wrong.stderr
    late = invoke("execute-snapshot", "-c", config, "a.b", "--force", "--dry-run", "--timeout", "0")
    assert "the dry run has no answer after 0 s" in late.stderr


def test_check_gives_the_health_as_an_exit_code(config: Path, state: LocalStorage) -> None:
    """In one line: 0 Active, 1 Paused or stopped, 3 Broken or lost."""
    now = datetime.now(UTC)
    cases: list[tuple[int, dict[str, Any]]] = [
        (0, {"health": "Active"}),
        (1, {"health": "Paused", "stream_paused": True}),
        (1, {"state": EngineState.STOPPED}),
        (3, {"health": "Broken"}),
        (3, {"state": EngineState.FAILED}),
        (3, {"health": "Active", "updated_at": now - timedelta(seconds=90)}),
    ]
    for code, fields in cases:
        told = Status(**{"name": "shop", "state": EngineState.RUNNING, "updated_at": now, **fields})
        state.write_text(STATUS_FILE, told.to_json())
        checked = invoke("status", "-c", config, "--check")
        assert (checked.exit_code, len(checked.stdout.splitlines())) == (code, 1), fields
    assert invoke("status", "-c", config, "--check", "--watch").exit_code == 2


def test_a_shell_completes_requests_and_collections(
    config: Path, state: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From what the engine last said, and where MongoDB is away; without a configuration nothing, and no noise."""
    part = CollectionReport(name="shop.orders")
    report(state, requests=(RequestReport(id="first", collections=(part,)), RequestReport(id="fifth")))

    def completed(words: str) -> list[str]:
        monkeypatch.setenv("_SNAPSHOTTER_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
        return CliRunner().invoke(app, [], prog_name="snapshotter").stdout.split()

    assert completed(f"snapshotter pause-snapshot -c {config} --request fi") == ["fifth", "first"]
    assert completed(f"snapshotter execute-snapshot -c {config} sh") == ["shop.orders"]
    assert completed("snapshotter execute-snapshot sh") == []
    assert completed("snapshotter execute-snapshot -c nowhere.json sh") == []


def test_without_a_connection_nobody_looks_at_the_names(config: Path, state: LocalStorage) -> None:
    """That is said, and the signal is sent; with ``--force`` nobody wants to look."""
    sent = invoke("execute-snapshot", "-c", config, "shop.orders", "--id", "a")
    assert sent.exit_code == 0
    assert "warning: nobody looked whether there are such collections" in sent.stderr
    assert "nobody looked" not in invoke("execute-snapshot", "-c", config, "shop.orders", "--force").stderr

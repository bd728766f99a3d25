"""What a command waits for is the answer to its own signal, not to an earlier one of that id."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from signals.actions import ExecuteSnapshot, PauseSnapshot
from signals.channels.inbox_channel import InboxChannel
from snapshotter.cli import waiting
from snapshotter.cli.waiting import all_ended
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.memory import LONG_AGO
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.reading.catalogue import digest_of
from snapshotter.reporting.status import CommandReport, EngineState, RequestReport, RequestState, Status
from snapshotter.state.journal import Journal
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import LocalStorage
from streaming.namespaces import Namespace
from tests.support.shop_engine import config, invoke, report, state

__all__ = ["config", "state"]

NOW = datetime.now(UTC)
ASK = ("execute-snapshot", "a.b", "--force", "--id", "x", "--wait")


def rejected(why: str, seconds: float = 0, name: str = "x") -> RequestReport:
    """A rejection, so many seconds after the first."""
    at = NOW + timedelta(seconds=seconds)
    return RequestReport(id=name, state=RequestState.REJECTED, error=why, completed_at=at)


def request(state: RequestState, **fields: object) -> RequestReport:
    return RequestReport.model_validate({"id": "x", "state": state, **fields})


def known(state: LocalStorage, action: ExecuteSnapshot) -> None:
    """Its journal has the request."""
    wanted = (Wanted(Namespace.parse("a.b")),)
    Journal(state).add(SnapshotRequest(action.id, wanted, digest=digest_of(action)))


@pytest.fixture
def engine(
    state: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Iterator[tuple[RequestReport, ...]]], None]:
    """Called with what the engine says of requests, look after look."""

    def says(looks: Iterator[tuple[RequestReport, ...]]) -> None:
        report(state, requests=next(looks))
        look = SimpleNamespace(sleep=lambda _: report(state, requests=next(looks)), monotonic=time.monotonic)
        monkeypatch.setattr(waiting, "time", look)

    return says


@pytest.mark.parametrize("how", [[], ["--dry-run"]])
def test_a_rejection_that_was_there_before_is_no_answer(
    config: Path, engine: Callable[..., None], how: list[str]
) -> None:
    """A signal that is corrected comes again under its id: what counts is what is said from then on, also where the
    reason is the same."""
    old, new = rejected("no such thing"), rejected("no such thing", 5)
    looks = iter([(old,), (old,), (new,)])
    engine(looks)
    asked = [part for part in ASK if not how or part != "--wait"]
    told = invoke(asked[0], "-c", config, *asked[1:], *how)
    assert told.exit_code == 3, told.output
    assert "x was rejected: no such thing" in told.stderr
    assert list(looks) == [], "it has waited for the new one"


def test_a_rejection_that_is_repeated_is_no_answer(config: Path, engine: Callable[..., None]) -> None:
    """An engine that starts anew comes past the same signal once more: sent when it was, and refused just now."""
    old, new = (rejected("no such thing", at).model_copy(update={"asked_at": NOW}) for at in (0, 3))
    other = rejected("no such thing", 5).model_copy(update={"asked_at": NOW + timedelta(seconds=4)})
    looks = iter([(old,), (new,), (new, other)])
    engine(looks)
    assert invoke(ASK[0], "-c", config, *ASK[1:]).exit_code == 3
    assert list(looks) == [], "it has waited for the answer to its own"


def test_a_request_that_is_no_longer_known(
    config: Path, state: LocalStorage, engine: Callable[..., None]
) -> None:
    """It ended, and so many others since that nobody knows how: that is the answer, and not a wait without end."""
    ask = ExecuteSnapshot("x", ("a.b",))
    known(state, ask)
    (request_,) = Journal(state).requests
    over = RequestProgress.accepted(request_)
    over = replace(over.with_task(over.tasks[0].stopped()), ended_in=3)
    Journal(state).forget(Progress(3, requests=(over,)))
    ProgressStore(state).save(Progress(4, requests=(over,)))
    looks = iter([(), ()])

    def one_look_later(_seconds: float) -> None:
        report(state, requests=next(looks))
        ProgressStore(state).save(Progress(5))

    engine(iter([()]))
    waiting.time.sleep = one_look_later  # type: ignore[assignment] # this test's own, see `engine`
    told = invoke(ASK[0], "-c", config, *ASK[1:])
    assert (told.exit_code, told.stdout) == (3, "x\n"), told.output
    assert "request x has ended, and the engine no longer knows how" in told.stderr
    assert list(looks) == [()], "as long as progress has it, its status is waited for"


def test_a_command_that_is_rejected(config: Path, engine: Callable[..., None]) -> None:
    """With the reason, and exit code 3; so is one whose id a request has."""
    done = request(RequestState.COMPLETED)
    engine(iter([(done, rejected("long ago")), (done, rejected("long ago"), rejected("it is too long", 1))]))
    told = invoke("log", "-c", config, "--id", "x", "--wait", "hello")
    assert (told.exit_code, "log x was rejected: it is too long" in told.stderr) == (3, True)


def test_a_corrected_request_is_waited_for(config: Path, engine: Callable[..., None]) -> None:
    """Although its rejection is still shown beside it."""
    old = rejected("no such thing")
    engine(iter([(old,), (old, request(RequestState.RUNNING)), (old, request(RequestState.COMPLETED))]))
    assert invoke(ASK[0], "-c", config, *ASK[1:]).exit_code == 0


@pytest.mark.parametrize("how", [["--wait"], ["--dry-run"], []])
def test_an_id_that_said_something_else(config: Path, state: LocalStorage, how: list[str]) -> None:
    """Is refused before it is sent, for the engine would: exit code 2. That the other one has ended is no answer."""
    known(state, ExecuteSnapshot("x", ("a.c",)))
    report(state, requests=(request(RequestState.COMPLETED),))
    told = invoke("execute-snapshot", "-c", config, "a.b", "--force", "--id", "x", *how)
    assert told.exit_code == 2
    assert "another signal with the id x was handled, and this one says something else; nothing was sent" in (
        told.stderr
    )
    assert InboxChannel(state).poll() == []


def test_the_same_request_again(config: Path, state: LocalStorage, engine: Callable[..., None]) -> None:
    """Is not sent, and its end is waited for: not that of another one, which was rejected."""
    known(state, ExecuteSnapshot("x", ("a.b",)))
    other = rejected("says something else")
    engine(iter([(request(RequestState.RUNNING), other), (request(RequestState.COMPLETED), other)]))
    told = invoke(ASK[0], "-c", config, *ASK[1:])
    assert (told.exit_code, told.stdout) == (0, "x\n"), told.output
    assert "signal x was handled before, and is carried out once: nothing was sent" in told.stderr
    assert InboxChannel(state).poll() == []


def test_the_same_command_again(config: Path, state: LocalStorage) -> None:
    """It has been carried out, so there is nothing to wait for; the stream's commands likewise."""
    Journal(state).decide(Controls().remembering({"x": digest_of(PauseSnapshot("x"))}, LONG_AGO))
    told = invoke("pause-snapshot", "-c", config, "--id", "x", "--wait")
    assert (told.exit_code, told.stdout) == (0, "x\n"), told.output
    for kind in ("restart", "resume-snapshot"):
        assert invoke(kind, "-c", config, "--id", "x", "--wait").exit_code == 2
    assert InboxChannel(state).poll() == []


def test_a_command_that_met_many_requests() -> None:
    """Its report has the first hundred: all of those that it met have to end, and none that came later."""
    report = CommandReport(id="s", type="stop-snapshot", at=NOW, requests=("q0",), met=2)
    ended = RequestReport(id="q0", state=RequestState.STOPPED, accepted_at=NOW)
    runs = RequestReport(id="q1", state=RequestState.RUNNING, accepted_at=NOW)
    later = RequestReport(id="q2", state=RequestState.RUNNING, accepted_at=NOW + timedelta(seconds=1))

    def status(*requests: RequestReport) -> Status:
        return Status(name="shop", state=EngineState.RUNNING, requests=requests)

    every, one = all_ended(()), all_ended(("q0",))
    assert not every(report, status(ended, runs))
    assert every(report, status(ended, runs.model_copy(update={"state": RequestState.STOPPED}), later))
    assert one(report, status(ended, runs))
    assert every(report.model_copy(update={"met": 1}), status(ended, runs))

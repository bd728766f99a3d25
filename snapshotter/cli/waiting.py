"""Waiting for what a signal leads to: the end of a request, or that a command is carried out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from snapshotter.cli.common import read_status, say
from snapshotter.errors import DefiniteError
from snapshotter.reporting.health import silent_seconds
from snapshotter.reporting.status import CommandReport, EngineState, RequestState, Status

if TYPE_CHECKING:
    from snapshotter.state.storage import Storage

POLL_SECONDS = 0.5
_SHOWN = 10
_ABOUT_REQUESTS = ("stop-snapshot", "pause-snapshot", "resume-snapshot")

Wait = Annotated[bool, typer.Option("--wait", help="End when the engine has carried it out.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", help="With --wait: give up after so many seconds.", min=0)
]
Effect = Callable[[CommandReport, Status], bool]
"""Whether what a command was for shows in a status."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """What is waited for: its ``name``, what has not happened to it when time is up, and what waits for the engine."""

    name: str
    not_yet: str = "has not ended"
    waits: str = "the signal"


def looks(
    state: Storage, message: Callable[[str], None], what: Awaited, timeout: float | None
) -> Iterator[Status | None]:
    """The status, again and again; None while there is none. ``message`` is told of an engine that does not run.
    Raises DefiniteError after ``timeout`` seconds."""
    deadline = None if timeout is None else time.monotonic() + timeout
    shown: str | None = None
    while True:
        status = read_status(state)
        yield status
        now = "absent" if status is None else str(status.state)
        if status is not None and silent_seconds(status, datetime.now(UTC)) is not None:
            now = "lost"
        if now not in (EngineState.RUNNING, shown):
            message(f"the engine is {now}; {what.waits} waits until it runs (snapshotter run)")
        shown = now
        if deadline is not None and time.monotonic() > deadline:
            raise DefiniteError(
                f"{what.name} {what.not_yet} after {timeout:g} s (the engine is {now})",
                "it goes on by itself: look at it with snapshotter status",
            )
        time.sleep(POLL_SECONDS)


def wait_for(state: Storage, request_id: str, timeout: float | None) -> None:
    """Show the request's progress until it has ended. Raises DefiniteError where it failed or time is up."""
    from snapshotter.reporting.views import open_view

    request = None
    with open_view() as view:
        for status in looks(state, view.message, Awaited(f"request {request_id}"), timeout):
            request = status.request(request_id) if status is not None else None
            if status is not None and request is not None:
                view.update(only(status, request_id))
                if request.state.ended:
                    break
    assert request is not None
    match request.state:
        case RequestState.STOPPED:
            raise DefiniteError(
                f"request {request_id} was stopped", "what has landed stays; ask for it again"
            )
        case RequestState.FAILED | RequestState.REJECTED:
            verb = "failed" if request.state is RequestState.FAILED else "was rejected"
            why = request.error or "the engine gives no reason"
            raise DefiniteError(f"request {request_id} {verb}: {why}", request.next_step)


def wait_for_command(
    state: Storage, signal_id: str, name: str, effect: Effect, timeout: float | None
) -> CommandReport:
    """Wait until the engine has carried the command out, and its ``effect`` shows; ``name`` is what to call it. Returns
    what it met. Raises DefiniteError where it was rejected or time is up."""
    report: CommandReport | None = None  # once seen it counts: an engine that starts anew has forgotten it
    for status in looks(state, say, Awaited(name, "was not carried out"), timeout):
        if status is None:
            continue
        rejected = status.request(signal_id)
        if rejected is not None and rejected.state is RequestState.REJECTED:
            raise DefiniteError(f"{name} was rejected: {rejected.error}", rejected.next_step)
        report = status.command(signal_id) or report
        if report is not None and effect(report, status):
            return report
    raise AssertionError("it ends in one of these ways")


@dataclass(frozen=True, slots=True)
class Sent:
    """A command that was sent: its signal's id, its type, and the id as it was ``given`` (None: one was made up)."""

    signal_id: str
    kind: str
    given: str | None

    def say(self, where: str) -> None:
        """To a person where it waits; to scripts its id."""
        say(f"{called(self.kind, self.given)} is in {where}")
        typer.echo(self.signal_id)

    def await_effect(self, state: Storage, effect: Effect, timeout: float | None) -> None:
        """Wait as `wait_for_command` does, and say what it met."""
        name = f"{self.kind} {self.given}" if self.given else self.kind
        say(told(wait_for_command(state, self.signal_id, name, effect, timeout), name))


def called(what: str, given: str | None) -> str:
    """Something that was sent, by its id where whoever sent it chose that: another one says nothing to them."""
    return f"signal {given}" if given else what


def told(report: CommandReport, name: str) -> str:
    """What a command has met, for a person."""
    more = f" and {report.met - _SHOWN:,} more" if report.met > _SHOWN else ""
    met = f" ({', '.join(report.requests[:_SHOWN])}{more})" if report.requests else ""
    unknown = f"; there is no request {', '.join(report.unknown[:_SHOWN])}" if report.unknown else ""
    nobody = "; it met no request" if report.type in _ABOUT_REQUESTS and not report.met else ""
    return f"{name} is carried out{met}{unknown}{nobody}"


def at_once(report: CommandReport, status: Status) -> bool:  # noqa: ARG001 - an Effect
    """It shows as soon as it is carried out."""
    return True


def all_ended(report: CommandReport, status: Status) -> bool:
    """The requests that it met have ended."""
    return all(r.state.ended for r in status.requests if r.id in report.requests)


def only(status: Status, request_id: str) -> Status:
    """The status with no other request in it."""
    return status.model_copy(update={"requests": tuple(r for r in status.requests if r.id == request_id)})

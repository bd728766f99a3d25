"""Waiting for what a signal leads to: the end of a request, or that a command is carried out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Self

import typer

from snapshotter.cli.common import read_status, say
from snapshotter.errors import DefiniteError
from snapshotter.reporting.health import silent_seconds
from snapshotter.reporting.status import CommandReport, EngineState, RequestReport, RequestState, Status

if TYPE_CHECKING:
    from snapshotter.configuration.settings import Settings
    from snapshotter.state.storage import Storage

POLL_SECONDS = 0.5
_HISTORY_MS = 10_000
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


@dataclass(frozen=True, slots=True)
class Answers:
    """What a status says of the signal of an id: without ``earlier``, which it said of others of that id before this
    one was sent."""

    signal_id: str
    earlier: Sequence[RequestReport] = ()

    @classmethod
    def from_now_on(cls, state: Storage, signal_id: str) -> Self:
        """To be asked for before the signal is sent."""
        status = read_status(state)
        known = status.requests if status is not None else ()
        rejected = [r for r in known if r.id == signal_id and r.state is RequestState.REJECTED]
        return cls(signal_id, rejected)

    def request(self, status: Status | None) -> RequestReport | None:
        """Its rejection, or else the request."""
        told = status.requests if status is not None else ()
        found = [r for r in told if r.id == self.signal_id and not any(_same(r, e) for e in self.earlier)]
        rejected = [r for r in found if r.state is RequestState.REJECTED]
        return next(reversed(rejected or found), None)

    def raise_rejection(self, status: Status | None, name: str) -> None:
        """Raise DefiniteError where the signal, which messages call ``name``, was rejected."""
        found = self.request(status)
        if found is not None and found.state is RequestState.REJECTED:
            why = found.error or "the engine gives no reason"
            raise DefiniteError(f"{name} was rejected: {why}", found.next_step)


def _same(one: RequestReport, other: RequestReport) -> bool:
    """Whether two reports are of the same rejection: an engine that starts anew may reject a signal once more."""
    if one.asked_at is not None and one.state is other.state:
        return (one.asked_at, one.error) == (other.asked_at, other.error)
    return one == other


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


def wait_for(
    state: Storage, answers: Answers, timeout: float | None, history: Callable[[str], RequestReport | None]
) -> None:
    """Show the request's progress until it has ended. One that the engine has forgotten is looked for in the
    ``history``. Raises DefiniteError where it failed, nobody knows how it ended, or time is up."""
    from snapshotter.reporting.views import open_view

    request, name = None, f"request {answers.signal_id}"
    with open_view() as view:
        for status in looks(state, view.message, Awaited(name), timeout):
            request = answers.request(status)
            if status is not None and request is not None:
                view.update(only(status, request))
                if request.state.ended:
                    break
            elif _is_forgotten(state, answers.signal_id):
                request = history(answers.signal_id)
                break
    if request is None:
        raise DefiniteError(
            f"{name} has ended, and the engine no longer knows how: it remembers the newest ones",
            "look for it in the notifications that were sent; asked for under another --id it is read again",
        )
    match request.state:
        case RequestState.COMPLETED:
            say(f"{name} is completed")
        case RequestState.STOPPED:
            raise DefiniteError(f"{name} was stopped", "what has landed stays; ask for it again")
        case RequestState.FAILED:
            why = request.error or "the engine gives no reason"
            raise DefiniteError(f"{name} failed: {why}", request.next_step)
        case RequestState.REJECTED:
            answers.raise_rejection(status, name)


def _is_forgotten(state: Storage, request_id: str) -> bool:
    from snapshotter.state.journal import Journal
    from snapshotter.state.progress_store import ProgressStore

    return Journal(state).forgotten(request_id, ProgressStore(state).newest)


def in_history(settings: Settings) -> Callable[[str], RequestReport | None]:
    """How requests ended, by the status collection; None for one that it does not know, or where it can't be asked."""

    def ended(request_id: str) -> RequestReport | None:
        from pymongo.errors import PyMongoError

        from signals.client.client import SnapshotClient
        from signals.errors import SignalError
        from streaming.mongo.deployment import new_client

        if not settings.signal_collection or not settings.engine.status_collection:
            return None
        with new_client(settings.connection_uri(), serverSelectionTimeoutMS=_HISTORY_MS) as client:
            try:
                told = SnapshotClient(client, settings.signal_collection).status(request_id, settings.name)
            except (PyMongoError, SignalError) as error:
                say(f"the status collection cannot be asked: {error}")
                return None
        if told is None or not told.ended:
            return None
        return RequestReport(
            id=told.id, state=RequestState(told.state), error=told.error, next_step=told.next_step
        )

    return ended


def wait_for_command(
    state: Storage, answers: Answers, name: str, effect: Effect, timeout: float | None
) -> CommandReport:
    """Wait until the engine has carried the command out, and its ``effect`` shows; ``name`` is what to call it. Returns
    what it met. Raises DefiniteError where it was rejected or time is up."""
    report: CommandReport | None = None  # once seen it counts: an engine that starts anew has forgotten it
    for status in looks(state, say, Awaited(name, "was not carried out"), timeout):
        if status is None:
            continue
        answers.raise_rejection(status, name)
        report = status.command(answers.signal_id) or report
        if report is not None and effect(report, status):
            return report
    raise AssertionError("it ends in one of these ways")


@dataclass(frozen=True, slots=True)
class Sent:
    """A command that was sent: what answers it, its type, and the id as it was ``given`` (None: one was made up)."""

    answers: Answers
    kind: str
    given: str | None

    def say(self, where: str) -> None:
        """To a person where it waits; to scripts its id."""
        say(f"{called(self.kind, self.given)} is in {where}")
        typer.echo(self.answers.signal_id)

    def await_effect(self, state: Storage, effect: Effect, timeout: float | None) -> None:
        """Wait as `wait_for_command` does, and say what it met."""
        name = f"{self.kind} {self.given}" if self.given else self.kind
        say(told(wait_for_command(state, self.answers, name, effect, timeout), name))


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


def all_ended(named: Sequence[str]) -> Effect:
    """The requests that a command met have ended: those that were ``named``, or without any those that there were when
    it was carried out. Its report has the first of them only."""

    def shows(report: CommandReport, status: Status) -> bool:
        meant = (r for r in status.requests if (r.id in named if named else _was_there(r, report)))
        return all(r.state.ended for r in meant)

    return shows


def _was_there(request: RequestReport, report: CommandReport) -> bool:
    met = report.requests
    if request.id in met or report.met <= len(met):
        return request.id in met
    return report.at is None or request.accepted_at is None or request.accepted_at <= report.at


def only(status: Status, request: RequestReport) -> Status:
    """The status with no other request in it."""
    return status.model_copy(update={"requests": (request,)})

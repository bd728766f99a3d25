"""How the engine is, in one sentence, and what to do next; and what else somebody should know. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from snapshotter.reporting.health import Health, silent_seconds
from snapshotter.reporting.status import EngineState, RequestState, Status

GOOD, BUSY, QUIET, WARN, BAD = "good", "busy", "quiet", "warn", "bad"
"""Tones: all is well, something is under way, nothing is, somebody should look, somebody has to act."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A ``headline`` in this ``tone``, and the next step; None where there is nothing to do."""

    tone: str
    headline: str
    next_step: str | None = None


def word_of(status: Status) -> str:
    """State and health in a word or two, as on the terminal."""
    if status.health in (None, Health.ACTIVE) or status.state is EngineState.STOPPED:
        return status.state.value
    return f"{status.state.value}, {str(status.health).lower()}"


def verdict_of(status: Status, now: datetime) -> Verdict:
    """The one thing that is to be said first of a ``status``, as it is looked at ``now``."""
    return _of_the_process(status, now) or _of_an_error(status) or _of_the_work(status)


def _of_the_process(status: Status, now: datetime) -> Verdict | None:
    """None while it runs."""
    if (silent := silent_seconds(status, now)) is not None:
        return Verdict(
            BAD,
            f"The engine has said nothing for {silent:.0f} s",
            f"look at process {status.pid} on {status.host}, and start it again if it hangs",
        )
    error = status.error
    match status.state:
        case EngineState.FAILED:
            why = "for a reason that it does not say" if error is None else f": {error.message}"
            step = None if error is None else error.next_step
            return Verdict(BAD, f"The engine has failed{'' if error else ' '}{why}", step)
        case EngineState.STOPPED:
            return Verdict(QUIET, "The engine is stopped", "snapshotter run starts it where it stopped")
        case EngineState.STOPPING:
            return Verdict(QUIET, "The engine stops once the windows in flight have landed")
        case EngineState.STARTING if error is None:
            return Verdict(BUSY, "The engine is starting")
        case _:
            return None


def _of_an_error(status: Status) -> Verdict | None:
    restarts, error = status.restarts, status.error
    if restarts is not None and restarts.next_at is not None:
        most = "" if restarts.most is None else f" of {restarts.most}"
        count = f"{restarts.count}{most} so far"
        step = None if error is None else error.next_step
        return Verdict(
            BAD, f"Broken: the engine restarts by itself at {restarts.next_at:%H:%M:%S} UTC ({count})", step
        )
    if error is None:
        return None
    return Verdict(
        BAD if status.health == Health.BROKEN else WARN,
        f"The engine tries again after an error: {error.message}",
        error.next_step,
    )


def _of_the_work(status: Status) -> Verdict:
    if status.stream_paused:  # for how long it may be is among the warnings
        return Verdict(WARN, "The stream is paused: nothing lands", "resume the stream")
    if (note := next(notes_of(status), None)) is not None and note.tone == BAD:
        return note
    reading = {c.name for r in status.requests for c in r.collections if c.state is RequestState.RUNNING} or {
        c.name for r in status.requests if r.state is RequestState.RUNNING for c in r.collections
    }
    if reading:
        what = next(iter(reading)) if len(reading) == 1 else f"{len(reading)} collections"
        return Verdict(BUSY, f"Reading {what} while changes stream")
    if waiting := sum(r.state in (RequestState.PAUSED, RequestState.SUSPENDED) for r in status.requests):
        return Verdict(
            QUIET,
            f"{waiting} snapshot{' is' if waiting == 1 else 's are'} paused; changes stream",
            "resume it when it may go on" if waiting == 1 else "resume them when they may go on",
        )
    if any(r.state is RequestState.QUEUED for r in status.requests):
        return Verdict(BUSY, "A snapshot waits for its turn; changes stream")
    return Verdict(GOOD, "Changes land as they come")


def notes_of(status: Status) -> Iterator[Verdict]:
    """What else is to be known, the worst first."""
    for s in status.suspended:
        if s.restored_by is None:
            yield Verdict(BAD, f"{s.collection} is suspended, nothing of it lands: {s.error}", s.next_step)
    for c in status.channels:
        if c.trouble:
            yield Verdict(BAD, f"Signals by {c.name} do not come: {c.trouble}")
    if (topics := status.topics) is not None and topics.trouble:
        yield Verdict(BAD, f"{topics.records_waiting:,} records wait for Kafka: {topics.trouble}")
    for gap in status.gaps:
        left = f"{len(gap.left)} collection{'' if len(gap.left) == 1 else 's'} not compared yet"
        yield Verdict(
            WARN, f"The stream was not seen from {gap.since:%Y-%m-%d %H:%M:%S} UTC on: {left}", gap.next_step
        )
    if (dead := status.dead_letters) is not None and dead.waiting:
        newest = f", the newest of {dead.collection or 'an unknown collection'}: {dead.error}"
        yield Verdict(WARN, f"{dead.waiting:,} dead letters wait{newest}", dead.next_step)
    for n in status.notifications:
        if n.trouble:
            yield Verdict(WARN, f"Notifications by {n.name} are not taken: {n.trouble}")
    for u in status.upkeep:
        if u.error:
            yield Verdict(WARN, f"Files of {u.named} are not kept in order: {u.error}")
    for s in status.suspended:
        if s.restored_by is not None:
            yield Verdict(BUSY, f"{s.collection} is being restored by request {s.restored_by}")
    for warning in status.warnings:
        yield Verdict(WARN, warning)

"""A status as lines of text: a pure function of the document, the width and the moment.

What a person needs first stands first: whether the engine lives, what is wrong and what to do; then the requests, each
with its collections below it; then what is worth knowing beside them.

- Names and numbers are never cut. Where a line is too narrow its bar shrinks, then goes, and a name that leaves no room
  for its numbers has a line of its own.
- Requests that run are always shown, then the newest of the others, as many as there is room for; how many more there
  are is said. So it is with the collections of one request.
- Of an engine that is lost or has ended no speed is shown, and no time that would be left.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.cells import cell_len

from signals.texts import ago, duration, moment, narrowed
from snapshotter.reporting.health import silent_seconds
from snapshotter.reporting.status import (
    CollectionReport,
    EngineState,
    RequestReport,
    RequestState,
    Status,
)
from snapshotter.reporting.status_texts import (
    changelog_texts,
    channel_texts,
    dead_texts,
    error_text,
    file_texts,
    gap_texts,
    health_text,
    next_text,
    oplog_texts,
    stream_text,
    suspended_texts,
    table_texts,
    upkeep_texts,
    window_texts,
)

__all__ = ["Line", "screen", "fitting", "state_line", "kind_of", "took_seconds", "OTHERS"]

OTHERS = 4
"""So many requests that do not run are shown, and twice as many collections of each."""
_BAR_MAX, _BAR_MIN = 24, 4
_GAP = 2
_INDENT = 2
_UNKNOWN_SHOWN = 10
_HEADINGS = ("done", "rows", "rows/s", "chunks", "dropped", "left")
_STYLES = {
    RequestState.QUEUED: "dim",
    RequestState.RUNNING: "cyan",
    RequestState.PAUSED: "yellow",
    RequestState.SUSPENDED: "yellow",
    RequestState.COMPLETED: "green",
    RequestState.STOPPED: "yellow",
    RequestState.FAILED: "red",
    RequestState.REJECTED: "red",
}
_UNDER_WAY = (RequestState.RUNNING, RequestState.PAUSED, RequestState.SUSPENDED)


@dataclass(frozen=True, slots=True)
class Line:
    """One line, and the style that a terminal gives it."""

    text: str
    style: str = ""


def screen(
    status: Status, width: int, now: datetime, *, others: int = OTHERS, every: bool = False
) -> tuple[Line, ...]:
    """A ``status`` on a terminal ``width`` columns wide, at the moment ``now``. ``others``: so many requests that do
    not run, and twice as many collections of each; ``every``: all."""
    lives = status.state in (EngineState.STARTING, EngineState.RUNNING, EngineState.STOPPING)
    lives = lives and silent_seconds(status, now) is None
    lines = list(_head(status, width, now, lives=lives))
    shown, left_out = _chosen(status.requests, None if every else others)
    rows = _Rows(shown, width, None if every else 2 * others, lives=lives)
    upto = now if lives else status.updated_at or now
    for request in shown:
        lines += _request(request, rows, width, upto)
    if left_out:
        lines.append(Line(_more(left_out), "dim"))
    return (*lines, *_beside(status, width, every=every))


def fitting(status: Status, width: int, height: int, now: datetime) -> tuple[Line, ...]:
    """As much of the `screen` of a ``status`` at the moment ``now`` as a terminal has room for that is ``width``
    columns wide and ``height`` lines high: what runs goes first."""
    for others in (OTHERS, 2, 1):
        lines = screen(status, width, now, others=others)
        if len(lines) <= height:
            return lines
    return screen(status, width, now, others=0)


def state_line(status: Status, now: datetime) -> str:
    """Whether the engine lives, in one line: for one that does not, since when."""
    at = f"{moment(status.updated_at)} UTC"
    if (silent := silent_seconds(status, now)) is not None:
        where = f"process {status.pid} on {status.host}{', which is gone' if status.gone else ''}"
        return (
            f"{status.name} lost: last heard of {ago(silent)} ago, at {at} ({where}); it said {status.state}"
        )
    text = health_text(status)
    restarts = status.restarts is not None and status.restarts.next_at is not None
    if status.state not in (EngineState.STOPPED, EngineState.FAILED) or restarts or not status.updated_at:
        return text
    return f"{text} at {at}, {ago((now - status.updated_at).total_seconds())} ago"


def _head(status: Status, width: int, now: datetime, *, lives: bool) -> Iterable[Line]:
    """Whether it lives, and what is wrong."""
    first, stream = state_line(status, now), stream_text(status)
    if lives or status.updated_at is None:
        yield from _wrapped(f"{first} · {stream}", width, "bold")
    else:
        yield from _wrapped(
            first, width, "bold yellow" if status.state is EngineState.STOPPED else "bold red"
        )
        yield from _wrapped(f"it said last: {stream}", width, "dim")
    if silent_seconds(status, now) is not None:
        yield from _wrapped(f"next: {_start_again(status)}", width)
    if error := error_text(status):
        yield from _wrapped(error, width, "red" if status.error else "yellow")
        if step := next_text(status):
            yield from _wrapped(step, width)
    for text in oplog_texts(status):
        yield from _wrapped(text, width, "dim")


def _start_again(status: Status) -> str:
    if status.gone:
        return "start it again: `snapshotter run -c FILE` goes on behind what has landed"
    return (
        f"look whether process {status.pid} on {status.host} hangs, and end it if it does; then "
        "`snapshotter run -c FILE` goes on behind what has landed"
    )


def _beside(status: Status, width: int, *, every: bool) -> Iterable[Line]:
    """What is worth knowing beside the requests."""
    tables = *table_texts(status), *file_texts(status, every), *changelog_texts(status)
    for text in [*window_texts(status), *tables]:
        yield from _wrapped(text, width, "dim")
    for report, text in zip(status.suspended, suspended_texts(status), strict=True):
        yield from _wrapped(text, width, "yellow" if report.restored_by else "red")
        if not report.restored_by:
            yield from _wrapped(f"next: {report.next_step}", width)
    troubles = [*gap_texts(status), *dead_texts(status), *channel_texts(status), *upkeep_texts(status)]
    for text in [*troubles, *status.warnings]:
        yield from _wrapped(text, width, "yellow")


# Requests


def _chosen(
    requests: Sequence[RequestReport], others: int | None
) -> tuple[list[RequestReport], list[RequestReport]]:
    """Those to show, and those that there is no room for. First what is under way, then the queue from its head on,
    then what has ended, the newest first."""
    under_way = [r for r in requests if r.state in _UNDER_WAY]
    queued = [r for r in requests if r.state is RequestState.QUEUED]
    ended = [r for r in requests if r.state.ended][::-1]
    if others is None:
        return [*under_way, *queued, *ended], []
    for_ended = min(len(ended), max(others - len(queued), others // 2))
    for_queued = others - for_ended
    shown = [*under_way, *queued[:for_queued], *ended[:for_ended]]
    return shown, [*queued[for_queued:], *ended[for_ended:]]


def _more(left_out: Sequence[RequestReport | CollectionReport]) -> str:
    counts = Counter(one.state for one in left_out)
    which = ", ".join(f"{counts[state]:,} {state}" for state in RequestState if counts[state])
    return f"… {len(left_out):,} more (--all): {which}"


def _request(request: RequestReport, rows: _Rows, width: int, now: datetime) -> Iterable[Line]:
    """The request itself, why it is where it is, and its collections."""
    style = _STYLES[request.state]
    yield from _wrapped(what_of(request, now), width, style)
    if request.error:
        yield from _wrapped(f"  why: {request.error}", width, "red")
        if request.next_step:
            yield from _wrapped(f"  next: {request.next_step}", width)
    if names := ", ".join(request.unknown[:_UNKNOWN_SHOWN]):
        yield from _wrapped(f"  left out, for it is no captured collection: {names}", width, "yellow")
    for c in request.collections:
        read = c.rows + c.dropped
        if c.keys and c.state is RequestState.COMPLETED and read < c.keys:
            text = f"  {c.name} has {read:,} of the {c.keys:,} ids that were named"
            yield from _wrapped(text, width, "yellow")
    yield from rows.of(request)


def what_of(request: RequestReport, now: datetime) -> str:
    """Id, state, type, when it started and how long it took."""
    since = f" for {duration(request.paused_seconds)}" if request.state is RequestState.PAUSED else ""
    urgent = f", priority {request.priority}" if request.priority else ""
    verb = "" if request.state is RequestState.FAILED else "is "
    parts = [f"request {request.id} {verb}{request.state}{since}{urgent}"]
    if request.state is not RequestState.REJECTED:
        parts.append(kind_of(request))
    if request.started_at is not None:
        parts.append(f"started {moment(request.started_at, now)}")
        if (seconds := took_seconds(request, now)) is not None:
            parts.append(f"took {duration(seconds)}{'' if request.state.ended else ' so far'}")
    elif asked := request.asked_at or request.accepted_at:
        parts.append(f"asked {moment(asked, now)}")
    return " · ".join(parts)


def kind_of(request: RequestReport) -> str:
    """Its type, and what narrows it."""
    parts = narrowed(
        filters=any(c.filter for c in request.collections),
        keys=any(c.keys for c in request.collections),
        ranges=any(c.range for c in request.collections),
        reconcile=request.reconcile,
    )
    return ", ".join([request.type, *parts])


def took_seconds(request: RequestReport, now: datetime) -> float | None:
    """From its start to its end, or to ``now``; None where that is not known."""
    until = request.completed_at or (None if request.state.ended else now)
    if request.started_at is None or until is None:
        return None
    return max(0.0, (until - request.started_at).total_seconds())


class _Rows:
    """The rows of collections, which all stand in the same columns: name, bar, numbers."""

    def __init__(
        self, requests: Sequence[RequestReport], width: int, others: int | None, *, lives: bool
    ) -> None:
        self._width, self._others, self._lives = width, others, lives
        self._headed = False
        chosen = [c for r in requests for c in self._chosen(r)[0]]
        cells = [_HEADINGS, *(self._numbers(c) for c in chosen)]
        self._widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
        numbers = sum(self._widths) + _GAP * (len(self._widths) - 1)
        room = width - _INDENT - _GAP - numbers
        """For the name and the bar."""
        self._stacked = room < 0
        self._name = max((cell_len(c.name) for c in chosen if cell_len(c.name) <= room), default=0)
        bar = min(_BAR_MAX, room - self._name - (_GAP if self._name else 0))
        self._bar = bar if bar >= _BAR_MIN else 0

    def of(self, request: RequestReport) -> Iterable[Line]:
        """The rows of one request; the first of all have headings above them."""
        shown, left_out = self._chosen(request)
        if shown and not self._headed and not self._stacked:
            self._headed = True
            yield Line(
                self._row("collection" if self._name >= len("collection") else "", "", _HEADINGS), "dim"
            )
        for collection in shown:
            yield from self._lines(collection)
        if left_out:
            yield Line(f"  {_more(left_out)}", "dim")

    def _chosen(self, request: RequestReport) -> tuple[list[CollectionReport], list[CollectionReport]]:
        """What is being read is always shown."""
        if self._others is None or len(request.collections) <= self._others:
            return list(request.collections), []
        read = [c for c in request.collections if c.state in (*_UNDER_WAY, RequestState.FAILED)]
        rest = [c for c in request.collections if c not in read]
        room = max(0, self._others - len(read))
        return [*read, *rest[:room]], rest[room:]

    def _lines(self, c: CollectionReport) -> Iterable[Line]:
        style, numbers = _STYLES[c.state], self._numbers(c)
        if self._stacked:
            yield Line(f"{' ' * _INDENT}{c.name}", style)
            told = " · ".join(f"{n} {h}" for h, n in zip(_HEADINGS, numbers, strict=True) if n)
            yield from _wrapped(f"{' ' * 2 * _INDENT}{told}", self._width, style)
            return
        bar = _bar(_share(c), self._bar)
        if cell_len(c.name) <= self._name:
            yield Line(self._row(c.name, bar, numbers), style)
            return
        yield Line(f"{' ' * _INDENT}{c.name}", style)
        yield Line(self._row("", bar, numbers), style)

    def _row(self, name: str, bar: str, numbers: Sequence[str]) -> str:
        cells = [name + " " * (self._name - cell_len(name))] if self._name else []
        cells += [bar.ljust(self._bar)] if self._bar else []
        cells += [number.rjust(wide) for number, wide in zip(numbers, self._widths, strict=True)]
        return (" " * _INDENT + (" " * _GAP).join(cells)).rstrip()

    def _numbers(self, c: CollectionReport) -> tuple[str, ...]:
        """In the order of the headings; in place of a speed the state of what has none."""
        running = c.state is RequestState.RUNNING and self._lives
        known = c.state is RequestState.COMPLETED or c.estimated_total
        return (
            f"{_share(c):.0%}" if known else "-",
            f"{c.rows:,}",
            f"{c.rows_per_second:,.0f}" if running else str(c.state),
            f"{c.chunks_done:,}",
            f"{c.dropped:,}",
            duration(c.eta_seconds) if running else "",
        )


def _share(c: CollectionReport) -> float:
    """An estimate may be short: a bar is full only when the collection is done."""
    if c.state is RequestState.COMPLETED:
        return 1.0
    return min(0.99, (c.rows + c.dropped) / c.estimated_total) if c.estimated_total else 0.0


def _bar(share: float, width: int) -> str:
    full = int(share * width)
    return "━" * full + "─" * (width - full)


def _wrapped(text: str, width: int, style: str = "") -> Iterable[Line]:
    """Over as many lines as it takes, between words; a word that is longer than a line is not cut."""
    lead = " " * (len(text) - len(text.lstrip()) + 2)
    for part in text.splitlines() or [""]:
        for piece in textwrap.wrap(
            part,
            max(width, 20),
            subsequent_indent=lead,
            break_long_words=False,
            break_on_hyphens=False,
        ):
            yield Line(piece, style)

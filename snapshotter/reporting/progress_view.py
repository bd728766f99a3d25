"""A status for a person: as a table for a terminal, and as one line elsewhere.

What is shown of it, and when, is for whoever shows it (`reporting.views`).
"""

from __future__ import annotations

from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from snapshotter.reporting.health import Health
from snapshotter.reporting.status import (
    CollectionReport,
    EngineState,
    ErrorReport,
    NotificationReport,
    RequestReport,
    RequestState,
    Status,
)

_LAST_ERROR_CHARACTERS = 200
_BAR_WIDTH = 24
_REQUESTS_SHOWN = 5
_PENDING_SHOWN = 20
_CHANGELOGS_SHOWN = 10
_SLOW = 500
_GAP_SHOWN = 5
"""When so many notifications wait for a channel, it is worth a word."""
_UNKNOWN_SHOWN = 10
_STYLES = {
    RequestState.QUEUED: "dim",
    RequestState.RUNNING: "cyan",
    RequestState.PAUSED: "yellow",
    RequestState.SUSPENDED: "yellow",
    RequestState.COMPLETED: "green",
    RequestState.STOPPED: "yellow",
    RequestState.FAILED: "red",
}


def states_of(status: Status) -> object:
    """What is worth a line at once when it has changed."""
    return status.state, status.health, tuple((r.id, r.state) for r in status.requests)


def health_text(status: Status) -> str:
    """State and health in a few words, and when a restart is due."""
    text = f"{status.name} {status.state}"
    if status.health in (None, Health.ACTIVE) or status.state is EngineState.STOPPED:
        return text
    restarts = status.restarts
    if restarts is None or restarts.next_at is None:
        return f"{text}, {str(status.health).lower()}"
    most = "" if restarts.most is None else f" of {restarts.most}"
    return f"{text}, broken, restarts at {restarts.next_at:%H:%M:%S} UTC ({restarts.count}{most} so far)"


def line(status: Status) -> str:
    """A status in one line: the stream, then each collection that is being read or whose request just
    ended.
    """
    parts = [health_text(status), stream_text(status)]
    for request in _shown_requests(status):
        for c in request.collections:
            total = f"/{c.estimated_total}" if c.estimated_total is not None else ""
            text = f"{c.name} {c.state} rows={c.rows}{total} chunks={c.chunks_done} dropped={c.dropped}"
            counts = {"deleted": c.deleted, "changed": c.changed, "unchanged": c.unchanged}
            text += "".join(f" {what}={count}" for what, count in counts.items() if count)
            if c.state is RequestState.RUNNING:
                text += f" rows/s={c.rows_per_second:.0f} eta={duration(c.eta_seconds)}"
            parts.append(text)
        if request.error:
            parts.append(f"request {request.id} failed: {request.error}")
        elif request.state in (RequestState.PAUSED, RequestState.SUSPENDED, RequestState.STOPPED):
            parts.append(f"request {request.id} is {request.state}")
    parts += [*_more(status), *_suspended_texts(status), *_gap_texts(status), *_dead_texts(status)]
    parts += _channel_texts(status)
    if error := _error_text(status):
        parts.append(error)
    return " | ".join(parts)


def render(status: Status) -> Group:
    """A status as the live display draws it."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("collection", no_wrap=True)
    table.add_column("", width=_BAR_WIDTH, no_wrap=True)
    for heading in ("done", "rows", "rows/s", "chunks", "dropped", "left"):
        table.add_column(heading, justify="right", no_wrap=True)
    requests = _shown_requests(status)
    for request in requests:
        for collection in request.collections:
            table.add_row(*_cells(collection))
    lines: list[Table | Text] = [table] if any(r.collections for r in requests) else []
    lines.append(Text(f"{health_text(status)} · {stream_text(status)}", style="bold"))
    lines += [Text(text, style="dim") for text in _oplog_texts(status)]
    lines += [line for request in requests for line in _request_lines(request)]
    beside = [*_window_texts(status), *_table_texts(status), *_changelog_texts(status)]
    lines += [Text(text, style="dim") for text in [*_more(status), *beside]]
    for report, text in zip(status.suspended, _suspended_texts(status), strict=True):
        lines.append(Text(text, style="yellow" if report.restored_by else "red"))
        lines += [] if report.restored_by else [Text(f"next: {report.next_step}")]
    lines += [
        Text(text, style="yellow")
        for text in [
            *_gap_texts(status),
            *_dead_texts(status),
            *_channel_texts(status),
            *_upkeep_texts(status),
            *status.warnings,
        ]
    ]
    if error := _error_text(status):
        lines.append(Text(error, style="red" if status.error else "yellow"))
        if (shown := status.error or status.last_error) and shown.next_step:
            lines.append(Text(f"next: {shown.next_step}"))
    return Group(*lines)


def _error_text(status: Status) -> str | None:
    """What is wrong, or what was: an engine that fails now and then, and goes on, should be noticed in between too."""
    if status.error is not None:
        return f"{_class_of(status.error)}{status.error.kind}: {status.error.message}"
    if (last := status.last_error) is None or status.state is not EngineState.RUNNING:
        return None
    since = f" at {last.at:%Y-%m-%d %H:%M:%S} UTC" if last.at is not None else ""
    first = (last.message.splitlines() or [""])[0][
        :_LAST_ERROR_CHARACTERS
    ]  # shown for as long as the engine runs
    return f"the engine goes on after an error{since}: {_class_of(last)}{last.kind}: {first}"


def _class_of(error: ErrorReport) -> str:
    return f"{error.failure} ({error.condition}): " if error.failure else ""


def _oplog_texts(status: Status) -> list[str]:
    """How long the oplog holds the position; that also counts for an engine that stands still."""
    if (oplog := status.oplog) is None or oplog.runway_hours is None:
        return []
    reach = f"the oplog reaches back {oplog.hours:.1f} h"
    if not oplog.runway_hours and oplog.held_until is None:
        return [f"{reach} and no longer holds the position"]
    until = f"{oplog.held_until:%Y-%m-%d %H:%M} UTC"
    return [f"{reach} and holds the position for {oplog.runway_hours:.1f} h more, until {until}"]


def _channel_texts(status: Status) -> list[str]:
    """Channels of signals and notifications that do not work; none once the engine has ended."""
    if status.state is not EngineState.RUNNING:
        return []
    signals = [f"signals by {c.name} do not come: {c.trouble}" for c in status.channels if c.trouble]
    return signals + [text for n in status.notifications if (text := _notification_text(n))]


def _suspended_texts(status: Status) -> list[str]:
    return [
        f"{s.collection} is being restored by request {s.restored_by}"
        if s.restored_by
        else f"{s.collection} is suspended since {s.since:%Y-%m-%d %H:%M:%S} UTC, nothing of it lands: {s.error}"
        for s in status.suspended
    ]


def _gap_texts(status: Status) -> list[str]:
    return [
        f"the stream was not seen from {g.since:%Y-%m-%d %H:%M:%S} UTC on ({g.cause}); not compared yet: "
        f"{', '.join(g.left[:_GAP_SHOWN])}{f' and {len(g.left) - _GAP_SHOWN} more' if len(g.left) > _GAP_SHOWN else ''}"
        f"{f'; next: {g.next_step}' if g.next_step else ''}"
        for g in status.gaps
    ]


def _dead_texts(status: Status) -> list[str]:
    """Dead letters that nobody has replayed."""
    if (dead := status.dead_letters) is None or not dead.waiting:
        return []
    newest = f"; the newest of {dead.collection or 'an unknown collection'}: {dead.error}"
    return [f"{dead.waiting} of {dead.total} dead letters wait{newest}; next: {dead.next_step}"]


def _notification_text(report: NotificationReport) -> str | None:
    """None where all is well."""
    counts = f"{report.waiting} wait, {report.dropped} were dropped"
    if report.trouble:
        return f"notifications by {report.name} are not taken ({counts}): {report.trouble}"
    if report.dropped or report.waiting >= _SLOW:
        return f"notifications by {report.name} are taken slowly: {counts}"
    return None


def _more(status: Status) -> list[str]:
    """How many requests there was no room for."""
    pending = sum(not r.state.ended for r in status.requests)
    return [f"and {pending - _PENDING_SHOWN} more requests wait"] if pending > _PENDING_SHOWN else []


def _table_texts(status: Status) -> list[str]:
    """Tables that are written the slower way, which somebody may want to change."""
    return [
        f"{t.collection} is written by Delta's MERGE, the slower way: {t.reason}"
        for t in status.tables
        if t.slower
    ]


def _upkeep_texts(status: Status) -> list[str]:
    """Tables whose files are not kept in order, because of an error."""
    return [f"files of {u.collection} are not kept in order: {u.error}" for u in status.upkeep if u.error]


def _changelog_texts(status: Status) -> list[str]:
    """What changelog tables were given: those that were given most."""
    most = sorted(status.changelogs, key=lambda c: (-(c.events + c.reads), c.collection))
    texts = [
        f"the changelog of {c.collection} was given {c.events:,} events and {c.reads:,} READs"
        for c in most[:_CHANGELOGS_SHOWN]
    ]
    more = len(most) - len(texts)
    return [*texts, f"and {more} more changelogs were written to"] if more else texts


def _window_texts(status: Status) -> list[str]:
    """The windows in flight, a line a collection; of an engine that has ended there are none."""
    if status.state is not EngineState.RUNNING:
        return []
    shown: dict[str, list[str]] = {}
    for window in status.windows:
        rows = f" {window.rows:,}" if window.rows else ""
        shown.setdefault(window.collection, []).append(f"{window.number} {window.state}{rows}")
    return [f"windows of {name}: {', '.join(texts)}" for name, texts in shown.items()]


def _request_lines(request: RequestReport) -> list[Text]:
    """The request's state, unless it has completed; what went wrong, and what to do next; and what it left out."""
    names = ", ".join(request.unknown[:_UNKNOWN_SHOWN])
    unknown = f"request {request.id} left out what is no captured collection: {names}"
    left_out = [Text(unknown, style="yellow")] if names else []
    if request.error:
        next_step = [Text(f"next: {request.next_step}")] if request.next_step else []
        return [Text(f"request {request.id} failed: {request.error}", style="red"), *next_step, *left_out]
    if request.state is RequestState.COMPLETED:
        return left_out
    urgent = f", priority {request.priority}" if request.priority else ""
    since = f" for {duration(request.paused_seconds)}" if request.state is RequestState.PAUSED else ""
    text = f"request {request.id} is {request.state}{since}{urgent}"
    return [Text(text, style=_STYLES[request.state]), *left_out]


def stream_text(status: Status) -> str:
    """The stream's lag and speed, and the windows that are open."""
    lag = "unknown" if status.lag_seconds is None else f"{status.lag_seconds:.1f}s"
    text = f"lag={lag} events/s={status.events_per_second:.0f} events={status.events_total}"
    return f"{text} windows={len(status.windows)}" if status.state is EngineState.RUNNING else text


def duration(seconds: float | None) -> str:
    """Seconds as a person says them: 5s, 2m05s, 1h02m; a dash where nobody knows."""
    if seconds is None:
        return "-"
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def _shown_requests(status: Status) -> list[RequestReport]:
    """The requests to show, in the status's order: the first that have not ended, running ones before queued ones; and
    the newest that have ended, as far as there is room."""
    pending = [r for r in status.requests if not r.state.ended]
    pending.sort(key=lambda r: r.state is RequestState.QUEUED)
    pending = pending[:_PENDING_SHOWN]
    ended = [r for r in status.requests if r.state.ended]
    room = max(0, _REQUESTS_SHOWN - len(pending))
    chosen = {r.id for r in [*(ended[-room:] if room else []), *pending]}
    return [r for r in status.requests if r.id in chosen]


def _cells(c: CollectionReport) -> tuple[Text | ProgressBar, ...]:
    style = _STYLES[c.state]
    completed = c.state is RequestState.COMPLETED
    known = completed or c.estimated_total
    seen = c.rows + c.dropped
    # An estimate may be short: a bar is full only when the collection is done.
    share = 1.0 if completed else min(0.99, seen / c.estimated_total) if c.estimated_total else 0.0
    bar = ProgressBar(
        total=1.0, completed=share, width=_BAR_WIDTH, complete_style=style, finished_style=style
    )
    running = c.state is RequestState.RUNNING
    return (
        Text(c.name, style=style),
        bar,
        Text(f"{share:.0%}" if known else "-"),
        Text(f"{c.rows:,}"),
        Text(f"{c.rows_per_second:,.0f}" if running else str(c.state)),
        Text(f"{c.chunks_done:,}"),
        Text(f"{c.dropped:,}"),
        Text(duration(c.eta_seconds) if running else ""),
    )

"""What a status says in words, fact by fact: the same sentences in a line of a log and on a screen.

Each function takes the whole status, and gives what is worth saying; nothing where all is well.

No clock, no terminal.
"""

from __future__ import annotations

from collections.abc import Sequence

from snapshotter.reporting.health import Health
from snapshotter.reporting.status import EngineState, ErrorReport, NotificationReport, Status, UpkeepReport

__all__ = [
    "health_text",
    "stream_text",
    "error_text",
    "next_text",
    "oplog_texts",
    "channel_texts",
    "suspended_texts",
    "gap_texts",
    "dead_texts",
    "table_texts",
    "upkeep_texts",
    "file_texts",
    "changelog_texts",
    "window_texts",
]

_LAST_ERROR_CHARACTERS = 200
_CHANGELOGS_SHOWN = 10
_SLOW = 500
"""When so many notifications wait for a channel, it is worth a word."""
_GAP_SHOWN = 5


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


def stream_text(status: Status) -> str:
    """The stream's lag and speed, the windows that are open, and until when changes wait for their landing."""
    lag = "unknown" if status.lag_seconds is None else f"{status.lag_seconds:.1f}s"
    text = f"lag={lag} events/s={status.events_per_second:.0f} events={status.events_total}"
    if status.state is not EngineState.RUNNING:
        return text
    at = status.next_landing_at
    waits = "" if at is None else f" changes wait until {at:%H:%M:%S} UTC"
    return f"{text} windows={len(status.windows)}{waits}"


def error_text(status: Status) -> str | None:
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


def next_text(status: Status) -> str | None:
    """What to do about what `error_text` says. An engine that runs tries again by itself; what is over needs nobody,
    unless it comes back."""
    if status.error is None:
        last = status.last_error
        return f"if it comes back: {last.next_step}" if last is not None and last.next_step else None
    if not (step := status.error.next_step):
        return None
    if status.state is EngineState.RUNNING:
        plain = step.removesuffix(", and start again").removesuffix("; then start again")
        return f"next: {plain}; the engine tries again by itself"
    return f"next: {step}"


def _class_of(error: ErrorReport) -> str:
    return f"{error.failure} ({error.condition}): " if error.failure else ""


def oplog_texts(status: Status) -> list[str]:
    """How long the oplog holds the position; that also counts for an engine that stands still."""
    if (oplog := status.oplog) is None or oplog.runway_hours is None:
        return []
    reach = f"the oplog reaches back {oplog.hours:.1f} h"
    if not oplog.runway_hours and oplog.held_until is None:
        return [f"{reach} and no longer holds the position"]
    until = f"{oplog.held_until:%Y-%m-%d %H:%M} UTC"
    return [f"{reach} and holds the position for {oplog.runway_hours:.1f} h more, until {until}"]


def channel_texts(status: Status) -> list[str]:
    """Channels of signals and notifications that do not work; none once the engine has ended."""
    if status.state is not EngineState.RUNNING:
        return []
    signals = [f"signals by {c.name} do not come: {c.trouble}" for c in status.channels if c.trouble]
    return signals + [text for n in status.notifications if (text := _notification_text(n))]


def suspended_texts(status: Status) -> list[str]:
    return [
        f"{s.collection} is being restored by request {s.restored_by}"
        if s.restored_by
        else f"{s.collection} is suspended since {s.since:%Y-%m-%d %H:%M:%S} UTC, nothing of it lands: {s.error}"
        for s in status.suspended
    ]


def gap_texts(status: Status) -> list[str]:
    return [
        f"the stream was not seen from {g.since:%Y-%m-%d %H:%M:%S} UTC on ({g.cause}); not compared yet: "
        f"{', '.join(g.left[:_GAP_SHOWN])}{f' and {len(g.left) - _GAP_SHOWN} more' if len(g.left) > _GAP_SHOWN else ''}"
        f"{f'; next: {g.next_step}' if g.next_step else ''}"
        for g in status.gaps
    ]


def dead_texts(status: Status) -> list[str]:
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


def table_texts(status: Status) -> list[str]:
    """Tables that are written the slower way, which somebody may want to change."""
    return [
        f"{t.collection} is written by Delta's MERGE, the slower way: {t.reason}"
        for t in status.tables
        if t.slower
    ]


def upkeep_texts(status: Status) -> list[str]:
    """Tables whose files are not kept in order, because of an error."""
    return [f"files of {u.named} are not kept in order: {u.error}" for u in status.upkeep if u.error]


def file_texts(status: Status, every: bool = False) -> list[str]:
    """What tables are made of, all together, and what is to be done next; or ``every`` table, a line each. What is not
    known of a table is left out."""
    known = [u for u in status.upkeep if u.files is not None]
    if every:
        return [_files_of(u) for u in known]
    if not known:
        return []
    due = [f"{u.named}: {u.due}" for u in known if u.due]
    more = f", and {len(due) - 1:,} more" if len(due) > 1 else ""
    text = f"tables: {len(known):,}, of {_counted(known)}"
    return [f"{text}; due for {due[0]}{more}" if due else text]


def _files_of(report: UpkeepReport) -> str:
    parts = [_counted([report])]
    if report.log is not None:
        parts.append(f"{report.log:,} commits behind the newest checkpoint of the log")
    if report.oldest_version is not None:
        parts.append(f"versions from {report.oldest_version:,} on can be read")
    if report.lacks:
        parts.append(f"its files are left as they are: {report.lacks}")
    if report.due:
        parts.append(f"due: {report.due}")
    return f"{report.named}: {'; '.join(parts)}"


def _counted(reports: Sequence[UpkeepReport]) -> str:
    text = f"{sum(u.files or 0 for u in reports):,} files"
    if small := _at_least([u.small_files for u in reports]):
        text += f", {small} of them small"
    if marked := _at_least([u.marked_rows for u in reports]):
        text += f", with {marked} rows marked as gone"
    return text


def _at_least(numbers: Sequence[int | None]) -> str | None:
    """All of them together, as far as they are known; None where none is."""
    known = [number for number in numbers if number is not None]
    return f"{sum(known):,}{'' if len(known) == len(numbers) else ' or more'}" if known else None


def changelog_texts(status: Status) -> list[str]:
    """What changelog tables were given: those that were given most."""
    most = sorted(status.changelogs, key=lambda c: (-(c.events + c.reads), c.collection))
    texts = [
        f"the changelog of {c.collection} was given {c.events:,} events and {c.reads:,} READs"
        for c in most[:_CHANGELOGS_SHOWN]
    ]
    more = len(most) - len(texts)
    return [*texts, f"and {more} more changelogs were written to"] if more else texts


def window_texts(status: Status) -> list[str]:
    """The windows in flight, a line a collection; of an engine that has ended there are none."""
    if status.state is not EngineState.RUNNING:
        return []
    shown: dict[str, list[str]] = {}
    for window in status.windows:
        rows = f" {window.rows:,}" if window.rows else ""
        shown.setdefault(window.collection, []).append(f"{window.number} {window.state}{rows}")
    return [f"windows of {name}: {', '.join(texts)}" for name, texts in shown.items()]

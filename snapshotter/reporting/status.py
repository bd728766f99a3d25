"""What a running engine says of itself: the file ``status.json`` beside its state.

The engine writes it about once a second; ``snapshotter status``, ``execute-snapshot --wait`` and the
progress display read it. It is a report, not state: nothing is ever decided by it, and an old one does no
harm. Fields may be added; those that are here keep their meaning, for scripts read them too.

Times are ISO 8601 in UTC. Rows and events are counts, speeds are per second, ``dropped`` are READs that a
streamed event superseded, ``deleted`` rows of a table that a snapshot with ``reconcile`` found missing at source.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from snapshotter.errors import DefiniteError

STATUS_FILE = "status.json"

Metrics = dict[str, dict[str, int | float | dict[str, int | float]]]
"""Figures by context and name; one that has a label by the label's values (docs/metrics.md)."""


class EngineState(StrEnum):
    """Where the engine is in its life. How it is, is its health (`snapshotter.reporting.health`)."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class RequestState(StrEnum):
    """The state of a snapshot request, or of one collection of it."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    STOPPED = "stopped"
    FAILED = "failed"
    REJECTED = "rejected"
    """Its signal was refused: nothing was started."""

    @property
    def ended(self) -> bool:
        return self in _ENDED


_ENDED = (RequestState.COMPLETED, RequestState.STOPPED, RequestState.FAILED, RequestState.REJECTED)


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class ErrorReport(_Report):
    """An error for a person. ``kind`` is ``class`` in the file: the exception's. ``failure`` is the class of what is
    wrong, ``condition`` its named state (`snapshotter.failure_classes`); ``retriable``: the same may go well later."""

    kind: str
    message: str
    next_step: str | None = None
    at: datetime | None = None
    failure: str | None = None
    condition: str | None = None
    retriable: bool | None = None

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        alias_generator=lambda name: "class" if name == "kind" else name,
    )


class RestartReport(_Report):
    """Automatic restarts: whether they are on; how many there were since the engine was last healthy for long enough,
    of how many at most (None: unlimited), the newest one's time; and when the next one is due, while one is waited
    for."""

    enabled: bool = False
    count: int = 0
    most: int | None = None
    last_at: datetime | None = None
    next_at: datetime | None = None


class Position(_Report):
    """A cluster time: seconds since the epoch and the increment within that second."""

    t: int
    i: int


class CollectionReport(_Report):
    """One collection of a request. Of its ``rows``, ``inserted`` are new to the table, ``changed`` took the place of
    others, and ``unchanged`` equal what was there. ``estimated_total`` is None where MongoDB has no estimate, as with a
    filter. What narrows it: a ``filter``, the number of single ``keys``, a ``range`` of ids.
    """

    name: str
    state: RequestState = RequestState.QUEUED
    filter: str | None = None
    keys: int | None = None
    range: bool = False
    chunks_done: int = 0
    rows: int = 0
    dropped: int = 0
    deleted: int = 0
    inserted: int = 0
    changed: int = 0
    unchanged: int = 0
    estimated_total: int | None = None
    rows_per_second: float = 0.0
    eta_seconds: float | None = None


class RequestReport(_Report):
    """One snapshot request, by the id of its signal. ``asked_at`` is when its signal was sent, ``accepted_at`` when it
    was taken, ``started_at`` when reading began, and ``completed_at`` when it ended, however it did (a rejection: when
    that was last said). ``next_step`` says what to do about its error, of which ``failure`` and ``condition`` are the
    class and the named state; ``paused_seconds`` how long it has been paused in this life of the engine; ``unknown``
    names in its signal that match no captured collection."""

    id: str
    type: str = "incremental"
    state: RequestState = RequestState.QUEUED
    collections: tuple[CollectionReport, ...] = ()
    reconcile: bool = False
    asked_at: datetime | None = None
    accepted_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    error: str | None = None
    next_step: str | None = None
    failure: str | None = None
    condition: str | None = None
    priority: int = 0
    paused_seconds: float = 0.0
    unknown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        from snapshotter.reporting.status_screen import what_of

        rows = [f"{c.name} {c.state}: {c.rows:,} rows" for c in self.collections]
        errors = [self.error] if self.error else []
        return f"<{' · '.join([what_of(self, datetime.now(UTC)), *rows, *errors])}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from snapshotter.reporting.status_html import html_of_request

        return html_of_request(self, datetime.now(UTC))


class CommandReport(_Report):
    """A signal that is no request, and was carried out ``at`` this time: a command, a message for the log, what the
    engine as a whole was told. ``type`` is the signal's. ``requests`` are those that it made a difference to, the first
    of ``met``; ``unknown`` ids that it named and no request has."""

    id: str
    type: str
    at: datetime | None = None
    requests: tuple[str, ...] = ()
    met: int = 0
    unknown: tuple[str, ...] = ()


class WindowReport(_Report):
    """A snapshot window that is open."""

    collection: str
    number: int
    state: str
    rows: int = 0


class ChannelReport(_Report):
    """A signal channel. ``trouble`` says what keeps it from working, and what to do; None while nothing does.
    ``failure`` and ``condition`` are the class and the named state of that, here and below."""

    name: str
    trouble: str | None = None
    failure: str | None = None
    condition: str | None = None


class NotificationReport(_Report):
    """A notification channel: how many notifications wait for it, how many it has lost because it did not keep up, and
    what keeps it from taking them; None while nothing does."""

    name: str
    waiting: int = 0
    dropped: int = 0
    trouble: str | None = None
    failure: str | None = None
    condition: str | None = None


class SuspensionReport(_Report):
    """A collection that is suspended, so that nothing of it lands: why (``cause`` is a name for programs), since which
    moment of the stream, and what to do next. ``restored_by``: the request that is reading it again, while its events
    land. ``failure`` and ``condition`` are the class and the named state."""

    collection: str
    cause: str
    error: str
    next_step: str
    since: datetime
    restored_by: str | None = None
    failure: str | None = None
    condition: str | None = None


class TableReport(_Report):
    """A table that this life of the engine has landed in: which writer wrote the newest landing (``merge``, Delta's
    own; ``upsert``, ours; ``append``), and the ``reason`` for it. ``slower``: the table or Spark's settings keep the
    engine from the quicker way."""

    collection: str
    written_by: str
    reason: str
    slower: bool = False


class UpkeepReport(_Report):
    """The files of a collection's ``table``, state or changelog: how many, of how many bytes, how many are small, how
    many rows are marked as gone, and how many commits there are in the ``log`` behind its newest checkpoint; None where
    that is not known. What was done in this life of the engine: how many ``rewrites``, when the newest step was
    ``done_at``, and when old files, if there were any, were removed (``vacuumed_at``). ``oldest_version``: the oldest
    that could be read when any run of this engine had removed old files last. ``due``: what is to be done next, not
    before ``next_at``, when it is looked at again. ``lacks``: why its files are left as they are. ``error``: what went
    wrong."""

    collection: str
    table: str = "state"
    files: int | None = None
    size_bytes: int | None = None
    small_files: int | None = None
    marked_rows: int | None = None
    log: int | None = None
    rewrites: int = 0
    done_at: datetime | None = None
    vacuumed_at: datetime | None = None
    oldest_version: int | None = None
    due: str | None = None
    next_at: datetime | None = None
    lacks: str | None = None
    error: str | None = None

    @property
    def named(self) -> str:
        """The table, for people."""
        return self.collection if self.table == "state" else f"the {self.table} of {self.collection}"


class ChangelogReport(_Report):
    """The changelog table of a collection: how many ``events`` and how many ``reads`` of documents were appended to it
    in this life of the engine."""

    collection: str
    events: int = 0
    reads: int = 0


class GapReport(_Report):
    """A gap that is open: nothing between ``since`` and ``upto`` was seen, because of ``cause`` (a name for programs).
    ``policy``: heal or continue. The tables of the collections that are ``left`` may lack what happened in it."""

    number: int
    cause: str
    error: str
    policy: str
    since: datetime
    upto: datetime | None = None
    left: tuple[str, ...] = ()
    next_step: str = ""


class DeadLettersReport(_Report):
    """What could not be processed: how many dead letters there are in all, and how many are ``waiting``, not replayed;
    of the newest one when it was, in which ``collection``, and why."""

    total: int = 0
    waiting: int = 0
    newest_at: datetime | None = None
    collection: str | None = None
    error: str | None = None
    next_step: str | None = None


class OplogReport(_Report):
    """The source's oplog: its ``oldest`` entry, and how many ``hours`` it reaches back; for how long it still holds the
    position if that stands still (``runway_hours``; None before the first batch, and while the oplog is too young to
    tell its growth), and until when (``held_until``; None once it is lost); its size, what it may have, and its average
    growth, where these are known."""

    oldest: datetime
    hours: float
    runway_hours: float | None = None
    held_until: datetime | None = None
    bytes_per_second: float | None = None
    used_bytes: int | None = None
    capacity_bytes: int | None = None


class TopicsReport(_Report):
    """Kafka topics: what waits for the brokers in the outbox (records, and bytes of its files), the oldest since when
    and for how long; ``full``: the stream waits for them. ``records_sent``: in this life of the engine. ``trouble`` as
    of a channel."""

    records_waiting: int = 0
    bytes_waiting: int = 0
    waiting_since: datetime | None = None
    lag_seconds: float = 0.0
    full: bool = False
    records_sent: int = 0
    trouble: str | None = None
    failure: str | None = None
    condition: str | None = None


class Status(_Report):
    """The whole file. ``health`` is `Active`, `Paused` or `Broken`, ``stream_paused`` whether an operator has paused
    the stream, ``restarts`` what there is of automatic ones. ``position`` is the end of what has been landed;
    ``lag_seconds`` how far that is behind; ``next_landing_at`` until when changes wait, where landings are put off
    (`engine.commit.interval.ms`). ``error`` is what is wrong now, ``last_error`` the last thing that was wrong
    in this life of the engine. ``snapshot_speed``: documents a second of the newest snapshot that was large enough to
    measure it, also in an earlier life. ``commands``: the newest ones that this process has carried out.
    ``dead_letters``: None without any. ``warnings`` are about what is captured, each with what to do. ``topics``: None
    where there are none. ``metrics`` are the figures that Prometheus is shown. ``gone`` is for whoever reads the file
    to find out, and is not in it: the process that wrote it is dead for certain.
    """

    name: str
    state: EngineState
    health: str | None = None
    stream_paused: bool = False
    restarts: RestartReport | None = None
    error: ErrorReport | None = None
    last_error: ErrorReport | None = None
    pid: int | None = None
    host: str | None = None
    run_id: str | None = None
    updated_at: datetime | None = None
    batch: int | None = None
    position: Position | None = None
    lag_seconds: float | None = None
    next_landing_at: datetime | None = None
    oplog: OplogReport | None = None
    events_total: int = 0
    events_per_second: float = 0.0
    snapshot_speed: float | None = None
    requests: tuple[RequestReport, ...] = ()
    commands: tuple[CommandReport, ...] = ()
    windows: tuple[WindowReport, ...] = ()
    suspended: tuple[SuspensionReport, ...] = ()
    gaps: tuple[GapReport, ...] = ()
    dead_letters: DeadLettersReport | None = None
    tables: tuple[TableReport, ...] = ()
    upkeep: tuple[UpkeepReport, ...] = ()
    changelogs: tuple[ChangelogReport, ...] = ()
    warnings: tuple[str, ...] = ()
    channels: tuple[ChannelReport, ...] = ()
    notifications: tuple[NotificationReport, ...] = ()
    topics: TopicsReport | None = None
    metrics: Metrics = Field(default_factory=dict)
    gone: bool = Field(default=False, exclude=True)

    def request(self, request_id: str) -> RequestReport | None:
        """The request of this id, if the engine knows it; else its newest rejection."""
        found = [r for r in self.requests if r.id == request_id]
        accepted = [r for r in found if r.state is not RequestState.REJECTED]
        return next(reversed(accepted or found), None)

    def newest_first(self) -> list[RequestReport]:
        """The requests that have not ended, then the others; of each the newest first."""
        requests = list(reversed(self.requests))
        return sorted(requests, key=lambda request: request.state.ended)

    def command(self, signal_id: str) -> CommandReport | None:
        """The command of this id, if it is among the newest."""
        return next((c for c in self.commands if c.id == signal_id), None)

    def __repr__(self) -> str:
        from snapshotter.reporting.progress_view import line

        return f"<{line(self)}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        from snapshotter.reporting.status_html import html_of

        return html_of(self, datetime.now(UTC))

    def to_json(self, indent: int | None = None) -> str:
        """The file's text."""
        return self.model_dump_json(by_alias=True, indent=indent)

    @classmethod
    def from_json(cls, text: str) -> Status:
        """The status that a file's text holds. Raises DefiniteError for a text that is none."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            found = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3])
            raise DefiniteError(f"{STATUS_FILE} is not a status: {found}") from error

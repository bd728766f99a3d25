"""Topics are fed from the outbox, by a thread of its own for as long as an engine lives.

    take the oldest stretches --> send all of them, in their order --> the position is durable --> prune, now and then

A stretch is sent whole, and again from its beginning where anything fails before its end is durable: at least once,
with the order of each key kept in each repetition. Nothing here touches batches; what they see is that the outbox is
full. Whatever goes wrong is tried again, for ever: it is said in the status and, when it is new, in the log.

After a failure the client may still have records of the stretch in its buffers. In one JVM the next attempt has the
same client, and its records come behind those. On a cluster another executor may have it: there the next attempt waits
until what is left behind can't arrive any more (``delivery.timeout.ms``).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

import structlog
from pyspark.sql import DataFrame

from snapshotter.errors import describe
from snapshotter.log import warn_of
from snapshotter.outbox.table import Outbox, Stretch

_log = structlog.get_logger("snapshotter.topics")

RECORDS_AT_ONCE = 200_000
BYTES_AT_ONCE = 64 << 20
_PRUNE_STRETCHES = 20
_PRUNE_SECONDS = 30.0
_LOOK_SECONDS = 1.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
FLUSH_SECONDS = 30.0


class Sink(Protocol):
    """Where records go."""

    def send(self, records: DataFrame) -> None:
        """All of these are there when this returns; or any part of them, where it raises."""


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """What waits: how many ``records``, in ``size_bytes`` of files, the oldest since ``since_ms`` (None: nothing
    waits). ``full``: the engine waits for the brokers. ``sent``: records delivered in this life. ``trouble``: what
    keeps it from sending; None while nothing does. ``shared``: topics that several collections go to, with their
    names."""

    records: int = 0
    size_bytes: int = 0
    since_ms: int | None = None
    full: bool = False
    sent: int = 0
    trouble: str | None = None
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Delivery:
    """As a context manager it sends what ``outbox`` holds to ``sink``; when the context is left, it goes on for
    ``flush_seconds`` at most, or until an attempt fails. ``check`` is called before anything else, and may raise.
    ``least_pause``: seconds to wait at least after a failure."""

    def __init__(
        self,
        outbox: Outbox,
        sink: Sink,
        check: Callable[[], object] = lambda: None,
        *,
        least_pause: float = 0.0,
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        self._outbox, self._sink, self._check = outbox, sink, check
        self._least_pause, self._flush_seconds = least_pause, flush_seconds
        self._ends = threading.Event()
        self._flush_by = 0.0
        self._thread = threading.Thread(target=self._run, name="topics", daemon=True)
        self._sent = 0
        self._trouble: str | None = None
        self._pause = 0.0
        self._gave_up = False
        self._pruned_at = time.monotonic()
        self._said_full = False

    def __enter__(self) -> Self:
        self._check()
        self._outbox.open()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._flush_by = time.monotonic() + self._flush_seconds
        self._ends.set()
        self._outbox.arrived.set()
        self._thread.join()
        if left := sum(one.records for one in self._outbox.waiting):
            _log.warning(
                "records wait for Kafka: the next start sends them", records=left, trouble=self._trouble
            )

    @property
    def state(self) -> DeliveryState:
        """What waits now."""
        waiting = self._outbox.waiting
        return DeliveryState(
            records=sum(one.records for one in waiting),
            size_bytes=sum(one.size_bytes for one in waiting),
            since_ms=waiting[0].since_ms if waiting else None,
            full=self._outbox.full,
            sent=self._sent,
            trouble=self._trouble,
            shared=dict(self._outbox.shared),
        )

    @property
    def full(self) -> bool:
        """Whether the engine has to wait for the brokers. When that begins and when it ends, it is logged."""
        full = self._outbox.full
        if full is not self._said_full:
            self._said_full = full
            said = {"bytes": self._outbox.size_bytes, "trouble": self._trouble}
            if full:
                _log.warning("the outbox is full: the engine waits for Kafka", **said)
            else:
                _log.info("the outbox has room again: the engine goes on", **said)
        return full

    def _run(self) -> None:
        while not self._done():
            self._outbox.arrived.wait(_LOOK_SECONDS)
            waiting = self._outbox.waiting
            try:
                if waiting:
                    self._send(at_once(waiting))
                self._prune(idle=not waiting)
            except Exception as error:  # noqa: BLE001 - whatever it is, topics wait, and tables do not
                self._failed(error)
            if self._pause:
                self._ends.wait(self._pause)
        try:
            self._prune(idle=True)
        except Exception as error:  # noqa: BLE001 - the next start removes it
            warn_of(_log, "what has been delivered stays in the outbox for now", error)

    def _done(self) -> bool:
        """Whether the context is left, and there is nothing to send, or no way."""
        if not self._ends.is_set():
            return False
        return not self._outbox.waiting or self._gave_up or time.monotonic() > self._flush_by

    def _send(self, stretches: Sequence[Stretch]) -> None:
        self._sink.send(self._outbox.read(stretches))
        self._outbox.delivered(stretches[-1].number)
        self._sent += sum(one.records for one in stretches)
        if self._trouble is not None:
            _log.info("topics are fed again", waiting=sum(one.records for one in self._outbox.waiting))
        self._trouble, self._pause = None, 0.0

    def _prune(self, *, idle: bool) -> None:
        there, now = self._outbox.prunable, time.monotonic()
        due = idle and (now - self._pruned_at > _PRUNE_SECONDS or self._ends.is_set())
        if there and (due or there >= _PRUNE_STRETCHES):
            self._outbox.prune()
            self._pruned_at = now

    def _failed(self, error: Exception) -> None:
        found = describe(error)
        if self._trouble is None:
            warn_of(_log, "topics wait", error, **found.fields())
        self._trouble = found.message
        self._gave_up = self._ends.is_set()
        self._pause = max(self._least_pause, min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE))


def at_once(waiting: Sequence[Stretch]) -> Sequence[Stretch]:
    """The oldest that are sent together: at least one, and no more than fit."""
    records = size = 0
    for count, one in enumerate(waiting):
        records, size = records + one.records, size + one.size_bytes
        if count and (records > RECORDS_AT_ONCE or size > BYTES_AT_ONCE):
            return waiting[:count]
    return waiting

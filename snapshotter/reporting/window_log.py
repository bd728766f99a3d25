"""The windows that have landed: when each was open, and what became of its READs, for anybody to look at or to plot.

It listens to one run after the other: to the inputs of the machine, and to its effects. Nothing is decided by it.
Moments are by the engine's own clock, when an input comes; the core decides by cluster times.

Invariants
- A window is listed once its rows are visible and its progress is saved, not before.
- It holds the newest ``KEPT`` windows, and moments only of windows in flight.

The clock is given; no server, no thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from snapshotter.core.values.chunks import end_of
from snapshotter.core.values.effects import Closing, Discard, Effect, LandBatch, OpenCollection, ReadChunk
from snapshotter.core.values.inputs import BatchLanded, ChunkRead, HighWritten, Input, LowWritten
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.window import WindowId
from snapshotter.reporting.notices import key_text
from snapshotter.reporting.request_times import RequestTimes

KEPT = 10_000


@dataclass(frozen=True, slots=True)
class LandedWindow:
    """One window, from its low watermark to the commit that closed it.

    ``id`` is its name in the commit's ``userMetadata``, and ``number`` its last part. ``request_id`` is None where ids
    were read again one by one. ``upto`` is the last id of its chunk, shown as in notifications. Of the READs, ``rows``
    have landed and ``dropped`` were superseded by what streamed; ``deleted`` rows were missing at source. Windows that
    share a commit (a ``batch``) are exact in sum; to which of them a superseded READ belongs is not known.
    """

    id: str
    number: int
    request_id: str | None
    collection: str
    upto: str
    low_at: datetime
    read_at: datetime
    high_at: datetime
    landed_at: datetime
    rows: int
    dropped: int
    deleted: int
    batch: int


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """A window that is read now, or has been and waits to land: by ``id``, as of `LandedWindow`. What has not happened
    yet is None."""

    id: str
    number: int
    collection: str
    low_at: datetime
    read_at: datetime | None = None
    high_at: datetime | None = None


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class WindowLog:
    """``note`` is called by one run at a time, under its lock; ``listed`` and ``in_flight`` by anybody. ``times`` is
    told when a request starts."""

    clock: Callable[[], datetime] = now
    times: RequestTimes = field(default_factory=RequestTimes)
    _landed: deque[LandedWindow] = field(default_factory=lambda: deque(maxlen=KEPT))
    _moments: dict[WindowId, dict[type, datetime]] = field(default_factory=dict)
    _names: dict[WindowId, str] = field(default_factory=dict)
    _landing: LandBatch | None = None

    def note(self, happened: Input, effects: Iterable[Effect]) -> None:
        """Note what an input of the machine and its effects say of windows, once the effects have been carried out."""
        match happened:
            case ChunkRead() | HighWritten() if happened.window in self._moments:
                self._moments[happened.window][type(happened)] = self.clock()
            case BatchLanded():
                self._note_landed(happened)
            case _:
                pass
        for effect in effects:
            match effect:
                case OpenCollection():
                    self.times.started(effect.request_id)
                case ReadChunk():  # the low watermark is there; a window that was given up is not read
                    self._names[effect.window] = str(effect.namespace)
                    self._moments[effect.window] = {LowWritten: self.clock()}
                case LandBatch():
                    self._landing = effect
                case Discard():
                    self._moments.pop(effect.window, None)
                    self._names.pop(effect.window, None)
                case _:
                    pass

    def listed(self, request_id: str | None = None) -> list[LandedWindow]:
        """In the order in which they landed; with ``request_id`` only its own."""
        return [w for w in self._landed.copy() if request_id in (None, w.request_id)]

    def in_flight(self, run: str | None) -> list[OpenWindow]:
        """Those of this ``run`` that are read or wait to land, in the order in which they were opened."""
        names = self._names.copy()
        return [
            OpenWindow(str(window), window.number, names[window], moments[LowWritten], *_later(moments))
            for window, moments in self._moments.copy().items()
            if window.run == run and window in names
        ]

    def _note_landed(self, happened: BatchLanded) -> None:
        landing, moment = self._landing, self.clock()
        for closing in landing.closings if landing is not None else ():
            moments = self._moments.get(closing.window.id, {})
            if len(moments) == 3:
                outcome = happened.outcomes[closing.window.id]
                self._landed.append(_landed(closing, outcome, moments, moment, happened.batch_id))


def _later(moments: dict[type, datetime]) -> tuple[datetime | None, datetime | None]:
    return moments.get(ChunkRead), moments.get(HighWritten)


def _landed(
    closing: Closing, outcome: Outcome, moments: dict[type, datetime], landed_at: datetime, batch: int
) -> LandedWindow:
    window = closing.window
    return LandedWindow(
        id=str(window.id),
        number=window.id.number,
        request_id=window.request_id,
        collection=str(window.namespace),
        upto=key_text(end_of(window.target)),
        low_at=moments[LowWritten],
        read_at=moments[ChunkRead],
        high_at=moments[HighWritten],
        landed_at=landed_at,
        rows=outcome.kept,
        dropped=outcome.superseded,
        deleted=outcome.deleted,
        batch=batch,
    )

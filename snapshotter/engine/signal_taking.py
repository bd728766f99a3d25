"""Signals that have come, wherever from, handed to whoever keeps requests now: one delivery at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pymongo import MongoClient

from signals.actions import Action
from snapshotter.intake.signal_documents import actions_in
from snapshotter.intake.signal_handler import Ledger, SignalHandler, take_signals
from snapshotter.intake.signals_ahead import SignalsAhead, Stream
from snapshotter.reporting.outcomes import Refusal
from streaming.namespaces import Namespace
from streaming.positions import ORIGIN, ClusterTime


@dataclass(slots=True)
class StandingStream:
    """A stream that is paused, as those who look for signals ahead of it see it: it stands at its ``position``, and is
    waited for."""

    position: ClusterTime
    known_head: ClusterTime = ORIGIN
    holding: bool = True


@dataclass(frozen=True, slots=True)
class SignalTaking:
    """``ledger`` is asked under the handler's lock, for a new run takes its place under that. ``signals`` is the signal
    collection, if there is one. ``asked`` is told when each signal of it was sent."""

    handler: SignalHandler
    ledger: Callable[[], Ledger]
    signals: Namespace | None
    asked: Callable[[str, float], object]

    def documents(self, documents: Sequence[bytes]) -> None:
        """Take what was inserted into the signal collection, as BSON."""
        self.take(*actions_in(documents, self.signals))

    def take(self, actions: Iterable[Action], refused: Iterable[Refusal]) -> None:
        """Take these, durably, before this returns; ``refused`` ones are answered."""
        with self.handler.one_at_a_time:
            take_signals(self.handler, self.ledger(), actions, refused)

    def ahead_of(self, stream: Stream, client: MongoClient[Any], every: float) -> SignalsAhead | None:
        """Take what is inserted ahead of a late ``stream``, read by ``client`` at most ``every`` so many seconds; None
        without a signal collection. Whoever gets it closes it."""
        if self.signals is None:
            return None
        ahead = SignalsAhead(client, self.signals, stream, self.documents, every=every, asked=self.asked)
        ahead.start()
        return ahead

    @contextmanager
    def meanwhile(self, client: MongoClient[Any], position: ClusterTime, every: float) -> Iterator[None]:
        """While the block runs, take what is inserted behind ``position``, where the stream stands: read by ``client``
        at most ``every`` so many seconds."""
        ahead = self.ahead_of(StandingStream(position), client, every)
        try:
            yield
        finally:
            if ahead is not None:
                ahead.close()

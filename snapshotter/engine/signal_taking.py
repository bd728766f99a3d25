"""Signals that have come, wherever from, handed to whoever keeps requests now: one delivery at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo import MongoClient

from signals.actions import Action
from snapshotter.intake.signal_documents import actions_in
from snapshotter.intake.signal_handler import Ledger, SignalHandler, take_signals
from snapshotter.intake.signals_ahead import SignalsAhead, Stream
from snapshotter.reporting.outcomes import Refusal
from streaming.namespaces import Namespace


@dataclass(frozen=True, slots=True)
class SignalTaking:
    """``ledger`` is asked under the handler's lock, for a new run takes its place under that. ``signals`` is the signal
    collection, if there is one."""

    handler: SignalHandler
    ledger: Callable[[], Ledger]
    signals: Namespace | None

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
        ahead = SignalsAhead(client, self.signals, stream, self.documents, every=every)
        ahead.start()
        return ahead

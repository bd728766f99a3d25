"""Where operators see what became of their signals: in the log, in ``status``, and beside the signal collection."""

from __future__ import annotations

import structlog

from snapshotter.reporting.outcomes import SignalOutcome
from snapshotter.reporting.refusals import Refusals
from snapshotter.reporting.status_collection import StatusCollection

_log = structlog.get_logger("snapshotter.signals")


class SignalOutcomes:
    """From any thread; nothing here waits for MongoDB."""

    def __init__(self, collection: StatusCollection) -> None:
        self._refusals = Refusals()
        self._collection = collection

    @property
    def refused(self) -> list[tuple[str, str]]:
        """The newest signals that were refused, with the reasons."""
        return self._refusals.newest

    def refuse(self, signal_id: str, why: str) -> None:
        """Say that a signal is not carried out."""
        signal_id, why = self._refusals.add(signal_id, why)
        _log.error("signal refused", id=signal_id, why=why)
        self._collection.refused(signal_id, why)

    def report(self, outcome: SignalOutcome) -> None:
        """Report what became of a signal that is no request."""
        self._collection.handled(outcome)

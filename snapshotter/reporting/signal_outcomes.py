"""Where operators see what became of their signals: in the log, in ``status``, and beside the signal collection."""

from __future__ import annotations

import threading
from collections import OrderedDict
from datetime import UTC, datetime

import structlog

from snapshotter.core.rules.signal_batch import AFFECTED_SHOWN
from snapshotter.reporting.outcomes import Refused, SignalOutcome
from snapshotter.reporting.refusals import Refusals, reported
from snapshotter.reporting.status import CommandReport, Status
from snapshotter.reporting.status_collection import StatusCollection

_log = structlog.get_logger("snapshotter.signals")
_COMMANDS_KEPT = 100


class SignalOutcomes:
    """From any thread; nothing here waits for MongoDB."""

    def __init__(self, collection: StatusCollection) -> None:
        self._refusals = Refusals()
        self._collection = collection
        self._guard = threading.Lock()
        self._commands: OrderedDict[str, CommandReport] = OrderedDict()

    @property
    def refusals(self) -> list[Refused]:
        """The newest signals that were refused."""
        return self._refusals.newest

    @property
    def refused(self) -> list[tuple[str, str]]:
        """Their ids, with the reasons."""
        return [(refused.id, refused.why) for refused in self._refusals.newest]

    def refuse(self, signal_id: str, why: str) -> None:
        """Say that a signal is not carried out."""
        known = reported(signal_id, why) in self._refusals  # a batch that is repeated shows it again
        signal_id, why = self._refusals.add(signal_id, why, self._collection.times.asked_at(signal_id))
        if not known:
            _log.error("signal rejected", id=signal_id, why=why)
        self._collection.refused(signal_id, why)

    def report(self, outcome: SignalOutcome) -> None:
        """Report what became of a signal that is no request. One that was handled before keeps what was said then."""
        self._collection.handled(outcome)
        if outcome.answer is not None:
            return  # an answer has a file of its own
        with self._guard:
            if not (outcome.again and outcome.id in self._commands):
                self._commands[outcome.id] = _command(outcome)
            while len(self._commands) > _COMMANDS_KEPT:
                self._commands.popitem(last=False)

    def told(self, status: Status) -> Status:
        """The status with the newest commands."""
        with self._guard:
            return status.model_copy(update={"commands": tuple(self._commands.values())})


def _command(outcome: SignalOutcome) -> CommandReport:
    return CommandReport(
        id=outcome.id,
        type=outcome.kind,
        at=datetime.now(UTC),
        requests=outcome.affected.requests,
        met=outcome.affected.count,
        unknown=outcome.unknown[:AFFECTED_SHOWN],
    )

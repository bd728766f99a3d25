"""What becomes of signals that are no requests, as values: what is reported of them once all is durable."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from signals.actions import CustomAction
from snapshotter.core.rules.signal_batch import Affected
from snapshotter.reporting.answers import DryRun


@dataclass(frozen=True, slots=True)
class Refusal:
    """A signal that is not carried out, and why."""

    id: str
    why: str


class Refused(NamedTuple):
    """A signal's id, why it was refused, when that was last so, and when it was sent (None: not known): its sender may
    have corrected it, and sent it again under its id."""

    id: str
    why: str
    at: datetime
    sent: datetime | None = None


@dataclass(frozen=True, slots=True)
class SignalOutcome:
    """What became of a signal that is no request: ``affected`` are the requests that a command made a difference to,
    ``unknown`` the ids it named that no request has. ``again``: it was handled before. ``answer`` is that to a dry run,
    ``message`` what is to be logged, ``custom`` an action that another package carries out."""

    id: str
    kind: str
    affected: Affected = field(default_factory=Affected)
    unknown: tuple[str, ...] = ()
    again: bool = False
    answer: DryRun | None = None
    message: str | None = None
    custom: CustomAction | None = None

"""Signals as an engine that has not begun handles them: decided, made durable in its journal, and told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from signals.actions import Action, ExecuteSnapshot
from signals.channel import SignalChannel
from snapshotter.intake.channels import Channels
from snapshotter.intake.signal_handler import SignalHandler, Waiting, take_request, take_signals
from snapshotter.reporting.answers import DryRun
from snapshotter.reporting.estimates import ReadingSpeed
from snapshotter.reporting.outcomes import Refusal


class Handling:
    """``around`` has what a handler needs (``client``, ``config``, ``journal``, ``storage``, ``store``, ``speed``,
    ``captured``), and hears what it tells (``refuse``, ``tell``)."""

    def __init__(self, around: Any) -> None:
        journal, storage = around.journal, around.storage
        speed = getattr(around, "speed", ReadingSpeed())
        self.handler = SignalHandler(
            around.client, around.config, journal, storage, speed, around, around.captured
        )
        self.ledger = Waiting(journal, around.store)

    def take(self, *actions: Action, refused: Iterable[Refusal] = ()) -> None:
        take_signals(self.handler, self.ledger, actions, refused)

    def accept(self, action: ExecuteSnapshot) -> None:
        """Raises SignalError."""
        take_request(self.handler, self.ledger, action)

    def dry_run(self, action: ExecuteSnapshot) -> DryRun:
        """Raises SignalError."""
        return self.handler.dry_run(action, self.ledger.standing())

    def look(self, channels: Channels) -> None:
        """Take what the channels show."""
        for part in channels.look():
            self.take(*part.actions, refused=part.refused)

    def look_at(self, channel: SignalChannel) -> None:
        self.look(Channels([channel]))

"""Signals from the program that runs the engine: a queue that any thread may add to.

It lives as long as the program does: it outlives an engine that is started anew in it, and nothing else. Signals that
must last longer go into the inbox.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from itertools import count

from signals.actions import Action, fields_of
from signals.channels.channel import Received, received_document

NAME = "in-process"


class InProcessChannel:
    """Many threads may send; one engine polls."""

    name = NAME

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._own = (
            uuid.uuid4().hex
        )  # names must not come back in the program's next run, for they may be ids
        self._numbers = count(1)
        self._waiting: dict[str, Received] = {}

    def send(self, action: Action) -> str:
        """Ask for something. Returns the signal's id."""
        signal_id, _, _ = fields_of(action)
        with self._guard:
            self._put(Received(NAME, self._next(), signal_id, action))
        return signal_id

    def send_document(self, document: Mapping[str, object]) -> str:
        """The same as a document ``{"id", "type", "data"}``, as the other channels carry it.

        Never fails: the engine reports what is wrong with it, as with theirs. Returns the signal's id.
        """
        with self._guard:
            received = received_document(NAME, self._next(), document)
            self._put(received)
        return received.id

    def poll(self) -> list[Received]:
        """What waits, in the order of sending."""
        with self._guard:
            return list(self._waiting.values())

    def ack(self, *names: str) -> None:
        """Forget these."""
        with self._guard:
            for name in names:
                self._waiting.pop(name, None)

    def health(self) -> str | None:
        """Nothing can be wrong with it."""
        return None

    def close(self) -> None:
        """What waits stays, for the next engine of this program."""

    def _next(self) -> str:
        return f"{NAME}/{self._own}/{next(self._numbers)}"

    def _put(self, received: Received) -> None:
        self._waiting[received.name] = received

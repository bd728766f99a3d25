"""What a channel has shown and not forgotten yet, and how far its position may move.

A position can only say "everything before this". Acknowledgements may come in any order, so it moves to behind the
longest run of acknowledged deliveries at the front, and never past one that is still open: after a crash that one and
its successors come again.

Pure: standard library only.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from signals.channels.channel import Received

P = TypeVar("P")


@dataclass(slots=True)
class _Entry(Generic[P]):
    received: Received | None  # None: nothing to show there, passed over
    behind: P
    done: bool


class Deliveries(Generic[P]):
    """Open deliveries in order, each with the position behind it."""

    def __init__(self, position: P) -> None:
        self.position = position
        self._entries: deque[_Entry[P]] = deque()
        self._open: dict[str, _Entry[P]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def show(self, received: Received, behind: P) -> None:
        """A further delivery; ``behind`` is the position once it is forgotten."""
        entry = _Entry(received, behind, False)
        self._entries.append(entry)
        self._open[received.name] = entry

    def pass_over(self, behind: P) -> None:
        """Something that is nobody's business lies before ``behind``."""
        if self._entries and self._entries[-1].done:
            self._entries[-1].behind = behind  # a million foreign messages are one entry
        else:
            self._entries.append(_Entry(None, behind, True))
        self._advance()

    def open(self) -> list[Received]:
        """What has been shown and not acknowledged, in order."""
        return [entry.received for entry in self._entries if entry.received is not None and not entry.done]

    def ack(self, names: tuple[str, ...]) -> bool:
        """Close these; says whether the position has moved."""
        before = self.position
        for name in names:
            entry = self._open.pop(name, None)
            if entry is not None:
                entry.done, entry.received = True, None
        self._advance()
        return self.position != before

    def _advance(self) -> None:
        while self._entries and self._entries[0].done:
            self.position = self._entries.popleft().behind

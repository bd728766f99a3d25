"""The events of a reply, found in lock-step (`streaming.decode.walk`) and not cut: where their fields lie.

Cutting an event into its fields (`raw_events.parse_event`) takes ten times as long. What an event is that the walk does
not understand is said there, so a reply with such a one is no block. Nor are large events, whose bytes would be held
three times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from streaming.bson.elements import STRING, TIMESTAMP, MalformedBson
from streaming.decode.buffer import Buffer, Cells, Mask, Positions
from streaming.decode.walk import FieldWalk
from streaming.source.raw_events import Event, parse_event

LARGEST_BYTES = 8 << 10
"""What an event may have on average."""
BLOCK_BYTES = 8 << 20
"""What all of them may have."""

_NAMES = [
    *(b"_id", b"operationType", b"clusterTime", b"wallTime", b"fullDocument", b"ns", b"documentKey"),
    b"updateDescription",
]
"""What the changes of documents have, in the server's order."""


@dataclass(frozen=True, slots=True)
class EventBlock:
    """Events in stream order. ``cells`` has their fields by name, those of `_NAMES`; ``times`` are their cluster times
    as integers, ``sizes`` are in bytes."""

    raws: Sequence[bytes]
    buffer: Buffer
    cells: dict[bytes, Cells]
    times: Positions
    sizes: Positions

    def __len__(self) -> int:
        return len(self.raws)

    def events(self) -> list[Event]:
        """The same events, each cut into its fields."""
        return [parse_event(raw) for raw in self.raws]

    def last(self) -> Event:
        """The last of them."""
        return parse_event(self.raws[-1])

    def until(self, end: int) -> EventBlock:
        """Those whose cluster time is at most ``end``, which are the first ones."""
        count = int(np.searchsorted(self.times, end, side="right"))
        if count == len(self):
            return self
        cells = {name: Cells(found.tags[:count], found.at[:count]) for name, found in self.cells.items()}
        cut = replace(self, raws=self.raws[:count], cells=cells)
        return replace(cut, times=self.times[:count], sizes=self.sizes[:count])

    def are(self, word: bytes) -> Mask:
        """Which of them are of this operation, by the server's word."""
        value = (len(word) + 1).to_bytes(4, "little") + word + b"\0"
        return self.buffer.at(self.cells[b"operationType"].at, value)


def block_of(raws: Sequence[bytes]) -> EventBlock | None:
    """The events of a reply as a block, where they are one."""
    size = sum(map(len, raws))
    if not raws or size > min(len(raws) * LARGEST_BYTES, BLOCK_BYTES):
        return None
    sizes = np.fromiter(map(len, raws), np.int64, len(raws))
    at = np.cumsum(sizes) - sizes
    buffer = Buffer(b"".join(raws))
    if (buffer.int32[at] != sizes).any():
        return None
    try:
        found = FieldWalk(buffer, at, _NAMES).run()
    except MalformedBson:  # `parse_event` says what becomes of it
        return None
    words, clocks = found.cells[b"operationType"], found.cells[b"clusterTime"]
    if found.extras or found.loose or found.odd:
        return None
    if (words.tags != STRING).any() or (clocks.tags != TIMESTAMP).any():
        return None
    return EventBlock(raws, buffer, found.cells, buffer.int64[clocks.at], sizes)

"""The newest event of each document, among those that lie close together in the stream: all that a state table needs.

A document that is changed 20,000 times is held once, and not once for each change. For each document are kept

    the newest event that lands something  (an insert, a replace, a delete, an update with its document)
    an update behind it that came without its document, which hides nothing until it has been looked up

so the rows that leave are those that a landing would pick (`streaming.decode.streamed_rows`), and some more where the
room was used up in between: whatever has been changed least recently leaves then. Each row carries its place in the
stream (``ord``), which their order no longer tells.

Most replies are made into rows all at once (`block_rows`), and come by here only with updates that lack their document.

What must be seen event by event passes: signals and watermarks, drops and renames, events of transactions where these
are counted, in a sharded collection what may have given a document another key, and what cannot be processed, for it
hides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from streaming.source.raw_events import Event

BYTES_HELD = 8 << 20
_OVERHEAD = 1_000
"""Of an event, beside its bytes: a dictionary, and an object for each field."""

Numbered = tuple[int, Event]
"""An event, and its place in the stream."""

Filler = Callable[[Sequence[Event]], Iterator[list[Event]]]
"""Gives the same events, in their order, with the documents that could be found."""

_Document = tuple[bytes, bytes]
"""Where it is, and its key, as they stand in the event. One id as two numbers (1 and 1.0) is held twice, which is as
good."""


class Events(Protocol):
    """What becomes of events before they become rows: replies are added, and in the end comes the rest."""

    def add(self, events: Iterable[Numbered]) -> Iterator[Sequence[Numbered]]:
        """What leaves when these have come."""
        ...

    def rest(self) -> Iterator[Sequence[Numbered]]:
        """What is left, at the end."""
        ...


class AllEvents:
    """All of them, as they come, with the documents that ``fill`` finds."""

    def __init__(self, fill: Filler | None) -> None:
        self._fill = fill

    def add(self, events: Iterable[Numbered]) -> Iterator[Sequence[Numbered]]:
        """These events."""
        numbered = list(events)
        return iter([numbered] if self._fill is None else _filled(numbered, self._fill))

    def rest(self) -> Iterator[Sequence[Numbered]]:
        """Nothing is left."""
        return iter(())


class NewestEvents:
    """``passes``: which events are not held; ``fill`` finds documents. What is held has about ``bytes_held`` bytes at
    most, and a reply more."""

    def __init__(
        self, passes: Callable[[Event], bool], fill: Filler | None, bytes_held: int = BYTES_HELD
    ) -> None:
        self._passes = passes
        self._fill = fill
        self._bytes_held = bytes_held
        self._size = 0
        self._passing: list[Numbered] = []
        self._landing: dict[_Document, Numbered] = {}
        self._bare: dict[_Document, Numbered] = {}

    def add(self, events: Iterable[Numbered]) -> Iterator[Sequence[Numbered]]:
        """What there is no room for any more."""
        self._add(events)
        if self._size > self._bytes_held:
            yield from self._spilled()

    def rest(self) -> Iterator[Sequence[Numbered]]:
        """All that is held."""
        yield from self._without_bare()
        yield list(self._landing.values())

    def _add(self, events: Iterable[Numbered]) -> None:
        passes, landing, bare = self._passes, self._landing, self._bare
        for numbered in events:
            event = numbered[1]
            operation, _, size, fields = event
            self._size += size + _OVERHEAD
            if passes(event):
                self._passing.append(numbered)
                continue
            document = fields[b"ns"], fields[b"documentKey"]
            if document in bare:
                self._drop(bare.pop(document))
            if operation == b"update" and b"fullDocument" not in fields:
                bare[document] = numbered
                continue
            # Taken out and put in again: the order is that of the last changes, the oldest first.
            if document in landing:
                self._drop(landing.pop(document))
            landing[document] = numbered

    def _spilled(self) -> Iterator[Sequence[Numbered]]:
        """About half of what is held, and first all updates without their document, for which ``fill`` looks."""
        yield from self._without_bare()
        oldest: list[_Document] = []
        for document, numbered in self._landing.items():
            if self._size <= self._bytes_held // 2:
                break
            self._drop(numbered)
            oldest.append(document)
        yield [self._landing.pop(document) for document in oldest]

    def _without_bare(self) -> Iterator[Sequence[Numbered]]:
        passing, self._passing = self._passing, []
        bare, self._bare = self._bare, {}
        for numbered in (*passing, *bare.values()):
            self._drop(numbered)
        fill = self._fill
        if fill is None:
            yield passing
            yield list(bare.values())
            return
        yield from _filled(passing, fill)
        documents = iter(bare)
        for filled in _filled(list(bare.values()), fill):
            for (_, event), document in zip(filled, documents, strict=False):
                # Now it lands, and hides what was held before it, unless it cannot be processed.
                if b"fullDocument" in event[3] and not self._passes(event):
                    self._drop(self._landing.pop(document, None))
            yield filled

    def _drop(self, numbered: Numbered | None) -> None:
        if numbered is not None:
            self._size -= numbered[1][2] + _OVERHEAD


def _filled(numbered: Sequence[Numbered], fill: Filler) -> Iterator[list[Numbered]]:
    places = iter([place for place, _ in numbered])
    for events in fill([event for _, event in numbered]):
        # The events first: where they end, no place is taken.
        yield [(place, event) for event, place in zip(events, places, strict=False)]

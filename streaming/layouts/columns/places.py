"""What did not fit, and where: places in documents, and the rescued values of one batch.

A ``Place`` is a column or a part of one. Its slots are documents, or the elements of arrays; a place under
an array knows to which slot of its parent each of its own belongs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from streaming.bson.elements import ARRAY, BINARY, DECIMAL, DOCUMENT, NULL
from streaming.column_names import can_be_column, can_be_nested
from streaming.decode.buffer import Buffer, Cells, Positions
from streaming.decode.walk import Extra, Loose
from streaming.layouts.columns.observe import KINDS, Observation
from streaming.layouts.columns.plan import LEAVES_MAX, TablePlan
from streaming.layouts.columns.rescue import entry, pointer, render

_OBSERVED_MAX = 1000
"""So many documents or arrays of each unknown field are looked into in one batch; the next batch shows the rest."""


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """A field (``name``), or the elements of an array (``owners``: the parent's slot of each element)."""

    parent: Place | None = None
    name: str = ""
    owners: Positions | None = None

    def field(self, name: str) -> Place:
        """The place of a field of the documents here."""
        return Place(self, name)

    def elements(self, owners: Positions) -> Place:
        """The place of the elements of the arrays here."""
        return Place(self, owners=owners)

    @property
    def is_uniform(self) -> bool:
        """Whether all slots have the same path: no array is on the way."""
        return self.owners is None and (self.parent is None or self.parent.is_uniform)

    def rows(self, slots: Positions) -> Positions:
        """The rows of the batch that these slots belong to."""
        if self.parent is None:
            return slots
        return self.parent.rows(slots if self.owners is None else self.owners[slots])

    def path(self, slot: int) -> tuple[str, ...]:
        """The way to this slot in its document, as the parts of a JSON Pointer."""
        if self.parent is None:
            return ()
        if self.owners is None:
            return (*self.parent.path(slot), self.name)
        owner = int(self.owners[slot])
        return (*self.parent.path(owner), str(slot - int(np.searchsorted(self.owners, owner))))

    def observation(self, root: Observation) -> Observation:
        """Where to note what is seen here."""
        if self.parent is None:
            return root
        above = self.parent.observation(root)
        return above.field(self.name) if self.owners is None else above.element()


class Leftovers:
    """The values of one batch that no column of ``plan`` takes, and the fields that it does not know.

    Positions are those of ``buffer``, which holds the batch's documents.
    """

    def __init__(self, buffer: Buffer, plan: TablePlan) -> None:
        self._buffer = buffer
        self._plan = plan
        self._seen = Observation()
        self._full = plan.is_full
        self._kept: list[tuple[Place, Cells, Positions]] = []
        self._loose: list[tuple[Place, list[Loose]]] = []

    def misfits(self, place: Place, cells: Cells, slots: Positions) -> None:
        """The column at ``place`` does not take its values in ``slots``; ``cells`` are those of all its slots. A null
        element of an array needs no entry."""
        if place.owners is not None:
            slots = slots[cells.tags[slots] != NULL]
        if len(slots):
            self._kept.append((place, Cells(cells.tags[slots], cells.at[slots]), slots))

    def extra(self, place: Place, extra: Extra, slots: Positions) -> None:
        """The plan does not know the field ``extra`` of the documents at ``place``. ``slots``: where its values lie
        among the slots of ``place``; ``extra.slots`` count only the documents that were walked."""
        name = extra.name.decode("utf-8", "surrogateescape")
        cells = Cells(extra.tags, extra.at)
        self._kept.append((place.field(name), cells, slots))
        seen = self._place_of(place, name)
        if seen is not None:
            self._observe(seen, cells)

    def loose(self, place: Place, found: list[Loose]) -> None:
        """The same for single values."""
        self._loose.append((place, found))
        for _, name, tag, at in found:
            seen = self._place_of(place, name.decode("utf-8", "surrogateescape"))
            if seen is not None:
                seen.see(tag, self._buffer.raw, at)

    def _place_of(self, place: Place, name: str) -> Observation | None:
        """Where to note a field that the plan does not know; None when it can have no column."""
        allowed = can_be_column if place.parent is None else can_be_nested
        if self._full or not allowed(name):
            return None
        above = place.observation(self._seen)
        # What the table has refused gets no column, so it must not take the room of what may get one.
        most = LEAVES_MAX + len(self._plan.refused)
        return above.field(name) if above.knows(name) or above.breadth < most else None

    def _observe(self, seen: Observation, cells: Cells) -> None:
        for tag in np.unique(cells.tags).tolist():
            same = cells.at[cells.tags == tag]
            if tag == DECIMAL:  # every one may need more digits than the others; most are there many times
                words = np.stack([self._buffer.uint64[same], self._buffer.uint64[same + 8]], axis=1)
                _, first = np.unique(words, axis=0, return_index=True)
                for at in same[first].tolist():
                    seen.see(tag, self._buffer.raw, at)
                seen.count(KINDS[tag], len(same) - len(first))
            elif tag in (DOCUMENT, ARRAY, BINARY):
                for at in same[:_OBSERVED_MAX].tolist():
                    seen.see(tag, self._buffer.raw, at)
            elif tag in KINDS:
                seen.count(KINDS[tag], len(same))

    def unknown(self) -> TablePlan:
        """What the plan could gain; empty when merging it would change nothing."""
        seen = self._seen.plan(without=self._plan.refused)
        return TablePlan() if self._plan.merge(seen) is self._plan else seen

    def entries(self, odd: set[int]) -> dict[int, list[str]]:
        """Entries of ``_rescued_data`` by row, for all rows but the odd ones."""
        found: dict[int, list[str]] = {}
        for place, cells, slots in self._kept:
            rows = place.rows(slots).tolist()
            for row, text in zip(rows, self._texts(place, cells, slots, rows, odd), strict=True):
                found.setdefault(row, []).append(text)
        for place, loose in self._loose:
            rows = place.rows(np.array([slot for slot, *_ in loose])).tolist()
            for row, (slot, name, tag, at) in zip(rows, loose, strict=True):
                if row not in odd:
                    path = pointer((*place.path(slot), name.decode()))
                    found.setdefault(row, []).append(entry(path, render(tag, self._buffer.raw, at)))
        for row in odd:
            found.pop(row, None)
        return found

    def _texts(
        self, place: Place, cells: Cells, slots: Positions, rows: list[int], odd: set[int]
    ) -> Iterator[str]:
        raw, uniform = self._buffer.raw, place.is_uniform
        path = ""
        if uniform and not odd:
            path = pointer(place.path(0))
            if (cells.tags == NULL).all():
                yield from [entry(path, "null")] * len(slots)
                return
        for row, slot, tag, at in zip(
            rows, slots.tolist(), cells.tags.tolist(), cells.at.tolist(), strict=True
        ):
            if row in odd:
                yield ""
                continue
            here = path if uniform and not odd else pointer(place.path(slot))
            yield entry(here, render(tag, raw, at))

"""Many documents walked in lock-step: where their values lie, found by numpy and not document by document.

Documents of a collection mostly have the same fields in the same order. So all cursors stand at the first
field, the name is compared for all of them at once, and all move on. Where they differ the field that the
plan has first goes first: a document that lacks it waits. When few documents are left (odd shapes), they
are walked one by one.

Nothing is decoded here. The result for a field is a ``Cells``: for each slot (a document, an array element)
the BSON tag and the position of the value, tag 0 where the field is missing.

``odd`` slots could not be understood (a name twice, a name that is no UTF-8): the layout does them one by one.
Lengths are checked against the buffer, so damaged bytes raise ``MalformedBson`` and never loop or run over.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from streaming.bson.elements import MalformedBson, elements, value_end
from streaming.decode.buffer import Buffer, Cells, Mask, Positions, Tags, document_ends, values_after

_FEW = 12
"""Up to this many documents are walked one by one: a step in lock-step costs as much as a dozen plain
ones.
"""

_CANDIDATES_MAX = 6


@dataclass(slots=True)
class Extra:
    """Values of a field that was not asked for: parallel arrays of slots, tags, positions."""

    name: bytes
    slots: Positions
    tags: Tags
    at: Positions


Loose = tuple[int, bytes, int, int]
"""A single value of a field that was not asked for: slot, name, tag, position."""


@dataclass(slots=True)
class Fields:
    """What was found in the documents of one level: what was asked for, what was not, and the odd slots."""

    cells: dict[bytes, Cells]
    extras: list[Extra] = field(default_factory=list)
    loose: list[Loose] = field(default_factory=list)
    odd: list[Positions] = field(default_factory=list)


@dataclass(slots=True)
class Items:
    """The elements of arrays, array by array: the cells, and how many each array has."""

    cells: Cells
    counts: Positions


class FieldWalk:
    """One walk over the documents that start at ``at`` in ``buffer``, for the fields called ``names`` (UTF-8, in the
    plan's order). Slot i is the document at ``at[i]``.
    """

    def __init__(self, buffer: Buffer, at: Positions, names: list[bytes]) -> None:
        self._buffer = buffer
        self._slots = np.arange(len(at))
        self._whole = True  # no document has ended yet: slots are 0, 1, 2, …
        self._cursor = at + 4
        self._ends = document_ends(buffer, at)
        self._found = Fields({name: Cells.empty(len(at)) for name in names})
        self._ranks = {name: rank for rank, name in enumerate(names)}
        self._filled: set[bytes] = set()
        # Documents with little in common would need a step for each field of a few: past this they go one by one.
        self._steps = 4 * len(names) + 64

    def run(self) -> Fields:
        """Walk to the end of every document."""
        while len(self._slots) > _FEW and self._steps:
            self._steps -= 1
            tags = self._buffer.bytes[self._cursor]
            if tags[0] == 0:
                self._finish(tags)
                continue
            name, match = self._next_name(tags)
            if match is None:
                self._whole_step(name, tags)
            else:
                self._part_step(name, match, tags[match])
        for slot, cursor, end in zip(
            self._slots.tolist(), self._cursor.tolist(), self._ends.tolist(), strict=True
        ):
            self._one_by_one(slot, cursor, end)
        self._check_extras()
        return self._found

    def _finish(self, tags: Tags) -> None:
        """Let go of the documents whose cursor stands at their end."""
        over = tags == 0
        if not np.array_equal(self._cursor[over], self._ends[over]):
            raise MalformedBson("a document's fields end before the document does")
        left = ~over
        self._slots, self._cursor, self._ends = self._slots[left], self._cursor[left], self._ends[left]
        self._whole = False

    def _name_at(self, at: int) -> bytes:
        stop = self._buffer.raw.find(b"\0", at + 1)
        if stop < 0:
            raise MalformedBson(f"the field name at byte {at + 1} has no end")
        return self._buffer.raw[at + 1 : stop]

    def _next_name(self, tags: Tags) -> tuple[bytes, Mask | None]:
        """The field to take next, and the cursors that stand at it (None: all of them)."""
        going = tags != 0
        name = self._name_at(int(self._cursor[0]))
        match = self._buffer.at(self._cursor + 1, name + b"\0") & going
        if match.all():
            return name, None
        # Any field would be right. The plan's first keeps most documents together; one that it lacks (-1) goes at once.
        best = (self._ranks.get(name, -1), name, match)
        seen = match | ~going
        for _ in range(_CANDIDATES_MAX):
            if best[0] < 0 or seen.all():
                break
            name = self._name_at(int(self._cursor[np.argmin(seen)]))
            match = self._buffer.at(self._cursor + 1, name + b"\0") & going
            seen |= match
            if self._ranks.get(name, -1) < best[0]:
                best = (self._ranks.get(name, -1), name, match)
        return best[1], best[2]

    def _whole_step(self, name: bytes, tags: Tags) -> None:
        start = self._cursor + (len(name) + 2)
        self._cursor = self._after(tags, start, self._ends)
        self._put(name, None if self._whole else self._slots, tags, start)

    def _part_step(self, name: bytes, match: Mask, tags: Tags) -> None:
        start = self._cursor[match] + (len(name) + 2)
        self._cursor[match] = self._after(tags, start, self._ends[match])
        self._put(name, self._slots[match], tags, start)

    def _after(self, tags: Tags, start: Positions, ends: Positions) -> Positions:
        after = values_after(self._buffer, tags, start)
        if (after > ends).any():
            raise MalformedBson("a field runs past the end of its document")
        return after

    def _put(self, name: bytes, slots: Positions | None, tags: Tags, at: Positions) -> None:
        cells = self._found.cells.get(name)
        if cells is None:
            self._found.extras.append(Extra(name, self._slots if slots is None else slots, tags, at))
            return
        if name in self._filled:
            again = self._slots if slots is None else slots
            twice = again[cells.tags[again] != 0]
            if len(twice):
                self._found.odd.append(twice)
        self._filled.add(name)
        cells.put(slots, tags, at)

    def _one_by_one(self, slot: int, cursor: int, end: int) -> None:
        raw = self._buffer.raw
        while cursor < end:
            name = self._name_at(cursor)
            tag, start = raw[cursor], cursor + len(name) + 2
            cursor = value_end(tag, raw, start)
            cells = self._found.cells.get(name)
            if cells is None:
                self._found.loose.append((slot, name, tag, start))
            else:
                if cells.tags[slot]:
                    self._found.odd.append(np.array([slot]))
                cells.tags[slot], cells.at[slot] = tag, start
        if cursor != end:
            raise MalformedBson(f"the fields of a document end at byte {cursor}, the document at byte {end}")

    def _check_extras(self) -> None:
        """Fields that were met twice in one document, or whose name is no UTF-8, make it odd."""
        by_name: dict[bytes, list[Extra]] = {}
        for extra in self._found.extras:
            by_name.setdefault(extra.name, []).append(extra)
        for name, group in by_name.items():
            if not _is_utf8(name):
                self._found.odd.extend(extra.slots for extra in group)
            elif len(group) > 1:
                slots, counts = np.unique(
                    np.concatenate([extra.slots for extra in group]), return_counts=True
                )
                if (counts > 1).any():
                    self._found.odd.append(slots[counts > 1])
        met = {(slot, name) for slot, name, _, _ in self._found.loose}
        wrong = {slot for slot, name in met if not _is_utf8(name)}
        if len(met) < len(self._found.loose):
            times = Counter((slot, name) for slot, name, _, _ in self._found.loose)
            wrong.update(slot for (slot, _), count in times.items() if count > 1)
        for name in by_name.keys() & {name for _, name in met}:
            both = {slot for slot, other in met if other == name}
            wrong.update(slot for extra in by_name[name] for slot in extra.slots.tolist() if slot in both)
        if wrong:
            self._found.odd.append(np.array(sorted(wrong)))


def walk_items(buffer: Buffer, at: Positions) -> Items:
    """The elements of the arrays that start at ``at``; their names do not count."""
    count = len(at)
    slots, cursor, ends = np.arange(count), at + 4, document_ends(buffer, at)
    counts = np.zeros(count, np.int64)
    steps: list[tuple[Positions, Tags, Positions]] = []
    while True:
        over = buffer.bytes[cursor] == 0
        if over.any():
            if not np.array_equal(cursor[over], ends[over]):
                raise MalformedBson("an array's elements end before the array does")
            left = ~over
            slots, cursor, ends = slots[left], cursor[left], ends[left]
        if len(slots) <= _FEW:
            break
        tags, start = buffer.bytes[cursor], _after_names(buffer, cursor, len(steps))
        cursor = values_after(buffer, tags, start)
        if (cursor > ends).any():
            raise MalformedBson("an element runs past the end of its array")
        counts[slots] += 1
        steps.append((slots, tags, start))
    for slot in slots.tolist():
        done = int(counts[slot])
        rest = [(tag, start) for tag, _, start, _ in elements(buffer.raw, int(at[slot]))][done:]
        here = np.full(len(rest), slot)
        steps.append(
            (here, np.array([tag for tag, _ in rest], np.uint8), np.array([s for _, s in rest], np.int64))
        )
        counts[slot] += len(rest)
    return _flattened(steps, counts)


def _after_names(buffer: Buffer, cursor: Positions, index: int) -> Positions:
    """Where the values of array elements start, usually right behind the name ``str(index)``."""
    name = str(index).encode() + b"\0"
    start: Positions = cursor + (len(name) + 1)
    strange = ~buffer.at(cursor + 1, name)
    for item in np.flatnonzero(strange).tolist():
        stop = buffer.raw.find(b"\0", int(cursor[item]) + 1)
        if stop < 0:
            raise MalformedBson(f"the name of the array element at byte {cursor[item]} has no end")
        start[item] = stop + 1
    return start


def _flattened(steps: list[tuple[Positions, Tags, Positions]], counts: Positions) -> Items:
    if not steps:
        return Items(Cells.empty(0), counts)
    slots = np.concatenate([step[0] for step in steps])
    tags = np.concatenate([step[1] for step in steps])
    at = np.concatenate([step[2] for step in steps])
    order = np.argsort(slots, kind="stable")
    return Items(Cells(tags[order], at[order]), counts)


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True

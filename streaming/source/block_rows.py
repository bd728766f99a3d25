"""Blocks of ordinary changes as rows (`change_events`), made column by column and not event by event.

Ordinary are inserts, updates, replacements and deletes of captured documents, whose key is their `_id` alone and whose
fields have no rules. A block with anything else, or from too many collections, is given back, and goes event by event
(`change_events.RowBuilder`). So do, of any block, updates that came without their document: they are held until it is
looked up (`newest_events`).

Of the changes of a document that lie in one block only the newest leave: the last that lands something, and an update
behind it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
import pyarrow as pa

from streaming.bson.elements import DATE, DOCUMENT, NULL, STRING, MalformedBson
from streaming.bson.raw_fields import UnkeyableId
from streaming.decode.buffer import Buffer, Cells, Mask, Positions, values_after
from streaming.decode.keys import keys_at
from streaming.decode.parts import parts_of
from streaming.source.change_events import ARROW_SCHEMA, BYTES_MAX
from streaming.source.event_block import EventBlock
from streaming.source.newest_events import Numbered
from streaming.source.places import OPERATIONS, Place, Places

PLACES_MAX = 64
"""From how many collections the events of a block may be: each is looked for among all of them."""
_WORDS = (b"insert", b"update", b"replace", b"delete")
_UPDATE, _DELETE = 1, 3
_ID_AT = 9
"""Where the value lies in a documentKey: behind length, type and name."""
_MS_MAX = (1 << 63) // 1_000
Made = tuple[Iterator[pa.RecordBatch], Sequence[Numbered]]


@dataclass(frozen=True, slots=True)
class _Changes:
    """What a block's events are, by where they stand in it: ``words`` are numbers of `_WORDS`, ``at`` numbers of
    ``places``, each with its field ``ns``; ``whole``: which have a document."""

    block: EventBlock
    places: Sequence[tuple[bytes, Place]]
    at: Positions
    words: Positions
    keys: pa.StringArray
    whole: Mask

    def __len__(self) -> int:
        return len(self.block)


class BlockRows:
    """``places`` are those that the `RowBuilder` of the same split has. ``apart`` names a place whose events are seen
    one by one; None: there is none."""

    def __init__(self, places: Places, apart: bytes | None) -> None:
        self._places = places
        self._apart = apart

    def rows(self, block: EventBlock) -> Made | None:
        """The rows of a ``block``, and its updates without their documents as events, each with its number; all of it
        is counted. None where it is not all ordinary changes: then nothing has been done."""
        changes = self._understood(block)
        if changes is None:
            return None
        first = self._places.number
        self._places.number += len(changes)
        for number, (_, place) in enumerate(changes.places):
            counts = np.bincount(changes.words[changes.at == number], minlength=len(_WORDS)).tolist()
            for word, count in zip(_WORDS, counts, strict=True):
                if count:
                    place.operations[word] += count
        landing, bare = _newest(changes)
        return _batches(changes, first, landing), _events(changes, first, bare)

    def _understood(self, block: EventBlock) -> _Changes | None:
        cells = block.cells
        walls, documents = cells[b"wallTime"], cells[b"fullDocument"]
        if not (_are(walls, DATE) and _are(documents, DOCUMENT)):
            return None
        times = block.buffer.int64[walls.at[walls.tags == DATE]]
        if ((times > _MS_MAX) | (times < -_MS_MAX)).any():
            return None
        words = _numbers(len(block), (block.are(word) for word in _WORDS))
        whole = documents.tags == DOCUMENT
        # An insert or a replacement has its document, and a delete has none.
        if words is None or (whole != (words != _DELETE))[words != _UPDATE].any():
            return None
        named = self._named(block.buffer, cells[b"ns"])
        keys = _keys(block.buffer, cells[b"documentKey"])
        if named is None or keys is None:
            return None
        return _Changes(block, named[0], named[1], words, keys, whole)

    def _named(self, buffer: Buffer, cells: Cells) -> tuple[list[tuple[bytes, Place]], Positions] | None:
        """The places that ``cells`` name, and which of them each does."""
        if (cells.tags != DOCUMENT).any():
            return None
        places: list[tuple[bytes, Place]] = []
        at = np.full(len(cells.at), -1)
        while (at < 0).any():
            start = int(cells.at[np.argmax(at < 0)])
            raw = buffer.raw[start : start + int(buffer.int32[start])]
            place = self._places.at(raw)
            plain = place.captured and not place.sharded and place.rules is None
            if not plain or raw == self._apart or len(places) == PLACES_MAX:
                return None
            at[buffer.at(cells.at, raw)] = len(places)
            places.append((raw, place))
        return places, at


def _are(cells: Cells, kind: int) -> bool:
    """Whether all values are of this type, or there are none."""
    tags = cells.tags
    return bool(((tags == kind) | (tags == 0) | (tags == NULL)).all())


def _numbers(count: int, masks: Iterator[Mask]) -> Positions | None:
    """Which of the ``masks`` each is in; None where one is in none."""
    numbers = np.full(count, -1)
    for number, mask in enumerate(masks):
        numbers[mask] = number
    return None if (numbers < 0).any() else numbers


def _keys(buffer: Buffer, cells: Cells) -> pa.StringArray | None:
    """The keys of documentKeys; None where one has not just an `_id`, is damaged, or makes no key."""
    if (cells.tags != DOCUMENT).any() or not buffer.at(cells.at + 5, b"_id\0").all():
        return None
    tags, at = buffer.bytes[cells.at + 4], cells.at + _ID_AT
    try:
        ends = values_after(buffer, tags, at)
        whole = ends + 1 == cells.at + buffer.int32[cells.at]
        if not whole.all() or buffer.bytes[ends].any() or buffer.bytes[ends[tags == STRING] - 1].any():
            return None
        return keys_at(buffer, Cells(tags, at))
    except (MalformedBson, UnkeyableId):
        return None


def _newest(changes: _Changes) -> tuple[Positions, Positions]:
    """Of each document the newest event that lands something; and of those that an update without its document comes
    behind, the newest such."""
    keys = changes.keys.to_pylist()
    names = keys if len(changes.places) == 1 else list(zip(changes.at.tolist(), keys, strict=True))
    bare = (changes.words == _UPDATE) & ~changes.whole
    landing = dict(zip(compress(names, ~bare), np.flatnonzero(~bare).tolist(), strict=True))
    waiting = dict(zip(compress(names, bare), np.flatnonzero(bare).tolist(), strict=True))
    behind = [at for name, at in waiting.items() if at > landing.get(name, -1)]
    return np.array(sorted(landing.values()), np.int64), np.array(sorted(behind), np.int64)


def _events(changes: _Changes, first: int, rows: Positions) -> list[Numbered]:
    """Updates without their documents, by what there is of them to know."""
    block, cells, buffer = changes.block, changes.block.cells, changes.block.buffer
    walls = cells[b"wallTime"]
    events: list[Numbered] = []
    for at, place, time, size, timed, wall, key in zip(
        rows.tolist(),
        changes.at[rows].tolist(),
        block.times[rows].tolist(),
        block.sizes[rows].tolist(),
        (walls.tags[rows] == DATE).tolist(),
        walls.at[rows].tolist(),
        _documents(buffer, cells[b"documentKey"].at[rows]),
        strict=True,
    ):
        fields = {b"ns": changes.places[place][0], b"documentKey": key}
        if timed:
            fields[b"wallTime"] = buffer.raw[wall : wall + 8]
        events.append((first + at, (b"update", time, size, fields)))
    return events


def _documents(buffer: Buffer, starts: Positions) -> list[bytes]:
    raw = buffer.raw
    ends = starts + buffer.int32[starts]
    return [raw[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _batches(changes: _Changes, first: int, rows: Positions) -> Iterator[pa.RecordBatch]:
    """The ``rows`` as Arrow batches, and their bytes are counted."""
    sizes = changes.block.sizes[rows]
    for number, (_, place) in enumerate(changes.places):
        place.size += int(sizes[changes.at[rows] == number].sum())
    for begin, end in parts_of(sizes, BYTES_MAX):
        yield _batch(changes, first, rows[begin:end])


def _batch(changes: _Changes, first: int, rows: Positions) -> pa.RecordBatch:
    block, buffer, count = changes.block, changes.block.buffer, len(rows)
    cells, words, at = block.cells, changes.words[rows], changes.at[rows]
    documents: list[bytes | None] = [None] * count
    whole = np.flatnonzero(changes.whole[rows])
    for place, document in zip(
        whole.tolist(), _documents(buffer, cells[b"fullDocument"].at[rows[whole]]), strict=True
    ):
        documents[place] = document
    walls = cells[b"wallTime"]
    timed = walls.tags[rows] == DATE
    columns = {
        "kind": pa.repeat("event", count),
        "op": _chosen([OPERATIONS[word][0] for word in _WORDS], words),
        "operation_type": _chosen([OPERATIONS[word][1] for word in _WORDS], words),
        "db": _chosen([place.database for _, place in changes.places], at),
        "collection": _chosen([place.collection for _, place in changes.places], at),
        "_key": changes.keys.take(pa.array(rows)),
        "document_key": pa.array(_documents(buffer, cells[b"documentKey"].at[rows]), pa.binary()),
        "document": pa.array(documents, pa.binary()),
        "cluster_time": pa.array(block.times[rows]),
        "ord": pa.array(first + rows),
        "wall_time": pa.array(np.where(timed, buffer.int64[walls.at[rows]], 0) * 1_000, mask=~timed),
    }
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in ARROW_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def _chosen(values: Sequence[str | None], numbers: Positions) -> pa.Array:
    return pa.array(values, pa.string()).take(pa.array(numbers))

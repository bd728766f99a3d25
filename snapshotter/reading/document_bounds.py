"""Ids of documents as a signal writes them, as bounds that windows are made of.

A signal keeps an id as canonical Extended JSON text (`signals.parsing.document_ids`), a window its BSON and its
``_key``. Ids that MongoDB holds equal (5 and 5.0) have one key, so only here can they be told to be one document.

Everything that is wrong with an id is a SignalError: it is the sender's to correct.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import bson

from signals.actions import IdRange
from signals.errors import MalformedSignal, shown
from signals.parsing.extended_json import decode
from snapshotter.core.values.chunks import Bound, KeyRange
from snapshotter.reading.range_find import bound_of


def bounds_of(texts: Iterable[str], where: str) -> tuple[Bound, ...]:
    """The documents that ids mean, each once, in the order of the first mention. Raises MalformedSignal."""
    found: dict[str, Bound] = {}
    for text in texts:
        bound = _bound(text, where)
        found.setdefault(bound.key, bound)
    return tuple(found.values())


def key_range(ids: IdRange, where: str) -> KeyRange:
    """The ids between two ends, both of them included. Raises MalformedSignal, also where there can be none."""
    low, high = (None if end is None else _bound(end, where) for end in (ids.minimum, ids.maximum))
    if low is not None and high is not None and low.key > high.key:
        raise MalformedSignal(
            f"{where}: range has min {shown(ids.minimum)} after max {shown(ids.maximum)} in MongoDB's order of ids "
            "(numbers before strings, strings before ObjectIds), so nothing is in it; exchange them, or check their "
            "types"
        )
    return KeyRange(low, high, closed=low is not None)


def _bound(text: str, where: str) -> Bound:
    try:
        return bound_of(bson.encode({"_id": decode(json.loads(text))}))
    except ValueError as error:  # no JSON, no Extended JSON, or bytes that no id has: its message says which
        raise MalformedSignal(f"{where}: {shown(text)} is no id of a document: {error}") from error

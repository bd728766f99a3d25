"""Events that the server has split because they are larger than a document may be (``$changeStreamSplitLargeEvent``,
from MongoDB 6.0.9 on), put together again.

Each fragment has a token of its own, ``splitEvent`` (which fragment of how many it is), and some of the event's
outermost fields whole. The token of the whole is that of the last fragment: a reader that breaks off in between reads
the event again from its first one.
"""

from __future__ import annotations

from typing import Any

from bson.errors import InvalidBSON
from pymongo import MongoClient

from streaming.bson.elements import MalformedBson, elements
from streaming.bson.raw_fields import Element, document_of
from streaming.mongo.errors import ConfigurationError

STAGE: dict[str, Any] = {"$changeStreamSplitLargeEvent": {}}
SPLITS_FROM = (6, 0, 9)
_SPLIT, _TOKEN = b"splitEvent", b"_id"


def refuse_split(client: MongoClient[Any]) -> None:
    """Raises ConfigurationError where the server splits no events."""
    found = tuple(client.server_info()["versionArray"][:3])
    if found < SPLITS_FROM:
        least, this = (".".join(map(str, version)) for version in (SPLITS_FROM, found))
        raise ConfigurationError(
            f"cursor.oversize.handling.mode=split: MongoDB splits large events from {least} on, and this is {this}."
            " What to do: let it be skip, so that the document of such an event is read by its key, or upgrade the"
            " server"
        )


class Fragments:
    """Gathers the fragments of one event at a time, in the order of the stream."""

    def __init__(self) -> None:
        self._fields: dict[bytes, Element] = {}
        self._of = self._seen = 0

    @property
    def pending(self) -> bool:
        """Whether an event has begun whose last fragment has not come yet."""
        return self._seen > 0

    def add(self, raw: bytes) -> bytes | None:
        """The event that is whole with this document of the stream: the document itself, where it was not split; None
        while fragments are missing. Raises InvalidBSON where one does not follow the one before it."""
        fragment, of = _part_of(raw) if b"splitEvent\0" in raw else (0, 0)
        if not of:
            if self.pending:
                raise InvalidBSON(
                    f"an event stands among the fragments of another, {self._seen} of {self._of}"
                )
            return raw
        if fragment != self._seen + 1 or (self.pending and of != self._of):
            raise InvalidBSON(f"fragment {fragment} of {of} of an event follows {self._seen} of {self._of}")
        self._seen, self._of = fragment, of
        for tag, name, start, end in elements(raw, 0):
            if name == _TOKEN or (name != _SPLIT and name not in self._fields):
                self._fields[name] = Element(tag, name, raw[start:end])
        if fragment < of:
            return None
        whole = document_of(self._fields.values())
        self._fields, self._seen = {}, 0
        return whole


def _part_of(raw: bytes) -> tuple[int, int]:
    """Which fragment of how many; (0, 0) of an event that was not split."""
    try:
        at = next((start for _, name, start, _ in elements(raw, 0) if name == _SPLIT), None)
        if at is None:
            return 0, 0
        numbers = {
            name: int.from_bytes(raw[start:end], "little", signed=True)
            for _, name, start, end in elements(raw, at)
        }
        return numbers[b"fragment"], numbers[b"of"]
    except (MalformedBson, KeyError) as error:
        raise InvalidBSON(f"a fragment of an event that does not say which: {error}") from error

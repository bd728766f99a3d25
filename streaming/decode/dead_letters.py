"""What cannot be processed, as a value instead of an exception in a worker: why, and the bytes that may be kept.

A document, or an event, fails by itself: damaged bytes, an id that has no key, two fields that a rename lets meet.
Whoever works on many at a time hands them to `sort_out`, which tells the few that fail from the others. What becomes
of them is the driver's to decide (``event.processing.failure.handling.mode``).

- The bytes are those behind the rules about fields: what is left out or hashed is so here. Where that cannot be carried
  out the bytes are withheld, and their length and digest are what is left.
- A reason shows no value of a document: it is what our own errors say (names, and places of bytes), or only the class
  of any other.

What concerns the whole of a collection, such as documents without an id, is raised as it is: it is no document's own.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from streaming.bson.elements import MalformedBson, elements
from streaming.bson.raw_fields import Element, UnkeyableId, document_of
from streaming.decode.keys import MissingId, key_at
from streaming.fields.document_rules import DocumentRules
from streaming.json_text import from_text, to_text
from streaming.keys.shard_keys import ShardKey
from streaming.mongo.errors import SourceError

T = TypeVar("T")

DEAD = '{"dead":'
"""How the text of each begins, and no other text beside which it stands."""
OVERSIZED_EVENT = "oversized"
"""What an event above 16 MB has as its operation: it comes as an update without its document."""
OF_ALL = (MissingId, MemoryError)
"""Errors that are no single document's own."""


class Where(StrEnum):
    """Where it was met: an event of the stream, the document that was looked up for one, or a document of a chunk."""

    STREAM = "stream"
    LOOKUP = "lookup"
    READ = "read"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """``raw``: the bytes that may be kept, None where they are withheld or there are none. ``size`` and ``sha256`` are
    of these, or else of what is withheld. ``id``: BSON of ``{"_id": ...}``, where that is known."""

    where: Where
    error: str
    raw: bytes | None = None
    size: int = 0
    sha256: str | None = None
    id: bytes | None = None

    def to_text(self) -> str:
        """For the column of trailers; it begins with `DEAD`."""
        fields = {"where": self.where.value, "error": self.error, "size": self.size, "sha256": self.sha256}
        more = {"bytes": _base64(self.raw), "id": _base64(self.id)}
        return f"{DEAD}{to_text(fields | more)}}}"

    @classmethod
    def from_text(cls, text: str) -> DeadLetter:
        """What `to_text` wrote."""
        found = from_text(text)["dead"]
        raw, id_ = (
            None if found[name] is None else base64.b64decode(found[name]) for name in ("bytes", "id")
        )
        return cls(Where(found["where"]), found["error"], raw, found["size"], found["sha256"], id_)


def dead_letter(
    where: Where,
    error: BaseException,
    raw: bytes | None,
    rules: DocumentRules | None,
    *,
    id_: bytes | None = None,
    known: bool = True,
) -> DeadLetter:
    """Why (``error``), and what is kept of the bytes ``raw`` under the ``rules`` of the collection. ``where`` it was
    met. ``id_``: as `DeadLetter.id`. Not ``known``: nobody can tell whose rules count, so nothing is kept."""
    kept = behind(rules, raw) if known and raw is not None else None
    told = kept if kept is not None else raw
    size, digest = (0, None) if told is None else (len(told), hashlib.sha256(told).hexdigest())
    return DeadLetter(where, reason(error), kept, size, digest, id_)


def behind(rules: DocumentRules | None, raw: bytes) -> bytes | None:
    """A document as far as it may be kept: without what is left out, hashed where that is asked for, under the names
    that it has in MongoDB; None where that cannot be carried out."""
    hiding = None if rules is None else rules.without_renames()
    if hiding is None:
        return raw
    try:
        return hiding.document(raw)
    except Exception:  # noqa: BLE001 - whatever it is, the bytes are withheld, which is said
        return None


def reason(error: BaseException) -> str:
    """Why, without a value of the document."""
    match error:
        case SourceError():
            return error.message
        case UnkeyableId():
            return str(error).rpartition("; ")[0]  # what follows shows bytes
        case MalformedBson():
            return str(error)
    return f"unexpected {type(error).__name__}"


def id_in(raw: bytes) -> bytes | None:
    """The BSON of ``{"_id": ...}`` with the id of a document, of which only what stands before it has to be sound; None
    where it cannot be found."""
    try:
        for tag, name, start, end in elements(raw, 0):
            if name == b"_id":
                return document_of([Element(tag, name, raw[start:end])])
    except MalformedBson:
        return None
    return None


def key_in(raw: bytes, shard_key: ShardKey) -> str | None:
    """The key of a document, which ``shard_key`` is part of, as far as it can be found out."""
    try:
        return key_at(raw, 0, shard_key)
    except (MalformedBson, UnkeyableId, MissingId):
        return None


def sort_out(count: int, attempt: Callable[[int, int], T]) -> tuple[list[T], list[tuple[int, Exception]]]:
    """What ``attempt`` makes of ``count`` documents, in as few parts as their failures allow, in their order; and of
    each that fails by itself its place and why. It is given the places where a part begins and ends. Raises what is of
    all of them (`OF_ALL`)."""
    made: list[T] = []
    failed: list[tuple[int, Exception]] = []
    waiting = [(0, count)]
    while waiting:
        begin, end = waiting.pop()
        try:
            made.append(attempt(begin, end))
        except OF_ALL:
            raise
        except Exception as error:
            if end == begin:
                raise
            if end - begin == 1:
                failed.append((begin, error))
                continue
            middle = (begin + end) // 2
            waiting += [(middle, end), (begin, middle)]
    return made, failed


def _base64(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()

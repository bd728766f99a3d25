"""Answers to signals that ask instead of act (``dry-run``): small files ``answers/<id>.json`` beside the state.

Whoever sent the signal reads them there, as `snapshotter execute-snapshot --dry-run` does. They are reports: nothing is
decided by them, and only the newest ones are kept.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime

from pydantic import BaseModel, ConfigDict, ValidationError

from snapshotter.errors import DefiniteError
from snapshotter.state.storage import Storage

FOLDER = "answers"
KEPT_MAX = 100
_UNITS = ("B", "kB", "MB", "GB", "TB")
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,100}")


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class CollectionEstimate(_Answer):
    """What would be read of one collection. ``first`` and ``last`` are the lowest and the highest id of it, as
    canonical Extended JSON. ``counted``: the documents were counted; else MongoDB's own estimate. None is "not known",
    and ``notes`` say why."""

    name: str
    first: str | None = None
    last: str | None = None
    documents: int | None = None
    counted: bool = False
    bytes: int | None = None
    seconds: float | None = None
    notes: tuple[str, ...] = ()


class DryRun(_Answer):
    """What a request would read. ``rows_per_second`` is the newest speed that this engine measured; ``error`` why there
    is no estimate. The sums are None where a part of them is not known."""

    id: str
    answered_at: datetime
    collections: tuple[CollectionEstimate, ...] = ()
    documents: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    rows_per_second: float | None = None
    error: str | None = None

    def __str__(self) -> str:
        lines = []
        for part in self.collections:
            lines.append(f"{part.name}: {_amounts(part)}")
            if part.first is not None:
                lines.append(f"  ids {part.first} to {part.last}")
            lines += [f"  {note}" for note in part.notes]
        if len(self.collections) > 1:
            lines.append(f"all: {_amounts(self)}")
        if self.rows_per_second is None:
            lines.append("seconds: not known, this engine has measured no speed yet")
        else:
            lines.append(f"at {self.rows_per_second:,.0f} documents a second, the newest measured speed")
        lines.append("nothing was read")
        return "\n".join(lines)

    def __repr__(self) -> str:
        parts = [f"{part.name}: {_amounts(part)}" for part in self.collections]
        return f"<dry run · {' · '.join(parts) or self.error}>"

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str) -> DryRun:
        """Raises DefiniteError for a text that is no answer."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise DefiniteError(f"a file in {FOLDER} is no answer to a dry run: {error}") from error


def answer_file(signal_id: str) -> str:
    """Where the answer to a signal lies: under its id, or where a file system would object, under a digest of it."""
    name = signal_id if _PLAIN.fullmatch(signal_id) else hashlib.sha256(signal_id.encode()).hexdigest()[:32]
    return f"{FOLDER}/{name}.json"


def read_answer(storage: Storage, signal_id: str) -> DryRun | None:
    """The answer to a signal; None where there is none yet."""
    text = storage.read_text(answer_file(signal_id))
    return None if text is None else DryRun.from_json(text)


def write_answer(storage: Storage, answer: DryRun) -> None:
    """Write it, and let go of the oldest ones where there are too many."""
    storage.write_text(answer_file(answer.id), answer.to_json())
    names = [f"{FOLDER}/{name}" for name in storage.list_names(FOLDER)]
    if len(names) <= KEPT_MAX:
        return
    texts = {name: storage.read_text(name) for name in names}
    by_age = sorted(names, key=lambda name: _answered_at(texts[name]))
    for name in by_age[: len(names) - KEPT_MAX]:
        storage.delete(name)


def _answered_at(text: str | None) -> float:
    """Files that are no answers are the oldest."""
    try:
        return DryRun.from_json(text or "").answered_at.timestamp()
    except DefiniteError:
        return 0.0


def _amounts(part: CollectionEstimate | DryRun) -> str:
    documents = "documents not known" if part.documents is None else f"{part.documents:,} documents"
    amounts = [documents]
    if part.bytes is not None:
        amounts.append(f"about {_size(part.bytes)}")
    if part.seconds is not None:
        amounts.append(f"about {part.seconds:,.0f} s")
    return ", ".join(amounts)


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} {_UNITS[-1]}"

"""Lives of an engine's position: after one was lost, or its checkpoint removed, a new checkpoint beside the old one.

Spark's checkpoint goes on from where it was, and from nowhere else. Where the source no longer has what came then, or
the checkpoint does not know the batches that progress was saved for (somebody has removed it, or put an older one in
its place), a new *generation* begins: another checkpoint, another history of progress, in folders with its number.
``generation.json`` says which one is in force; it is replaced in one step, so a crash leaves the old generation or
the new one. Old ones stay on the disk, for whoever wants to know what happened.

What had ended stays known: the first state of a new generation holds it, so that a signal that comes again is not
carried out again. What had not ended is in the journal, and begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from snapshotter.core.values.progress import Progress
from snapshotter.state.storage import Storage
from streaming.json_text import from_text, to_text

_FILE = "generation.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Generation:
    """``number`` counts from 1. The first one has the plain names. ``removed``: the checkpoint of the one before was
    taken away, so this one begins as an engine's first start does."""

    number: int = 1
    removed: bool = False

    @property
    def lost(self) -> bool:
        """It began because the source no longer had the position: all is read again, whatever the mode says."""
        return self.number > 1 and not self.removed

    @property
    def checkpoint(self) -> str:
        """The folder of Spark's checkpoint, beside the state."""
        return self._named("checkpoint")

    @property
    def progress(self) -> str:
        """The folder of saved progress, beside the state."""
        return self._named("progress")

    def _named(self, folder: str) -> str:
        return folder if self.number == 1 else f"{folder}-{self.number}"


def current(storage: Storage) -> Generation:
    """The one in force. Raises ValueError for a file that is none of ours."""
    text = storage.read_text(_FILE)
    if text is None:
        return Generation()
    value = from_text(text)
    if value.get("format") != _FORMAT:
        raise ValueError(f"{storage.location}/{_FILE} is not of format {_FORMAT}: {text[:200]}")
    return Generation(int(value["generation"]), value.get("removed", False))


def seed(lost: Progress) -> Progress:
    """The state that a new generation begins from: what had ended in the one that lost its position."""
    ended = tuple(replace(r, ended_in=-1) for r in lost.requests if r.ended)
    return Progress(requests=ended)


def begin(storage: Storage, generation: Generation) -> None:
    """In force once this returns; its first state is saved before."""
    value = {"format": _FORMAT, "generation": generation.number, "removed": generation.removed}
    storage.write_text(_FILE, to_text(value))

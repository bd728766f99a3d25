"""Lives of an engine's position: after one was lost, or its checkpoint removed, a new checkpoint beside the old one.

Spark's checkpoint goes on from where it was, and from nowhere else. Where the source no longer has what came then, or
the checkpoint does not know the batches that progress was saved for (somebody has removed it, or put an older one in
its place), a new *generation* begins: another checkpoint, another history of progress, in folders with its number.
``generation.json`` says which one is in force; it is replaced in one step, so a crash leaves the old generation or
the new one. Old ones stay on the disk, for whoever wants to know what happened.

What had ended stays known: the first state of a new generation holds it, so that a signal that comes again is not
carried out again. What had not ended is in the journal, and begins anew. Where the stream only goes on behind a gap,
what is known of the tables stays known too, but no table is whole any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.gaps import Gap
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import Origin
from snapshotter.state.storage import Storage
from streaming.json_text import from_text, to_text

_FILE = "generation.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Generation:
    """``number`` counts from 1. The first one has the plain names. ``removed``: the checkpoint of the one before was
    taken away, so this one begins as an engine's first start does. ``gap``: what the stream does not show between the
    generation before and this one (None also in files of earlier versions)."""

    number: int = 1
    removed: bool = False
    gap: Gap | None = None

    @property
    def lost(self) -> bool:
        """It began because the position was of no use any more: a new one is taken, whatever the options say."""
        return self.number > 1 and not self.removed

    @property
    def heals(self) -> bool:
        """All is compared with its table, whatever the mode says."""
        return self.lost and (self.gap is None or self.gap.heals)

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
    gap = Gap.from_json(value["gap"]) if value.get("gap") else None
    return Generation(int(value["generation"]), value.get("removed", False), gap)


def seed(lost: Progress, generation: Generation) -> Progress:
    """The state that ``generation`` begins from: what had ended in the one before, and gaps that are open. Where it
    goes on behind a gap, besides what was known of the tables, with every collection marked as unread but those whose
    initial load had not ended: these have no mark, and are read."""
    ended = tuple(replace(r, ended_in=-1) for r in lost.requests if r.ended)
    begun = Progress(requests=ended, gaps=lost.gaps)
    if generation.gap is None or generation.gap.heals:
        return begun
    marked = lost.coverage or Coverage()
    loading = {
        t.namespace for r in lost.requests if r.origin is Origin.INITIAL for t in r.tasks if not t.ended
    }
    return replace(
        begun,
        rereads=lost.rereads,
        suspended=lost.suspended,
        tables=lost.tables,
        shard_keys=lost.shard_keys,
        coverage=Coverage(unread=(marked.settled | marked.unread) - loading),
    )


def begin(storage: Storage, generation: Generation) -> None:
    """In force once this returns; its first state is saved before."""
    value: dict[str, Any] = {
        "format": _FORMAT,
        "generation": generation.number,
        "removed": generation.removed,
    }
    if generation.gap is not None:
        value["gap"] = generation.gap.to_json()
    storage.write_text(_FILE, to_text(value))

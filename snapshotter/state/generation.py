"""Lives of an engine's position: after one was lost, moved, or its checkpoint removed, a new checkpoint beside the old
one.

Spark's checkpoint goes on from where it was, and from nowhere else. Where the source no longer has what came then, or
the checkpoint does not know the batches that progress was saved for (somebody has removed it, or put an older one in
its place), a new *generation* begins: another checkpoint, another history of progress, in folders with its number.
``generation.json`` says which one is in force; it is replaced in one step, so a crash leaves the old generation or
the new one. Old ones stay on the disk, for whoever wants to know what happened.

What had ended stays known: the first state of a new generation holds it, so that a signal that comes again is not
carried out again. What had not ended is in the journal, and begins anew. Where only the position moves (`carried`), or
the stream goes on behind a gap, all that is known of collections and requests stays; behind a gap no table is whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.gaps import Gap
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin
from snapshotter.state.storage import Storage, read_object
from streaming.json_text import to_text
from streaming.positions import ClusterTime

_FILE = "generation.json"
_FORMAT = 1


class Cause(StrEnum):
    """Why a generation began: the source had lost the position, the checkpoint was removed, an operator has set the
    position or imported one, or it has another name (``offset.partition.name``)."""

    LOST = "lost"
    REMOVED = "removed"
    RESET = "reset"
    IMPORTED = "imported"
    RENAMED = "renamed"


@dataclass(frozen=True, slots=True)
class Generation:
    """``number`` counts from 1. The first one has the plain names. ``removed``: the checkpoint of the one before was
    taken away, or its name changed, so this one begins as an engine's first start does. ``cause``: why it began (None
    in files of before). ``start``: the position behind which it begins; None where the engine takes one. ``heals``: see
    `heal`; None follows the number. ``gap``: what the stream does not show between the generation before and this one.
    ``partition``: the name of the position, of ``offset.partition.name``."""

    number: int = 1
    removed: bool = False
    cause: Cause | None = None
    start: ClusterTime | None = None
    heals: bool | None = None
    gap: Gap | None = None
    partition: str = ""

    @property
    def heal(self) -> bool:
        """All is compared with its table, whatever the mode says: the stream has not followed the tables' rows."""
        return self.number > 1 and not self.removed if self.heals is None else self.heals

    @property
    def lost(self) -> bool:
        """It began because the position was of no use any more: a new one is taken, whatever the options say."""
        return self.number > 1 and not self.removed and self.start is None

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
    value = read_object(storage, _FILE, _FORMAT)
    if value is None:
        return Generation()
    return Generation(
        number=int(value["generation"]),
        removed=value.get("removed", False),
        cause=Cause(value["cause"]) if "cause" in value else None,
        start=ClusterTime.from_json(value["start"]) if "start" in value else None,
        heals=value.get("heal"),
        gap=Gap.from_json(value["gap"]) if "gap" in value else None,
        partition=value.get("partition", ""),
    )


def seed(lost: Progress, generation: Generation) -> Progress:
    """The state that ``generation`` begins from: what had ended in the one before, and gaps that are open. Where it
    goes on behind a gap, besides what was known of the tables, with every collection marked as unread but those whose
    initial load had not ended: these have no mark, and are read."""
    ended = tuple(replace(r, ended_in=-1) for r in lost.requests if r.ended)
    begun = Progress(requests=ended, gaps=lost.gaps, fields=lost.fields)
    if generation.heal or generation.gap is None:
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


def carried(before: Progress, position: ClusterTime, gap: Gap | None = None) -> Progress:
    """The state that a generation begins from after the one ``before``, where only the position moves, to ``position``:
    batches count anew, and all else stays. A load that was under way goes on as an ordinary scan, for the range ahead
    of it may hold rows. Where it passes a ``gap``, every collection is marked as unread."""
    coverage = before.coverage
    if coverage is None:
        loads = (r for r in before.requests if r.origin is Origin.INITIAL)
        coverage = Coverage().settling(t.namespace for r in loads for t in r.tasks)
    if gap is not None:
        coverage = Coverage(unread=coverage.settled | coverage.unread)
    requests = tuple(map(_moved, before.requests))
    return replace(before, batch_id=-1, position=position, requests=requests, coverage=coverage)


def _moved(request: RequestProgress) -> RequestProgress:
    tasks = tuple(task if task.ended else task.merging() for task in request.tasks)
    return replace(request, tasks=tasks, ended_in=-1 if request.ended_in is not None else None)


def begin(storage: Storage, generation: Generation) -> None:
    """In force once this returns; its first state is saved before. What is not set is not written."""
    value: dict[str, Any] = {
        "format": _FORMAT,
        "generation": generation.number,
        "removed": generation.removed,
        "cause": generation.cause and generation.cause.value,
        "start": generation.start and generation.start.to_json(),
        "heal": generation.heals,
        "gap": generation.gap and generation.gap.to_json(),
        "partition": generation.partition or None,
    }
    storage.write_text(_FILE, to_text({name: said for name, said in value.items() if said is not None}))

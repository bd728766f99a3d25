"""Progress, as small files beside the checkpoint, versioned by batch.

Batch N starts from the newest state saved for a batch before it, so a replayed batch repeats its decisions. What a
replay does not undo is in the journal (`state.journal`). Of requests that have ended the newest
``Limits.ended_requests_kept`` (1,000) are shown; their ids are known for longer.
"""

from __future__ import annotations

from dataclasses import replace

from snapshotter.core.values.gaps import Gap
from snapshotter.core.values.progress import Progress
from snapshotter.state.generation import Cause, Generation, begin, current, seed
from snapshotter.state.storage import Storage
from streaming.json_text import from_text, to_text
from streaming.positions import ClusterTime

_KEPT = 20
_ANNOUNCED = "told.json"
_FORMAT = 1


class ProgressStore:
    """States by batch id. The newest ``_KEPT`` stay (Spark replays no batch but the last), and that from which a start
    would tell what was announced since."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.generation = current(storage)

    @property
    def untouched(self) -> bool:
        """No batch was ever saved, and nobody has set a position."""
        return self.newest() is None and self.generation == Generation(partition=self.generation.partition)

    def next_generation(self, *, removed: bool = False, gap: Gap | None = None) -> ProgressStore:
        """The store of a new generation, in force when this returns; this one is history from then on. ``removed`` and
        ``gap`` as in `state.generation.Generation`."""
        now = self.generation
        number = now.number + 1
        new = Generation(number, removed, Cause.REMOVED if removed else Cause.LOST, partition=now.partition)
        if gap is not None:
            new = replace(new, gap=replace(gap, number=number), heals=gap.heals)
        return self.begin_generation(new, seed(self.newest() or Progress(), new))

    def renamed(self, partition: str, *, began: bool) -> ProgressStore:
        """The store of a position of the name ``partition``. ``began``: a batch was saved in this one, so the new one
        is another generation, which begins as a first start does."""
        if not began:
            begin(self._storage, replace(self.generation, partition=partition))
            return ProgressStore(self._storage)
        new = Generation(self.generation.number + 1, True, Cause.RENAMED, heals=False, partition=partition)
        return self.begin_generation(new, seed(self.newest() or Progress(), new))

    def begin_generation(self, generation: Generation, state: Progress) -> ProgressStore:
        """The store of this ``generation``, in force when this returns, whose first batch begins from ``state``."""
        text = to_text({"format": _FORMAT, **state.to_json()})
        # The state first: a crash in between leaves the old generation in force.
        self._storage.write_text(f"{generation.progress}/{_file_of(-1)}", text)
        begin(self._storage, generation)
        return ProgressStore(self._storage)

    def unknown_to_checkpoint(self) -> int | None:
        """The newest batch that progress was saved for, if the checkpoint has no record of it: it is logged before it
        runs, so the checkpoint is not the one that this progress belongs to."""
        newest = max(self._batches(), default=-1)
        known = newest < 0 or self._storage.exists(f"{self.generation.checkpoint}/offsets/{newest}")
        return None if known else newest

    def newest_begun(self) -> int:
        """The newest batch that the checkpoint has a record of, which may not have been tried; -1 for none."""
        names = self._storage.list_names(f"{self.generation.checkpoint}/offsets")
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def load_before(self, batch_id: int) -> Progress:
        """The newest state saved for a batch before ``batch_id``; a fresh one if there is none."""
        for known in reversed(self._batches()):
            if known < batch_id:
                return self._load(known)
        return Progress()

    def newest(self) -> Progress | None:
        batches = self._batches()
        return self._load(batches[-1]) if batches else None

    def position(self) -> ClusterTime:
        """Up to where all has landed; the origin, where nothing has."""
        return (self.newest() or Progress()).position

    def save(self, progress: Progress) -> None:
        text = to_text({"format": _FORMAT, **progress.to_json()})
        self._storage.write_text(self._name(progress.batch_id), text)
        if progress.batch_id % _KEPT == 0:
            told = self.announced_upto()
            kept = None if told is None else self._known_at(told)
            for old in self._batches()[:-_KEPT]:
                if old != kept:
                    self._storage.delete(self._name(old))

    def announced_upto(self) -> int | None:
        """The batch up to which everything has been announced, and was heard; None where that was never noted."""
        noted = self._noted()
        return noted["batch"] if noted.get("generation") == self.generation.number else None

    def _noted(self) -> dict[str, int]:
        text = self._storage.read_text(_ANNOUNCED)
        return from_text(text) if text is not None else {}

    def note_announced(self, batch_id: int) -> None:
        """Everything up to this batch has been announced, and was heard. What is noted never goes back: an engine that
        has lost its name notes what its channels have taken, and the next one may have gone on."""
        there = self._noted()
        if (there.get("generation", 0), there.get("batch", -1)) > (self.generation.number, batch_id):
            return
        noted = {"generation": self.generation.number, "batch": batch_id}
        self._storage.write_text(_ANNOUNCED, to_text(noted))

    def known_at(self, batch_id: int) -> Progress:
        """The state of this batch, or the oldest that is kept after it."""
        known = self._known_at(batch_id)
        if known is None or (
            batch_id < 0 and known == 0
        ):  # a first generation saves nothing before its first batch
            return Progress()
        return self._load(known)

    def _known_at(self, batch_id: int) -> int | None:
        batches = self._batches()
        before = [known for known in batches if known <= batch_id] or batches[:1]
        return before[-1] if before else None

    def _load(self, batch_id: int) -> Progress:
        name = self._name(batch_id)
        text = self._storage.read_text(name)
        if text is None:
            raise FileNotFoundError(f"{self._storage.location}/{name} was listed, but is gone")
        value = from_text(text)
        if value.pop("format", None) != _FORMAT:
            raise ValueError(f"{self._storage.location}/{name} is not progress of format {_FORMAT}")
        return Progress.from_json(value)

    def _batches(self) -> list[int]:
        names = self._storage.list_names(self.generation.progress)
        return sorted(int(name.removesuffix(".json")) for name in names if name.endswith(".json"))

    def _name(self, batch_id: int) -> str:
        return f"{self.generation.progress}/{_file_of(batch_id)}"


def _file_of(batch_id: int) -> str:
    return f"{batch_id:012d}.json"

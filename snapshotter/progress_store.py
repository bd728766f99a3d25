"""Progress and the journal, as small files beside the checkpoint.

Two durable things with different lives. *Progress* is versioned by batch: batch N starts from the newest state saved
for a batch before it, so a replayed batch repeats its decisions. The *journal* holds accepted requests; a replay does
not undo it, and a request in it is carried out once, whatever crashes, because its id is in the progress from then on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from snapshotter.core.progress import Progress
from snapshotter.core.requests import Origin, SnapshotRequest, Wanted
from snapshotter.storage import Storage
from streaming.namespaces import Namespace

_FOLDER = "progress"
_KEPT = 20
_JOURNAL = "journal.json"
_FORMAT = 1


class ProgressStore:
    """States by batch id. The newest ``_KEPT`` stay: Spark replays no batch but the last."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def load_before(self, batch_id: int) -> Progress:
        """The newest state saved for a batch before ``batch_id``; a fresh one if there is none."""
        for known in reversed(self._batches()):
            if known < batch_id:
                return self._load(known)
        return Progress()

    def newest(self) -> Progress | None:
        batches = self._batches()
        return self._load(batches[-1]) if batches else None

    def save(self, progress: Progress) -> None:
        text = json.dumps({"format": _FORMAT, **progress.to_json()})
        self._storage.write_text(self._name(progress.batch_id), text)
        if progress.batch_id % _KEPT == 0:
            for old in self._batches()[:-_KEPT]:
                self._storage.delete(self._name(old))

    def _load(self, batch_id: int) -> Progress:
        name = self._name(batch_id)
        text = self._storage.read_text(name)
        if text is None:
            raise FileNotFoundError(f"{self._storage.location}/{name} was listed, but is gone")
        value = json.loads(text)
        if value.pop("format", None) != _FORMAT:
            raise ValueError(f"{self._storage.location}/{name} is not progress of format {_FORMAT}")
        return Progress.from_json(value)

    def _batches(self) -> list[int]:
        names = self._storage.list_names(_FOLDER)
        return sorted(int(name.removesuffix(".json")) for name in names if name.endswith(".json"))

    @staticmethod
    def _name(batch_id: int) -> str:
        return f"{_FOLDER}/{batch_id:012d}.json"


class Journal:
    """Accepted requests, in order. ``add`` returns False for an id that is there already."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        text = storage.read_text(_JOURNAL)
        entries = json.loads(text)["requests"] if text is not None else []
        self._requests = {entry["id"]: _request_from(entry) for entry in entries}

    @property
    def requests(self) -> tuple[SnapshotRequest, ...]:
        return tuple(self._requests.values())

    def known(self, request_id: str) -> SnapshotRequest | None:
        return self._requests.get(request_id)

    def add(self, request: SnapshotRequest) -> bool:
        if request.id in self._requests:
            return False
        self._write({**self._requests, request.id: request})
        return True

    def forget(self, ended: Iterable[str]) -> None:
        """Requests whose end is saved in the progress, which remembers their ids from here on."""
        gone = set(ended) & self._requests.keys()
        if gone:
            self._write({i: r for i, r in self._requests.items() if i not in gone})

    def _write(self, requests: dict[str, SnapshotRequest]) -> None:
        entries = [_request_to(request) for request in requests.values()]
        self._storage.write_text(_JOURNAL, json.dumps({"format": _FORMAT, "requests": entries}))
        self._requests = requests


def _request_to(request: SnapshotRequest) -> dict[str, object]:
    wanted = [{"namespace": str(w.namespace), "filter": w.filter} for w in request.wanted]
    return {"id": request.id, "origin": request.origin.value, "wanted": wanted}


def _request_from(entry: dict[str, object]) -> SnapshotRequest:
    wanted = entry["wanted"]
    assert isinstance(wanted, list)
    collections = tuple(Wanted(Namespace.parse(w["namespace"]), w["filter"]) for w in wanted)
    return SnapshotRequest(str(entry["id"]), collections, Origin(str(entry["origin"])))

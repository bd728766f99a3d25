"""Progress and the journal, as small files beside the checkpoint.

Two durable things with different lives. *Progress* is versioned by batch: batch N starts from the newest state saved
for a batch before it, so a replayed batch repeats its decisions. The *journal* holds accepted requests, and what
operators have decided about requests (`core.controls`); a replay does not undo it. A request is carried out once,
whatever crashes: its id is in the journal until the progress that a replay would start from knows it as ended.

How long an id is remembered: a request until it has ended, and then as one of the newest
``Limits.ended_requests_kept`` (1,000) that have; a command as one of the newest ``COMMANDS_KEPT`` (20,000).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Any

from snapshotter.core.chunks import Bound, KeyRange
from snapshotter.core.controls import Controls
from snapshotter.core.progress import Progress, RequestProgress
from snapshotter.core.requests import Origin, SnapshotRequest, Wanted
from snapshotter.state.generation import Generation, begin, current, seed
from snapshotter.state.storage import Storage
from streaming.namespaces import Namespace

_KEPT = 20
_JOURNAL = "journal.json"
_CONTROLS = "controls.json"
_TOLD = "told.json"
_FORMAT = 1


class ProgressStore:
    """States by batch id. The newest ``_KEPT`` stay: Spark replays no batch but the last."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.generation = current(storage)

    def next_generation(self) -> ProgressStore:
        """The store of a new generation, in force when this returns; this one is history from then on."""
        new = Generation(self.generation.number + 1)
        text = json.dumps({"format": _FORMAT, **seed(self.newest() or Progress()).to_json()})
        self._storage.write_text(f"{new.progress}/{_file_of(-1)}", text)
        begin(self._storage, new)
        return ProgressStore(self._storage)

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

    def told(self) -> int | None:
        """The batch up to which operators have been told; None where nobody has noted that."""
        text = self._storage.read_text(_TOLD)
        noted = json.loads(text) if text is not None else {}
        return noted["batch"] if noted.get("generation") == self.generation.number else None

    def note_told(self, batch_id: int) -> None:
        """Operators have been told of everything up to this batch."""
        noted = {"generation": self.generation.number, "batch": batch_id}
        self._storage.write_text(_TOLD, json.dumps(noted))

    def known_at(self, batch_id: int) -> Progress:
        """The state of this batch, or the oldest that is kept after it."""
        batches = self._batches()
        before = [known for known in batches if known <= batch_id] or batches[:1]
        return self._load(before[-1]) if before else Progress()

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
        names = self._storage.list_names(self.generation.progress)
        return sorted(int(name.removesuffix(".json")) for name in names if name.endswith(".json"))

    def _name(self, batch_id: int) -> str:
        return f"{self.generation.progress}/{_file_of(batch_id)}"


class Journal:
    """Accepted requests, in order, and what operators have decided about requests (``controls``).

    One file holds both, and is replaced whole: of signals that came together all is known after a crash, or nothing.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._writing = threading.Lock()
        text = storage.read_text(_JOURNAL)
        found = json.loads(text) if text is not None else {"requests": []}
        self._requests = {entry["id"]: _request_from(entry) for entry in found["requests"]}
        self._texts = {name: text_of(request) for name, request in self._requests.items()}
        controls = found.get("controls")
        if controls is None and (text := storage.read_text(_CONTROLS)) is not None:
            controls = json.loads(text)  # as earlier versions kept it
        self._controls = Controls.from_json(controls) if controls is not None else Controls()

    @property
    def requests(self) -> tuple[SnapshotRequest, ...]:
        return tuple(self._requests.values())

    @property
    def controls(self) -> Controls:
        return self._controls

    def digest_of(self, signal_id: str) -> str | None:
        """What the signal of this id said, if the journal remembers it: a request that has not ended, a command."""
        request = self._requests.get(signal_id)
        return self._controls.taken.get(signal_id) if request is None else request.digest

    @property
    def size(self) -> int:
        """Characters that the requests take, about."""
        return sum(map(len, self._texts.values()))

    def add(self, request: SnapshotRequest) -> bool:
        """False for an id that is there already."""
        if request.id in self._requests:
            return False
        self.take((request,), self._controls)
        return True

    def take(self, requests: Iterable[SnapshotRequest], controls: Controls) -> None:
        """What signals that came together have led to: all of it is durable, by one write, once this returns."""
        with self._writing:
            new = {r.id: r for r in requests if r.id not in self._requests}
            if new or controls != self._controls:
                self._write({**self._requests, **new}, controls)

    def decide(self, controls: Controls) -> None:
        """Durable once this returns."""
        self.take((), controls)

    def waiting(self, saved: Progress) -> list[RequestProgress]:
        """Requests that no saved progress knows yet, as they will begin."""
        known = {request.id for request in saved.requests}
        new = (r for r in self._requests.values() if r.id not in known)
        return [self._controls.applied(RequestProgress.accepted(request)) for request in new]

    def existing(self, saved: Progress) -> list[RequestProgress]:
        """The requests of a saved progress, and those that wait behind it."""
        return [*saved.requests, *self.waiting(saved)]

    def forget(self, older: Progress) -> None:
        """Requests that have ended in ``older``, the state that the next replay would start from: it remembers their
        ids from here on (of ``Limits.ended_requests_kept``)."""
        ended = {r.id for r in older.requests if r.ended}
        with self._writing:
            if ended & self._requests.keys():
                self._write({i: r for i, r in self._requests.items() if i not in ended}, self._controls)

    def _write(self, requests: dict[str, SnapshotRequest], controls: Controls) -> None:
        # Each request is put into words once, however often the file is written.
        texts = {name: self._texts.get(name) or text_of(request) for name, request in requests.items()}
        entries, decided = ",\n".join(texts.values()), json.dumps(controls.to_json())
        text = f'{{"format": {_FORMAT}, "requests": [{entries}], "controls": {decided}}}'
        self._storage.write_text(_JOURNAL, text)
        self._requests, self._texts, self._controls = requests, texts, controls


def text_of(request: SnapshotRequest) -> str:
    """The request as the journal holds it."""
    return json.dumps(_request_to(request))


def _file_of(batch_id: int) -> str:
    return f"{batch_id:012d}.json"


def _request_to(request: SnapshotRequest) -> dict[str, Any]:
    wanted = [
        {
            "namespace": str(w.namespace),
            "filter": w.filter,
            "keys": [bound.to_json() for bound in w.keys],
            "range": w.range.to_json() if w.range else None,
            "reconcile": w.reconcile,
        }
        for w in request.wanted
    ]
    return {
        "id": request.id,
        "origin": request.origin.value,
        "wanted": wanted,
        "priority": request.priority,
        "digest": request.digest,
        "blocking": request.blocking,
    }


def _request_from(entry: dict[str, Any]) -> SnapshotRequest:
    collections = tuple(
        Wanted(
            Namespace.parse(w["namespace"]),
            w["filter"],
            keys=tuple(map(Bound.from_json, w.get("keys", ()))),
            range=KeyRange.from_json(w["range"]) if w.get("range") else None,
            reconcile=w.get("reconcile", False),
        )
        for w in entry["wanted"]
    )
    return SnapshotRequest(
        entry["id"],
        collections,
        Origin(entry["origin"]),
        priority=entry.get("priority", 0),
        digest=entry.get("digest", ""),
        blocking=entry.get("blocking", False),
    )

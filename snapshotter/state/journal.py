"""The journal: accepted requests, what operators have decided about requests, and which signals were handled.

Durable, and not undone by a replay (progress is: `state.progress_store`). A request is carried out once, whatever
crashes: it is in the journal until the progress that a replay would start from knows it as ended, and from then on its
id is, for the time that is stated (`core.values.memory`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from snapshotter.core.values.chunks import Bound, KeyRange
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.memory import ROOM, SECONDS, Memory, Moment
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from snapshotter.state.storage import Storage
from streaming.json_text import from_text, to_text
from streaming.namespaces import Namespace

_JOURNAL = "journal.json"
_CONTROLS = "controls.json"
_FORMAT = 1


class Journal:
    """Accepted requests, in order, and what operators have decided about requests (``controls``).

    One file in ``storage`` holds it all, and is replaced whole: after a crash either all signals that came together are
    known, or none. Ids are remembered for ``seconds`` at least, by ``clock`` (seconds since 1970).
    """

    def __init__(
        self, storage: Storage, seconds: int = SECONDS, clock: Callable[[], float] = time.time
    ) -> None:
        self._storage, self._seconds, self._clock = storage, seconds, clock
        self._writing = threading.Lock()
        text = storage.read_text(_JOURNAL)
        found = from_text(text) if text is not None else {"requests": []}
        self._requests = {entry["id"]: _request_from(entry) for entry in found["requests"]}
        self._texts = {name: text_of(request) for name, request in self._requests.items()}
        controls = found.get("controls")
        if controls is None and (text := storage.read_text(_CONTROLS)) is not None:
            controls = from_text(text)  # as earlier versions kept it
        self._controls = Controls.from_json(controls) if controls is not None else Controls()
        self._ended = Memory.from_json(found.get("ended", {}))

    @property
    def requests(self) -> tuple[SnapshotRequest, ...]:
        return tuple(self._requests.values())

    @property
    def controls(self) -> Controls:
        return self._controls

    def digest_of(self, signal_id: str) -> str | None:
        """What the signal of this id said, if the journal remembers it."""
        request = self._requests.get(signal_id)
        known = self._ended.get(signal_id) if request is None else request.digest
        return self._controls.taken.get(signal_id) if known is None else known

    def forgotten(self, request_id: str, newest: Callable[[], Progress | None]) -> bool:
        """Whether a request has ended, and is no longer in the ``newest`` progress: nobody but those who were told of
        its end can say how that was."""
        if request_id not in self._ended or request_id in self._requests:
            return False
        progress = newest()  # behind the journal: what the one has as ended the other has had
        return progress is None or progress.request(request_id) is None

    def moment(self) -> Moment:
        """Now, and for how long ids are remembered."""
        return Moment(int(self._clock()), self._seconds)

    @property
    def room(self) -> int:
        """How many more signals could be remembered without forgetting one before its time."""
        moment = self.moment()
        young = self._ended.younger(moment) + self._controls.taken.younger(moment)
        return ROOM - young - len(self._requests)

    @property
    def size(self) -> int:
        """Characters that the requests take, about."""
        return sum(map(len, self._texts.values()))

    def add(self, request: SnapshotRequest) -> bool:
        """Add a request, durable once this returns; False for an id that is there already."""
        if request.id in self._requests:
            return False
        self.take((request,), self._controls)
        return True

    def take(self, requests: Iterable[SnapshotRequest], controls: Controls) -> None:
        """Keep what signals that came together have led to: durable, by one write, once this returns."""
        with self._writing:
            new = {r.id: r for r in requests if r.id not in self._requests}
            if new or controls != self._controls:
                self._write({**self._requests, **new}, controls, self._ended)

    def decide(self, controls: Controls) -> None:
        """Keep these decisions; durable once this returns."""
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
        """Keep only the ids of requests that have ended in ``older``, which must be the state that the next replay
        would start from: a replay would not find a request that was forgotten earlier."""
        over = {r.id for r in older.requests if r.ended}
        with self._writing:
            if over & self._requests.keys():
                left = {i: r for i, r in self._requests.items() if i not in over}
                digests = {i: r.digest for i, r in self._requests.items() if i in over}
                self._write(left, self._controls, self._ended.remembering(digests, self.moment()))

    def _write(self, requests: dict[str, SnapshotRequest], controls: Controls, ended: Memory) -> None:
        # Each request becomes text once, however often the file is written.
        texts = {name: self._texts.get(name) or text_of(request) for name, request in requests.items()}
        entries = ",\n".join(texts.values())
        rest = f'"controls": {to_text(controls.to_json())}, "ended": {to_text(ended.to_json())}'
        self._storage.write_text(_JOURNAL, f'{{"format": {_FORMAT}, "requests": [{entries}], {rest}}}')
        # Only now: what cannot be written is not held in memory either.
        self._requests, self._texts, self._controls, self._ended = requests, texts, controls, ended


def text_of(request: SnapshotRequest) -> str:
    """The request as the journal holds it."""
    return to_text(_request_to(request))


def _request_to(request: SnapshotRequest) -> dict[str, Any]:
    wanted = [
        {
            "namespace": str(w.namespace),
            "filter": w.filter,
            "keys": [bound.to_json() for bound in w.keys],
            "range": w.range.to_json() if w.range else None,
            "reconcile": w.reconcile,
            "rewrite": w.rewrite,
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
        "unknown": list(request.unknown),
    }


def _request_from(entry: dict[str, Any]) -> SnapshotRequest:
    collections = tuple(
        Wanted(
            Namespace.parse(w["namespace"]),
            w["filter"],
            keys=tuple(map(Bound.from_json, w.get("keys", ()))),
            range=KeyRange.from_json(w["range"]) if w.get("range") else None,
            reconcile=w.get("reconcile", False),
            rewrite=w.get("rewrite", False),
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
        unknown=tuple(entry.get("unknown", ())),
    )

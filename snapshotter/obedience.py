"""What a signal makes the engine do: accept a request, or decide something about requests.

However a signal came, it is obeyed here, and once: its id is remembered with a digest of what it said (how long:
`snapshotter.progress_store`). Delivered again it changes nothing; another content under its id is refused, and that is
said. Everything is durable in the journal before it takes effect.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol, assert_never

import structlog
from pymongo import MongoClient

from signals.actions import (
    Action,
    ExecuteSnapshot,
    Log,
    PauseSnapshot,
    ResumeSnapshot,
    StopSnapshot,
)
from signals.errors import SignalError
from signals.selection import expand
from snapshotter.answers import DryRun
from snapshotter.catalogue import IdReused, digest_of, resolve
from snapshotter.core.inputs import Command, PauseReceived, ResumeReceived, StopReceived
from snapshotter.core.progress import Progress, RequestProgress
from snapshotter.core.requests import SnapshotRequest
from snapshotter.dry_runs import DryRuns
from snapshotter.engine_config import EngineConfig
from snapshotter.engine_status import StatusWriter
from snapshotter.estimates import estimate
from snapshotter.progress_store import Journal, ProgressStore
from snapshotter.run import Run
from snapshotter.storage import Storage
from streaming.namespaces import Namespace

_log = structlog.get_logger("snapshotter.signals")


class Obeying(Protocol):
    """What is needed of the engine around it."""

    client: MongoClient[dict[str, object]]
    config: EngineConfig
    storage: Storage
    status: StatusWriter
    journal: Journal
    store: ProgressStore
    run_state: Run | None

    def captured(self) -> list[Namespace]:
        """The collections that a request may name."""

    def refuse(self, signal_id: str, why: str) -> None:
        """Say that a signal is not obeyed."""


class Obedience:
    """The one place where signals become requests and commands. They come on several threads: ``one_at_a_time`` is
    held while one is obeyed, and while a new run takes the place of the old one."""

    def __init__(self, engine: Obeying) -> None:
        self._engine = engine
        self.one_at_a_time = threading.RLock()
        self._dry_runs = DryRuns()

    def obey(self, action: Action) -> None:
        """Whatever is wrong with the signal is said where operators look."""
        try:
            self._carry_out(action)
        except SignalError as error:
            self._engine.refuse(action.id, str(error))

    def _carry_out(self, action: Action) -> None:
        match action:
            case ExecuteSnapshot():
                self.accept(action)
            case StopSnapshot() | PauseSnapshot() | ResumeSnapshot():
                self.command(self._command_of(action))
            case Log():
                _log.info(action.message.replace("{}", str(self._progress().position)), id=action.id)
            case _:
                assert_never(action)

    def accept(self, action: ExecuteSnapshot) -> None:
        """Raises SignalError. A dry run is answered in a file beside the state (`snapshotter.answers`)."""
        if action.dry_run:
            self._dry_runs.submit(self._asked(action), self._engine.storage, self._estimate)
            return
        with self.one_at_a_time:
            self._accept(action)

    def dry_run(self, action: ExecuteSnapshot) -> DryRun:
        """What the request would read; nothing is accepted, and nothing read. Raises SignalError."""
        return self._estimate(self._asked(action))

    def _asked(self, action: ExecuteSnapshot) -> SnapshotRequest:
        """Refused for the same reasons as the request itself; so is the id of something that has been obeyed."""
        self._is_known(action.id, digest_of(action))
        return self._resolve(action)

    def _estimate(self, request: SnapshotRequest) -> DryRun:
        answer = estimate(request, self._engine.client, self._engine.status.newest_speed)
        _log.info(
            "dry run",
            id=answer.id,
            collections=[part.name for part in answer.collections],
            documents=answer.documents,
            bytes=answer.bytes,
            seconds=answer.seconds,
        )
        return answer

    def _accept(self, action: ExecuteSnapshot) -> None:
        engine = self._engine
        if self._is_known(action.id, digest_of(action)):
            return
        request = self._resolve(action)
        engine.journal.add(request)
        _log.info("request accepted", id=request.id, collections=[str(w.namespace) for w in request.wanted])
        if engine.run_state is not None:
            engine.run_state.request(request)

    def _resolve(self, action: ExecuteSnapshot) -> SnapshotRequest:
        engine = self._engine
        return resolve(action, engine.client, engine.captured(), allow_code=engine.config.allow_code)

    def command(self, command: Command) -> None:
        """Raises IdReused."""
        with self.one_at_a_time:
            self._command(command)

    def _command(self, command: Command) -> None:
        if self._is_known(command.id, command.digest):
            return
        engine = self._engine
        if engine.run_state is not None:
            met = engine.run_state.command(command)
        else:
            met = self._known()
            engine.journal.obey(command, met)
        unknown = (command.requests or frozenset()) - {r.id for r in met}
        if unknown:
            _log.warning("a command names requests that nobody knows", id=command.id, unknown=sorted(unknown))
        _log.info(
            "command obeyed",
            id=command.id,
            command=type(command).__name__.removesuffix("Received").lower(),
            requests=[
                r.id for r in met if not r.ended and (command.requests is None or r.id in command.requests)
            ],
        )

    def _command_of(self, action: StopSnapshot | PauseSnapshot | ResumeSnapshot) -> Command:
        """Where no request is named, all are meant."""
        requests, digest = frozenset(action.requests) or None, digest_of(action)
        match action:
            case PauseSnapshot():
                return PauseReceived(action.id, requests, digest)
            case ResumeSnapshot():
                return ResumeReceived(action.id, requests, digest)
            case StopSnapshot():
                command = StopReceived(action.id, requests, digest=digest)
                if not action.data_collections:
                    return command
                return replace(command, namespaces=self._meant(action.data_collections))

    def _meant(self, patterns: Iterable[str]) -> frozenset[Namespace]:
        """Of the collections that are queued or being read, whether they exist or not."""
        names = sorted({str(t.namespace) for r in self._known() for t in r.tasks if not t.ended})
        return frozenset(Namespace.parse(name) for name in expand(patterns, names) if name in names)

    def _is_known(self, signal_id: str, digest: str) -> bool:
        known = self._engine.journal.digest_of(signal_id)
        if known is None:
            request = self._progress().request(signal_id)
            known = request.digest if request is not None else None
        if known is not None and known != digest:
            raise IdReused(
                f"signal {signal_id!r}: another signal with this id has been obeyed, and this one says something else. "
                f"Give it an id of its own; nothing was changed."
            )
        return known is not None

    def _known(self) -> list[RequestProgress]:
        run = self._engine.run_state
        return run.known() if run is not None else self._engine.journal.existing(self._progress())

    def _progress(self) -> Progress:
        run = self._engine.run_state
        if run is not None and run.started:
            return run.progress
        return self._engine.store.newest() or Progress()

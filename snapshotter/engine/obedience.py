"""What a signal makes the engine do: accept a request, or decide something about requests.

However a signal came, it is obeyed here, and once: its id is remembered with a digest of what it said (how long:
`core.memory`). Delivered again it changes nothing; another content under its id is refused, and that is said.
Everything is durable in the journal before it takes effect.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, assert_never

import structlog
from pymongo import MongoClient

from signals.actions import (
    TYPE_NAMES,
    Action,
    CustomAction,
    ExecuteSnapshot,
    Log,
    PauseSnapshot,
    ResumeSnapshot,
    StopSnapshot,
)
from signals.errors import SignalError
from signals.selection import expand
from snapshotter.control.answers import DryRun
from snapshotter.control.catalogue import Asked, IdReused, RequestRefused, digest_of, resolve
from snapshotter.control.custom_actions import CustomActions
from snapshotter.control.dry_runs import DryRuns
from snapshotter.control.estimates import estimate
from snapshotter.core.commands import Command, Pause, Resume, Stop
from snapshotter.core.memory import KEPT, ROOM
from snapshotter.core.progress import Progress
from snapshotter.core.requests import SnapshotRequest
from snapshotter.core.taking import Met, Taking
from snapshotter.engine.engine_status import StatusWriter
from snapshotter.engine.run import Run
from snapshotter.engine_config import EngineConfig
from snapshotter.state.journal import Journal, text_of
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import Storage
from streaming.namespaces import Namespace

_log = structlog.get_logger("snapshotter.signals")


COMMANDS_AT_ONCE = KEPT // 2
"""Twice as many are remembered however old they are: what a crash delivers again is known."""
ROOM_OF_COMMANDS = 1_000
"""Of the signals that can be remembered, so many are never requests: what is under way can always be stopped."""
SIZE_MAX = 16 << 20
"""Characters that the requests which have not ended may take in the journal."""
_SHOWN = 20
DRY_RUN = "dry-run"
_KINDS: dict[type[Command], str] = {
    Stop: TYPE_NAMES[StopSnapshot],
    Pause: TYPE_NAMES[PauseSnapshot],
    Resume: TYPE_NAMES[ResumeSnapshot],
}


@dataclass(frozen=True, slots=True)
class Obeyed:
    """What became of a signal that is no request: ``met`` are the requests that a command made a difference to,
    ``unknown`` the ids that it named and that no request has. ``again``: it was obeyed before. ``answer`` is that to a
    dry run, ``message`` what is to be logged, ``custom`` what is to be carried out by another package."""

    id: str
    kind: str
    met: Met = field(default_factory=Met)
    unknown: tuple[str, ...] = ()
    again: bool = False
    answer: DryRun | None = None
    message: str | None = None
    custom: CustomAction | None = None


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

    def obeyed(self, outcome: Obeyed) -> None:
        """Say what became of a signal that is no request. From any thread."""


@dataclass(slots=True)
class _Delivery:
    """Signals that came together: what holds by now, what the server has said, how many characters the requests take,
    for how many more ids there is room, and what is to be told once all is durable."""

    taking: Taking
    asked: Asked
    size: int
    room: int
    commands: list[Obeyed] = field(default_factory=list)


class Obedience:
    """The one place where signals become requests and commands. They come on several threads: ``one_at_a_time`` is
    held while they are obeyed, and while a new run takes the place of the old one."""

    def __init__(self, engine: Obeying) -> None:
        self._engine = engine
        self.one_at_a_time = threading.RLock()
        self._dry_runs = DryRuns()
        self._custom_actions = CustomActions()

    def obey(self, *actions: Action) -> None:
        """Signals that came together, in their order. Whatever is wrong with one is said where operators look. All of
        it is durable when this returns; where it raises, nothing is."""
        if not actions:
            return
        with self.one_at_a_time:
            delivery = self._delivery()
            for action in actions:
                try:
                    self._carry_out(action, delivery)
                except SignalError as error:
                    self._engine.refuse(action.id, str(error))
            self._take(delivery)

    def accept(self, action: ExecuteSnapshot) -> None:
        """Raises SignalError. A dry run is answered later (`snapshotter.control.dry_runs`)."""
        with self.one_at_a_time:
            delivery = self._delivery()
            self._carry_out(action, delivery)
            self._take(delivery)

    def command(self, command: Command) -> None:
        """Raises RequestRefused (IdReused, say)."""
        with self.one_at_a_time:
            delivery = self._delivery()
            self._command(command, delivery)
            self._take(delivery)

    def dry_run(self, action: ExecuteSnapshot) -> DryRun:
        """What the request would read; nothing is accepted, and nothing read. Raises SignalError."""
        return self._estimate(self._asked(action, self._delivery()))

    # One delivery

    def _delivery(self) -> _Delivery:
        engine, run = self._engine, self._engine.run_state
        known = run.known() if run is not None else engine.journal.existing(self._progress())
        journal = engine.journal
        taking = Taking(known, journal.controls, journal.moment())
        return _Delivery(taking, Asked(engine.captured), journal.size, journal.room)

    def _carry_out(self, action: Action, delivery: _Delivery) -> None:
        match action:
            case ExecuteSnapshot(dry_run=True):
                request = self._asked(action, delivery)
                self._dry_runs.submit(request, self._engine.storage, self._estimate, self._answered)
            case ExecuteSnapshot():
                self._accept(action, delivery)
            case StopSnapshot() | PauseSnapshot() | ResumeSnapshot():
                self._command(self._command_of(action, delivery), delivery)
            case Log():
                self._log(action, delivery)
            case CustomAction():
                self._custom(action, delivery)
            case _:
                assert_never(action)

    def _take(self, delivery: _Delivery) -> None:
        """Everything that was decided becomes durable at once, and only then takes effect."""
        engine, taking = self._engine, delivery.taking
        if taking.new or taking.commands:
            if engine.run_state is not None:
                engine.run_state.take(taking.new, taking.controls)
            else:
                engine.journal.take(taking.new, taking.controls)
        for request in taking.new:
            names = [str(wanted.namespace) for wanted in request.wanted]
            _log.info("request accepted", id=request.id, collections=names[:_SHOWN], of=len(names))
        for outcome in delivery.commands:
            _say(outcome)
            if outcome.custom is None:
                engine.obeyed(outcome)
            elif not outcome.again:  # what became of it then, only that life knew: nothing is said of it now
                told = partial(engine.obeyed, outcome), partial(engine.refuse, outcome.id)
                self._custom_actions.submit(outcome.custom, engine.config.name, *told)

    def _accept(self, action: ExecuteSnapshot, delivery: _Delivery) -> None:
        if self._is_known(action.id, digest_of(action), delivery):
            return
        most = self._engine.config.requests_max
        if delivery.taking.open >= most:
            raise RequestRefused(
                f"signal {action.id!r}: {most} requests wait already (engine.requests.max); stop some, or send it "
                f"again when some have ended"
            )
        request = self._resolve(action, delivery)
        size = delivery.size + len(text_of(request))
        if size > SIZE_MAX:
            raise RequestRefused(
                f"signal {action.id!r}: with the requests that wait it would take {size:,} characters of state, of "
                f"{SIZE_MAX:,} at most; ask for fewer keys or collections, or with a shorter filter"
            )
        _make_room(action.id, delivery, kept=ROOM_OF_COMMANDS)
        delivery.size = size
        delivery.taking.accept(request)

    def _resolve(self, action: ExecuteSnapshot, delivery: _Delivery) -> SnapshotRequest:
        engine, asked = self._engine, delivery.asked
        allowed = engine.config.allow_code
        return resolve(action, engine.client, asked.captured, allow_code=allowed, filters=asked.filters)

    def _command(self, command: Command, delivery: _Delivery) -> None:
        again = self._again(command.id, command.digest, delivery)
        met = Met() if again else delivery.taking.obey(command)
        unknown = () if again else delivery.taking.nobody(command)
        delivery.commands.append(Obeyed(command.id, _KINDS[type(command)], met, unknown, again))

    def _log(self, action: Log, delivery: _Delivery) -> None:
        again = self._remembered(action, delivery)
        message = action.message.replace("{}", str(self._progress().position))
        delivery.commands.append(Obeyed(action.id, TYPE_NAMES[Log], again=again, message=message))

    def _custom(self, action: CustomAction, delivery: _Delivery) -> None:
        again = self._remembered(action, delivery)
        delivery.commands.append(Obeyed(action.id, action.type, again=again, custom=action))

    def _remembered(self, action: Log | CustomAction, delivery: _Delivery) -> bool:
        """Whether a signal that decides nothing about requests came before; from now on it has."""
        digest = digest_of(action)
        again = self._again(action.id, digest, delivery, decides=False)
        if not again:
            delivery.taking.remember(action.id, digest)
        return again

    def _again(self, signal_id: str, digest: str, delivery: _Delivery, *, decides: bool = True) -> bool:
        """Whether a signal that is no request has been obeyed before; if not, there is room for it."""
        again = self._is_known(signal_id, digest, delivery)
        if not again and delivery.taking.commands >= COMMANDS_AT_ONCE:
            raise RequestRefused(
                f"signal {signal_id!r}: it came with more than {COMMANDS_AT_ONCE} other commands; send it again"
            )
        if not again:
            _make_room(signal_id, delivery, kept=0 if decides else ROOM_OF_COMMANDS)
        return again

    def _command_of(
        self, action: StopSnapshot | PauseSnapshot | ResumeSnapshot, delivery: _Delivery
    ) -> Command:
        """Where no request is named, all are meant."""
        requests, digest = frozenset(action.requests) or None, digest_of(action)
        if not isinstance(action, StopSnapshot) and "data-collections" in action.ignored:
            _log.warning(
                "a pause or a resume is never of some collections only: data-collections is ignored, as by Debezium; "
                "requests would narrow it",
                id=action.id,
            )
        match action:
            case PauseSnapshot():
                return Pause(action.id, requests, digest)
            case ResumeSnapshot():
                return Resume(action.id, requests, digest)
            case StopSnapshot():
                command = Stop(action.id, requests, digest=digest)
                if not action.data_collections:
                    return command
                return replace(command, namespaces=_meant(action.data_collections, delivery.taking.names))

    def _is_known(self, signal_id: str, digest: str, delivery: _Delivery) -> bool:
        known = self._engine.journal.digest_of(signal_id)
        if known is None:
            known = delivery.taking.digest_of(signal_id)
        if known is not None and known != digest:
            raise IdReused(
                f"signal {signal_id!r}: another signal with this id has been obeyed, and this one says something else. "
                f"Give it an id of its own; nothing was changed."
            )
        return known is not None

    def _progress(self) -> Progress:
        run = self._engine.run_state
        if run is not None and run.started:
            return run.progress
        return self._engine.store.newest() or Progress()

    # Dry runs

    def _asked(self, action: ExecuteSnapshot, delivery: _Delivery) -> SnapshotRequest:
        """Refused for the same reasons as the request itself; so is the id of something that has been obeyed."""
        self._is_known(action.id, digest_of(action), delivery)
        return self._resolve(action, delivery)

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

    def _answered(self, answer: DryRun) -> None:
        self._engine.obeyed(Obeyed(answer.id, DRY_RUN, answer=answer))


def _make_room(signal_id: str, delivery: _Delivery, kept: int = 0) -> None:
    """For the id of a new signal, beside places that are ``kept`` for others: no other one is forgotten for it before
    its time."""
    if delivery.room <= kept:
        raise RequestRefused(
            f"signal {signal_id!r}: {ROOM - kept:,} signals are remembered already, so that none is obeyed twice. Send "
            f"it again when some of them are old enough to be forgotten, or shorten that time "
            f"(engine.signals.remember.ms)"
        )
    delivery.room -= 1


def _meant(patterns: Iterable[str], queued: frozenset[Namespace]) -> frozenset[Namespace]:
    """Of the collections that are queued or being read, whether they exist or not."""
    names = {str(namespace): namespace for namespace in queued}
    return frozenset(names[name] for name in expand(patterns, sorted(names)) if name in names)


def _say(outcome: Obeyed) -> None:
    if outcome.again:
        return
    if outcome.message is not None:
        _log.info(outcome.message, id=outcome.id)
        return
    if outcome.custom is not None:
        _log.info("a signal of another package came", id=outcome.id, type=outcome.kind)
        return
    if outcome.unknown:
        unknown = list(outcome.unknown[:_SHOWN])
        _log.warning("a command names requests that nobody knows", id=outcome.id, unknown=unknown)
    _log.info(
        "command obeyed",
        id=outcome.id,
        command=outcome.kind,
        requests=list(outcome.met.requests[:_SHOWN]),
        of=outcome.met.count,
    )

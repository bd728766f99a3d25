"""What signals lead to: requests that are accepted, decisions about requests, answers.

However a signal came, it is handled here (`take_signals`), and once: its id is remembered with a digest of what it
said (how long: `core.values.memory`). Delivered again it changes nothing; another content under its id is refused,
which is reported.

    signals -> SignalHandler.decide, in a Delivery -> Ledger.take: durable, then in effect -> SignalHandler.report

Deciding changes nothing but the delivery. Whoever takes it, the run under way or, where there is none, the
journal alone, makes it durable as a whole; only then is anything reported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, assert_never

import structlog
from pymongo import MongoClient

from signals.actions import (
    TYPE_NAMES,
    Action,
    CustomAction,
    ExecuteSnapshot,
    Log,
    PauseSnapshot,
    PauseStream,
    Restart,
    ResumeSnapshot,
    ResumeStream,
    StopSnapshot,
    StreamAction,
)
from signals.errors import SignalError
from signals.matching.selection import expand
from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.core.rules.signal_batch import Affected, SignalBatch
from snapshotter.core.values.commands import Command, Pause, Resume, Stop
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.memory import KEPT, ROOM
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import SnapshotRequest
from snapshotter.intake.custom_actions import CustomActions
from snapshotter.intake.dry_runs import DryRuns
from snapshotter.reading.catalogue import IdReused, RequestRefused, ServerAnswers, digest_of, resolve
from snapshotter.reading.missing_keys import warn_of_missing
from snapshotter.reporting.answers import DryRun
from snapshotter.reporting.estimates import ReadingSpeed, estimate
from snapshotter.reporting.outcomes import Refusal, SignalOutcome
from snapshotter.reporting.signal_outcomes import SignalOutcomes
from snapshotter.state.journal import Journal, text_of
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import Storage
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

_log = structlog.get_logger("snapshotter.signals")


COMMANDS_AT_ONCE = KEPT // 2
"""Twice as many are remembered however old they are: what a crash delivers again is known."""
ROOM_OF_COMMANDS = 1_000
"""So many places for ids are kept for commands: what is under way can always be stopped."""
SIZE_MAX = 16 << 20
"""Characters that the requests which have not ended may take in the journal."""
_SHOWN = 20
DRY_RUN = "dry-run"
RESTART = TYPE_NAMES[Restart]
_KINDS: dict[type[Command], str] = {
    Stop: TYPE_NAMES[StopSnapshot],
    Pause: TYPE_NAMES[PauseSnapshot],
    Resume: TYPE_NAMES[ResumeSnapshot],
}


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds when signals come: the requests that exist, and how far the stream has landed."""

    requests: Sequence[RequestProgress]
    position: ClusterTime


class Ledger(Protocol):
    """Where requests are: in the run under way, or in the journal alone (`Waiting`)."""

    def standing(self) -> Standing:
        """What holds now."""

    def take(self, requests: Iterable[SnapshotRequest], controls: Controls) -> None:
        """Make it durable at once, and only then let it take effect."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Before the first run, and between two: what is taken waits in the journal."""

    journal: Journal
    store: ProgressStore

    def standing(self) -> Standing:
        newest = self.store.newest() or Progress()
        return Standing(self.journal.existing(newest), newest.position)

    def take(self, requests: Iterable[SnapshotRequest], controls: Controls) -> None:
        self.journal.take(requests, controls)


@dataclass(slots=True)
class Delivery:
    """Signals that came together, decided: ``signals`` is what is to be durable, the rest is reported once it is.
    ``answers``: what the server has said; ``size``: how many characters the open requests take; ``room``: for how many
    more ids there is room."""

    signals: SignalBatch
    answers: ServerAnswers
    size: int
    room: int
    position: ClusterTime
    refused: list[Refusal] = field(default_factory=list)
    outcomes: list[SignalOutcome] = field(default_factory=list)
    dry_runs: list[SnapshotRequest] = field(default_factory=list)


def take_signals(
    handler: SignalHandler, ledger: Ledger, actions: Iterable[Action], refused: Iterable[Refusal] = ()
) -> None:
    """Handle ``actions`` that came together, in their order. ``refused``: what came with them and was no signal.
    ``ledger`` is where requests are now: look it up under the ``one_at_a_time`` of ``handler``, for a new run takes its
    place under that. Whatever is wrong with a signal is said where operators look. All of it is durable when this
    returns; where it raises, nothing is."""
    actions, refused = tuple(actions), tuple(refused)
    if actions or refused:  # of most batches neither: what holds is not asked for, which may read the storage
        _take(handler, ledger, lambda delivery: handler.decide(actions, refused, delivery))


def take_request(handler: SignalHandler, ledger: Ledger, action: ExecuteSnapshot) -> None:
    """Accept the request of one ``action``; ``handler`` and ``ledger`` are as in `take_signals`. Raises SignalError
    (IdReused, say), and nothing has changed then. A dry run is answered later; where too many
    wait, it is reported as refused."""
    _take(handler, ledger, lambda delivery: handler.carry_out(action, delivery))


def take_command(handler: SignalHandler, ledger: Ledger, command: Command) -> None:
    """Carry out one ``command``; ``handler`` and ``ledger`` are as in `take_signals`. Raises RequestRefused, and
    nothing has changed then."""
    _take(handler, ledger, lambda delivery: handler.command(command, delivery))


def take_stream_action(
    handler: SignalHandler, ledger: Ledger, action: StreamAction | Log | StopSnapshot
) -> None:
    """Carry out one ``action`` about the engine as a whole, its log, or collections of requests; ``handler`` and
    ``ledger`` are as in `take_signals`. Raises RequestRefused, and nothing has changed then."""
    _take(handler, ledger, lambda delivery: handler.carry_out(action, delivery))


def _take(handler: SignalHandler, ledger: Ledger, decide: Callable[[Delivery], None]) -> None:
    """Decide, make it durable and let it take effect, report: all by one thread at a time."""
    with handler.one_at_a_time:
        delivery = handler.begin(ledger.standing())
        decide(delivery)
        if delivery.signals.new or delivery.signals.commands:
            ledger.take(delivery.signals.new, delivery.signals.controls)
        handler.report(delivery)


class SignalHandler:
    """The one place where signals become requests and commands. They come on several threads: ``one_at_a_time`` is
    held while they are decided and taken, and while a new run takes the place of the old one. ``restart_asked`` is set
    by a restart that has been taken, for the control loop, which clears it."""

    def __init__(
        self,
        client: MongoClient[Any],
        config: EngineConfig,
        journal: Journal,
        storage: Storage,
        speed: ReadingSpeed,
        outcomes: SignalOutcomes,
        captured: Callable[[], list[Namespace]],
    ) -> None:
        """``config`` has the limits, and whether filters may run code; ``journal`` knows which ids were handled.
        Answers to dry runs go to ``storage``, and are estimated by ``speed``; what becomes of signals goes to
        ``outcomes``. ``captured`` asks the server for the collections that a request may name."""
        self.one_at_a_time = threading.RLock()
        self.restart_asked = threading.Event()
        self._client, self._config, self._journal, self._storage = client, config, journal, storage
        self._speed, self._outcomes, self._captured = speed, outcomes, captured
        self._dry_runs = DryRuns()
        self._custom_actions = CustomActions()

    @property
    def stream_paused(self) -> bool:
        """Whether an operator has paused the stream: durable, and true for every process of this engine."""
        return self._journal.controls.stream_paused

    def interrupting(self) -> bool:
        """Whether an operator wants the run, or a wait, to end, and the engine to go on."""
        return self.restart_asked.is_set() or self.stream_paused

    def begin(self, standing: Standing) -> Delivery:
        """Nothing is decided yet."""
        journal = self._journal
        signals = SignalBatch(standing.requests, journal.controls, journal.moment())
        return Delivery(signals, ServerAnswers(self._captured), journal.size, journal.room, standing.position)

    def decide(self, actions: Iterable[Action], refused: Iterable[Refusal], delivery: Delivery) -> None:
        """Note in ``delivery`` what these ``actions`` lead to, in their order. One that cannot be carried out joins
        those that were ``refused``; they are reported later."""
        delivery.refused += refused
        for action in actions:
            try:
                self.carry_out(action, delivery)
            except SignalError as error:
                delivery.refused.append(Refusal(action.id, str(error)))

    def dry_run(self, action: ExecuteSnapshot, standing: Standing) -> DryRun:
        """What the request would read; nothing is accepted, and nothing read. Raises SignalError."""
        return self._estimate(self._dry_request(action, self.begin(standing)))

    def report(self, delivery: Delivery) -> None:
        """What was decided is durable: report it, and begin what is done in the background."""
        for refusal in delivery.refused:
            self._outcomes.refuse(refusal.id, refusal.why)
        for request in delivery.signals.new:
            names = [str(wanted.namespace) for wanted in request.wanted]
            _log.info("request accepted", id=request.id, collections=names[:_SHOWN], of=len(names))
        for outcome in delivery.outcomes:
            _say(outcome)
            if outcome.kind == RESTART and not outcome.again:
                self.restart_asked.set()
            if outcome.custom is None:
                self._outcomes.report(outcome)
            elif not outcome.again:  # only the life that carried it out knew its outcome: none is said now
                reports = partial(self._outcomes.report, outcome), partial(self._outcomes.refuse, outcome.id)
                self._custom_actions.submit(outcome.custom, self._config.name, *reports)
        for request in delivery.dry_runs:
            try:
                self._dry_runs.submit(request, self._storage, self._estimate, self._answered)
            except RequestRefused as error:
                self._outcomes.refuse(request.id, str(error))

    # One signal

    def carry_out(self, action: Action, delivery: Delivery) -> None:
        """Decide what it leads to. Raises SignalError."""
        match action:
            case ExecuteSnapshot(dry_run=True):
                delivery.dry_runs.append(self._dry_request(action, delivery))
            case ExecuteSnapshot():
                self._accept(action, delivery)
            case StopSnapshot() | PauseSnapshot() | ResumeSnapshot():
                self.command(self._command_of(action, delivery), delivery)
            case PauseStream() | ResumeStream() | Restart():
                self._stream(action, delivery)
            case Log():
                self._log(action, delivery)
            case CustomAction():
                self._custom(action, delivery)
            case _:
                assert_never(action)

    def _accept(self, action: ExecuteSnapshot, delivery: Delivery) -> None:
        if self._is_known(action.id, digest_of(action), delivery):
            return
        most = self._config.requests_max
        if delivery.signals.open >= most:
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
        delivery.signals.accept(request)
        if action.keys and not action.reconcile:  # those that are gone are meant there
            warn_of_missing(self._client, request.wanted[0].namespace, action.keys, id=action.id)

    def _resolve(self, action: ExecuteSnapshot, delivery: Delivery) -> SnapshotRequest:
        answers, allowed = delivery.answers, self._config.allow_code
        return resolve(action, self._client, answers.captured, allow_code=allowed, filters=answers.filters)

    def command(self, command: Command, delivery: Delivery) -> None:
        """Decide what it changes. Raises RequestRefused."""
        again = self._again(command.id, command.digest, delivery)
        affected = Affected() if again else delivery.signals.apply(command)
        unknown = () if again else delivery.signals.unknown(command)
        delivery.outcomes.append(SignalOutcome(command.id, _KINDS[type(command)], affected, unknown, again))

    def _stream(self, action: StreamAction, delivery: Delivery) -> None:
        digest = digest_of(action)
        again = self._again(action.id, digest, delivery)
        if not again:
            delivery.signals.remember(action.id, digest)
            if not isinstance(action, Restart):
                delivery.signals.pause_stream(paused=isinstance(action, PauseStream))
        delivery.outcomes.append(SignalOutcome(action.id, TYPE_NAMES[type(action)], again=again))

    def _log(self, action: Log, delivery: Delivery) -> None:
        again = self._remembered(action, delivery)
        message = action.message.replace("{}", str(delivery.position))
        delivery.outcomes.append(SignalOutcome(action.id, TYPE_NAMES[Log], again=again, message=message))

    def _custom(self, action: CustomAction, delivery: Delivery) -> None:
        again = self._remembered(action, delivery)
        delivery.outcomes.append(SignalOutcome(action.id, action.type, again=again, custom=action))

    def _remembered(self, action: Log | CustomAction, delivery: Delivery) -> bool:
        """Whether a signal that decides nothing about requests came before; from now on it has."""
        digest = digest_of(action)
        again = self._again(action.id, digest, delivery, decides=False)
        if not again:
            delivery.signals.remember(action.id, digest)
        return again

    def _again(self, signal_id: str, digest: str, delivery: Delivery, *, decides: bool = True) -> bool:
        """Whether a signal that is no request has been handled before; if not, there is room for it."""
        again = self._is_known(signal_id, digest, delivery)
        if not again and delivery.signals.commands >= COMMANDS_AT_ONCE:
            raise RequestRefused(
                f"signal {signal_id!r}: it came with more than {COMMANDS_AT_ONCE} other commands; send it again"
            )
        if not again:
            _make_room(signal_id, delivery, kept=0 if decides else ROOM_OF_COMMANDS)
        return again

    def _command_of(
        self, action: StopSnapshot | PauseSnapshot | ResumeSnapshot, delivery: Delivery
    ) -> Command:
        """All requests, where none is named."""
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
                return replace(command, namespaces=_meant(action.data_collections, delivery.signals.names))

    def _is_known(self, signal_id: str, digest: str, delivery: Delivery) -> bool:
        known = self._journal.digest_of(signal_id)
        if known is None:
            known = delivery.signals.digest_of(signal_id)
        if known is not None and known != digest:
            raise IdReused(
                f"signal {signal_id!r}: another signal with this id was handled, and this one says something else. "
                f"Give it an id of its own; nothing was changed."
            )
        return known is not None

    # Dry runs

    def _dry_request(self, action: ExecuteSnapshot, delivery: Delivery) -> SnapshotRequest:
        """Refused for the same reasons as the request itself; so is the id of something that has been handled."""
        self._is_known(action.id, digest_of(action), delivery)
        return self._resolve(action, delivery)

    def _estimate(self, request: SnapshotRequest) -> DryRun:
        answer = estimate(request, self._client, self._speed.newest)
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
        self._outcomes.report(SignalOutcome(answer.id, DRY_RUN, answer=answer))


def _make_room(signal_id: str, delivery: Delivery, kept: int = 0) -> None:
    """Take a place for the id of a new signal, and leave those that are ``kept`` for others. Raises RequestRefused
    where none is left: no other id is forgotten for it before its time."""
    if delivery.room <= kept:
        raise RequestRefused(
            f"signal {signal_id!r}: {ROOM - kept:,} signals are remembered already, so that none is handled twice. "
            f"Send it again when some of them are old enough to be forgotten, or shorten that time "
            f"(engine.signals.remember.ms)"
        )
    delivery.room -= 1


def _meant(patterns: Iterable[str], queued: frozenset[Namespace]) -> frozenset[Namespace]:
    """The collections that the patterns match, of those that are queued or being read, whether they exist or not."""
    names = {str(namespace): namespace for namespace in queued}
    return frozenset(names[name] for name in expand(patterns, sorted(names)) if name in names)


def _say(outcome: SignalOutcome) -> None:
    if outcome.again:
        return
    if outcome.message is not None:
        _log.info(outcome.message, id=outcome.id)
        return
    if outcome.custom is not None:
        _log.info("a signal of another package came", id=outcome.id, type=outcome.kind)
        return
    # One that names what there is not is worth a warning; it is one line all the same.
    unknown = {"unknown": list(outcome.unknown[:_SHOWN])} if outcome.unknown else {}
    (_log.warning if unknown else _log.info)(
        "command applied",
        id=outcome.id,
        command=outcome.kind,
        requests=list(outcome.affected.requests[:_SHOWN]),
        of=outcome.affected.count,
        **unknown,
    )

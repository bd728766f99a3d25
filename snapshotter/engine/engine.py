"""The engine: keeps runs going, from one start to one end.

Control does not live in batches: requests from the inbox, stop, the lock, and the status belong to the control loop
here. An error that may pass ends a run and starts the next one with growing pauses; any other one ends the engine.
Whatever ends it, windows that were open are given up and nothing that had landed is lost.
"""

from __future__ import annotations

import time
import uuid
from functools import partial
from threading import Event

import structlog
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from signals.actions import ExecuteSnapshot, Log, StopSnapshot, StreamAction
from signals.channels.channel import SignalChannel
from signals.channels.inbox_channel import InboxChannel
from signals.channels.process_channel import InProcessChannel
from snapshotter.configuration.channel_config import open_enabled
from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.core.rules.announcements import SKIPPED
from snapshotter.core.values.commands import Command
from snapshotter.core.values.effects import Announce
from snapshotter.core.values.progress import Progress
from snapshotter.engine import preflight, privileges
from snapshotter.engine.beginning import Beginning, early_position
from snapshotter.engine.catalogue_watch import CatalogueWatch
from snapshotter.engine.connecting import reach
from snapshotter.engine.dead_letters import DeadLetterWatch
from snapshotter.engine.engine_status import status_writer
from snapshotter.engine.first_load import NAME, FirstLoad
from snapshotter.engine.fitting_state import fitting, told_by_tables
from snapshotter.engine.hints import scratch_hints
from snapshotter.engine.idling import Idling, tell_pause
from snapshotter.engine.kept_lock import RENEW_SECONDS, KeptLock
from snapshotter.engine.lost_positions import SourceWatch, gap_of, tell
from snapshotter.engine.mode_hooks import tell_end
from snapshotter.engine.oplog_watch import OplogWatch
from snapshotter.engine.query import await_commit, drain, start_query
from snapshotter.engine.readiness import Readiness, servers
from snapshotter.engine.recovery import Recovery
from snapshotter.engine.restarts import STEADY_SECONDS, Restarts, fault_of
from snapshotter.engine.run import Run, StopRequested
from snapshotter.engine.run_context import RunContext
from snapshotter.engine.session import Given, Session
from snapshotter.engine.shared_warehouse import check_executors
from snapshotter.engine.signal_taking import SignalTaking
from snapshotter.engine.source_pacing import pacing_of
from snapshotter.engine.starting import Starts
from snapshotter.engine.suspended import Suspects, refuse_suspended
from snapshotter.engine.tables_ahead import made_ahead
from snapshotter.engine.topics import Topics
from snapshotter.engine.upkeep import upkeep_of
from snapshotter.engine.web import endpoint_of
from snapshotter.engine.winding_up import all_of
from snapshotter.errors import describe
from snapshotter.failures import Fault
from snapshotter.intake.channels import Channels
from snapshotter.intake.signal_handler import (
    Ledger,
    SignalHandler,
    Waiting,
    take_command,
    take_request,
    take_stream_action,
)
from snapshotter.landing.table_faults import Blame
from snapshotter.landing.tables import Tables
from snapshotter.log import warn_of
from snapshotter.reading.catalogue import captured_collections, sample_plan
from snapshotter.reading.watermarks import CausalClock, watermark_writer
from snapshotter.reporting.announcer import Announcer
from snapshotter.reporting.answers import DryRun
from snapshotter.reporting.gap_table import FOLDER as GAPS
from snapshotter.reporting.gap_table import GapTable
from snapshotter.reporting.notices import Notifier, wall_clock_ms
from snapshotter.reporting.notification_channels import open_channels
from snapshotter.reporting.signal_outcomes import SignalOutcomes
from snapshotter.reporting.status import EngineState
from snapshotter.reporting.status_collection import StatusCollection
from snapshotter.reporting.views import SilentView, View
from snapshotter.reporting.window_log import WindowLog
from snapshotter.spark_planners import start_planners
from snapshotter.state.identity import EngineIdentity
from snapshotter.state.journal import Journal
from snapshotter.state.lock import EngineLock, renewing
from snapshotter.state.process import this_process
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storages import needs_spark, storage_for
from streaming.delta.file_keys import KEPT
from streaming.mongo.deployment import connect, majority_time
from streaming.positions import ClusterTime

_log = structlog.get_logger("snapshotter.engine")
_TOGETHER = 1.0
"""Seconds within which whoever ends our JVM together with us has asked us to stop, too."""


class Engine:
    """One engine of one name. ``run`` blocks until it is stopped, is done (``once``), or fails for good."""

    def __init__(
        self, spark: Given, config: EngineConfig, view: View | None = None, stop: Event | None = None
    ) -> None:
        """``spark`` is a session, or what makes one, called as late as can be. ``config`` comes from `engine.assembly`.
        ``view`` is shown every status, and what a start is at. ``stop`` may be set before there is an engine."""
        self._stop = stop or Event()
        self.session = Session(spark, self._stop)
        self.readiness = Readiness(view or SilentView())
        self.config = config
        self.client = connect(config.uri)
        needed = needs_spark(config.state_location)
        early = early_position(self.client) if needed and not self.session.started else None
        self.storage = storage_for(config.state_location, self.spark if needed else None)
        begins = config.source_options, early, config.position_start
        self.beginning = Beginning(self.storage, self.client, *begins)
        self.source = SourceWatch(self.storage, self.client)
        self.store = ProgressStore(self.storage)
        self.identity = EngineIdentity(self.storage, config.name, lambda: self._checkpoint)
        self.journal = Journal(self.storage, config.remember_seconds)
        self.inbox, self.in_process = InboxChannel(self.storage), InProcessChannel()
        self.notifier = Notifier(config.notifications)
        self.announcer = Announcer(self.notifier, lambda: self.store, partial(tell_end, config.policy))
        gaps = GapTable(lambda: self.spark, f"{config.state_location}/{GAPS}")
        self.announcer.listeners.append(gaps.on_announcement)
        self._oplog = OplogWatch(self.client, config.oplog_warning_hours)
        self.topics = Topics(config, self.storage, lambda: self.spark)
        self._dead = DeadLetterWatch(lambda: self.spark, config, self.notifier.dead_letters)
        told = [self._oplog.told, self.topics.told, self._dead.told]
        self.status = status_writer(config, self.storage, self.client, view or SilentView(), told)
        self.tally, self.windows = self.status.tally, WindowLog(times=self.status.times)
        reported_in = config.scope.status if config.status_collection else None
        told_of = self.client, reported_in, config.name, self.identity.application_id
        self.outcomes = StatusCollection(*told_of, times=self.status.times)
        self.signal_outcomes, self._channels = SignalOutcomes(self.outcomes), self._watch([])
        captured = partial(captured_collections, self.client, config.captures_data)
        known = self.client, config, self.journal, self.storage, self.status.speed
        self._signals = SignalHandler(*known, self.signal_outcomes, captured)
        self._taking = SignalTaking(
            self._signals, lambda: self.ledger, config.signals, self.status.times.asked
        )
        self.run_state: Run | None = None
        self.endpoint = endpoint_of(self)
        self._hints = scratch_hints(self)
        self._lock = EngineLock(self.storage, config.name, this_process(), lambda: int(time.time() * 1000))
        self._kept = KeptLock(self._lock)
        self.tables: Tables
        self._upkeep = upkeep_of(self, self._kept.check)
        told += [self._upkeep.told, self.signal_outcomes.told]
        self.first_load = FirstLoad(config, self.journal, captured, lambda: self.tables, self._skipped)
        self._catalogue, self._suspects = CatalogueWatch(self.client, config), Suspects()
        announce = partial(self.notifier.engine_health, config.name)
        self.recovery = Recovery(config.restart_policy, self.storage, announce, former=self.status.former)
        looks = self._signals.interrupting, self._kept.keep, self._look_at_channels
        self._idling = Idling(self._stop, *looks, lambda: self.config.poll_ms / 1000)
        self._starts = Starts(self.recovery, self._kept, self._stop, self._report, self.endpoint.close)
        self.say = None if view is None else view.message
        self._prepared = self.rests = False

    # From outside, from any thread

    def stop(self) -> None:
        """Ask for a clean end: windows in flight close and land first, within ``drain_seconds``."""
        self._stop.set()

    def execute_snapshot(self, action: ExecuteSnapshot) -> None:
        """Accept a request in process; an id that is known is not carried out again. Raises RequestRefused."""
        with self._signals.one_at_a_time:
            take_request(self._signals, self.ledger, action)

    def dry_run(self, action: ExecuteSnapshot) -> DryRun:
        """What a request would read; nothing is accepted. Raises SignalError."""
        return self._signals.dry_run(action, self.ledger.standing())

    def command(self, command: Command) -> None:
        """Pause, resume or stop requests, in process. Raises RequestRefused."""
        with self._signals.one_at_a_time:
            take_command(self._signals, self.ledger, command)

    def act(self, action: StreamAction | Log | StopSnapshot) -> None:
        """What is about the engine, its log, or collections of requests, in process. Raises RequestRefused."""
        with self._signals.one_at_a_time:
            take_stream_action(self._signals, self.ledger, action)

    # The life of the engine

    def prepare(self) -> None:
        """Do what comes before the first run, in this order: preflight, the metrics' port, the lock, the position from
        which on no change is missed, Spark. ``run`` does it if nobody has. What a restart may cure is tried again where
        `engine.auto.restart.enabled` is set. Raises what keeps the engine from starting; it holds no lock then."""
        self._starts.keep_starting(self._prepare)

    def _prepare(self) -> None:
        check, doing = partial(preflight.check, self.client, self.config), self.readiness.doing
        doing(f"checking MongoDB at {servers(self.config.uri)}")
        with self._starts.keeping_name():
            reach(check, self.config.reconnects, self._stop, self.say)
        privileges.warn_of_wishes(self.client, self.config)
        self.endpoint.open()
        self._starts.take_name()
        self._report(EngineState.STARTING)
        self.store = fitting(self.store, self.config, self.beginning)
        self.beginning.position(self.store)
        with renewing(self._lock, RENEW_SECONDS):  # Spark may take longer to start than a lock lasts
            doing("starting Spark")
            start_planners(self.spark)
            check_executors(self.spark, self.config.warehouse)
        doing("looking at the tables")
        self.tables = self._tables()
        self.store = told_by_tables(self.store, self.config, self.tables, self.spark, self.beginning)
        self._prepared = True

    @property
    def spark(self) -> SparkSession:
        return self.session.get()

    @property
    def named(self) -> bool:
        """Whether it has, or has had, its name: before that it has touched nothing."""
        return self._lock.token is not None or self.run_state is not None

    def abandon(self) -> None:
        """Let go of the name in the midst of a batch, once no JVM is left to land it; the next start repeats it."""
        left = [] if self.run_state is None else [self.run_state.abandon]
        all_of(partial(self._report, EngineState.STOPPED), self._lock.release, *left, self.announcer.close)

    def run(self, *, once: bool = False) -> None:
        """Run until ``stop``, or with ``once`` until the work is done. Raises what else ended it."""
        if not self._prepared:
            self.prepare()
        self._prepared = False
        KEPT.hold(self.config.keys_bytes)
        try:
            self._channels = self._watch(open_enabled(self.config.channels, self.storage))
            self.notifier.open(open_channels(self.config, self.spark))
            self.outcomes.open()
            with self._catalogue, self._oplog, self._dead, self.topics, self._upkeep:
                self.recovery.keep_going(partial(self._live, once), self._idling, self._report)
            self._report(EngineState.STOPPED)
        except BaseException as error:
            self._report(EngineState.FAILED, error)
            raise
        finally:
            ends = self._channels.close, self._lock.release, self.outcomes.close, self.announcer.close
            all_of(*ends, self.endpoint.close)

    def _live(self, once: bool) -> None:
        self.topics.feed()
        progress, streams = self.store.newest() or Progress(), self.config.policy.should_stream()
        reads = self.first_load.wanted(progress, self.store.generation)
        if not streams and not reads and all(r.ended for r in self.journal.existing(progress)):
            _log.info("nothing to read, and snapshot.mode does not stream")
            return
        if reads and self.config.snapshot_delay_ms:
            self._idle(self.config.snapshot_delay_ms / 1000)
        self._runs(once or not streams, time.monotonic() + self.config.streaming_delay_ms / 1000)
        if once or not streams:
            ended = (self.store.newest() or Progress()).capturing(self.config.scope.captures)
            report = partial(self._report, self.readiness.state)
            self._upkeep.last_turn(self._stop.is_set, self._kept.keep, report)
            refuse_suspended(ended)

    def _runs(self, once: bool, streams_at: float) -> None:
        restarts = Restarts(self.config.retries_max)
        while not self._stop.is_set():
            if self._signals.stream_paused:
                self._rest(once)
                continue
            self._signals.restart_asked.clear()
            started, landed = time.monotonic(), self._progress.batch_id
            try:
                if self._one_run(once, streams_at):
                    return
                continue
            except Exception as error:
                self.recovery.failed(error)
                if self._begins_anew(error):
                    continue
                steady = time.monotonic() - started > STEADY_SECONDS and self._progress.batch_id > landed
                if self.run_state is not None:
                    self._suspects.note(self.run_state.blame.failing, steady=steady)
                fault = fault_of(error, self.spark)
                if fault is Fault.SESSION_LOST and self._stop.wait(_TOGETHER):
                    return  # whoever ends us has ended our JVM, too: the next start repeats the batch
                if fault is Fault.DEFINITE:
                    privileges.name_what_lacks(self.client, self.config, error)
                    raise
                if (enough := restarts.note(error, fault, steady=steady)) is not None:
                    raise enough from error
                self.tally.add("retries", part="run")
                wait_ms, failure = self.config.retry_wait_ms, error
                said = describe(error).fields()
                warn_of(_log, "the run failed and starts again", error, wait_ms=wait_ms, **said)
            # Outside of the handler, or an error in the pause would count as caused by this one, which may pass.
            self._idle(wait_ms / 1000, failure)

    @property
    def _progress(self) -> Progress:
        """How far this life of the engine has come."""
        return self.run_state.progress if self.run_state is not None else Progress()

    def _idle(self, seconds: float, failure: Exception | None = None) -> None:
        """Run nothing for so many seconds, or until a stop; the lock is kept, and signals are accepted."""
        self._idling.wait(seconds, partial(self._report, self.readiness.state, failure))

    def _rest(self, once: bool) -> None:
        """Run nothing until the stream is resumed. What is inserted into the signal collection meanwhile is taken."""
        position = self.store.position()
        tell_pause(position, once=once)
        with self._taking.meanwhile(self.client, position, self.config.poll_ms / 1000):
            self.rests = True
            self.readiness.reached()
            self._idling.rest(lambda: self._signals.stream_paused, partial(self._report, EngineState.RUNNING))
            self.rests = False

    def _begins_anew(self, error: BaseException) -> bool:
        """Whether the next run begins at a new position: the old one is lost, and `engine.position.lost` wants it so.
        Raises PositionGone where it does not."""
        gap = gap_of(error, self.store.position, self.config.position_lost, wall_clock_ms)
        if gap is None:
            return False
        tell(gap, mode_reads=self.config.policy.should_snapshot_data(False, False))
        self._report(self.readiness.state, error)
        with self._signals.one_at_a_time:
            self.run_state = None
            self.store = self.store.next_generation(gap=gap)
            self.source.accept()
            self.tables = self._tables()
        return True

    def _one_run(self, once: bool, streams_at: float) -> bool:
        """Whether the engine is to end with it; else the next run begins, now or once the stream is resumed."""
        self.readiness.doing("opening the change stream")
        clock, config = CausalClock(), self.config
        how = config.strategy, self.client, config.name, config.signals, clock
        writer = watermark_writer(*how, keep=config.watermarks_keep)
        newest = self.store.newest()
        self.source.check(None if newest is None or newest.batch_id < 0 else newest.position, self._stop.wait)
        since, context = self.beginning.confirmed(self.store), self._context()
        blame = Blame(self._suspects.found)
        full = lambda: self.topics.full  # noqa: E731 - topics come and go
        pacing = pacing_of(config, self._hints, streams_at, fresh=since is not None, full=full, once=once)
        run = Run(uuid.uuid4().hex[:12], context, writer, clock, blame, pacing, begins=since)
        with self._signals.one_at_a_time:
            self.run_state = run
        query: StreamingQuery | None = None
        try:
            target = majority_time(self.client) if once else None
            self._hints.request_batch()  # the first batch makes the machine, so an idle stream must bring one, too
            run.pace_source()
            with made_ahead(context):
                query = start_query(context, since, run.foreach_batch)
                run.ahead = self._taking.ahead_of(run, self.client, self.config.poll_ms / 1000)
                ends = self._control(run, query, target)
        finally:
            ended = [] if run.ahead is None else [run.ahead.close]
            ended += [run.refuse, lambda: self._wind_up(run, query)]
            all_of(*ended, *([] if query is None else [query.stop]), run.close)
        if run.error is not None and not isinstance(run.error, StopRequested):
            raise run.error
        all_of(lambda: self.source.ended(run.position))
        return ends

    def _wind_up(self, run: Run, query: StreamingQuery | None) -> None:
        """Once no more signals and no more batches come: the wait for Spark's commit of the last one, without which its
        announcements are not heard."""
        if query is not None:
            await_commit(query, run.progress.batch_id, self._is_committed)
            self.announcer.look(self._is_committed)

    def _control(self, run: Run, query: StreamingQuery, target: ClusterTime | None) -> bool:
        """Go on until the query ends, a stop is asked for, or (``--once``) every request is done; True then. False
        where an operator wants this run to end, and the engine to go on."""
        while query.isActive:
            self._kept.keep()
            run.look_at_source(self.source)
            self._catalogue.check()
            self._look_at_channels()
            run.pace_source()
            self.readiness.look(run)
            self._report(self.readiness.state)
            if target is not None and self._done(run, target):
                return True
            if run.landed:
                self.recovery.landed()
            if self._stop.wait(self.config.poll_ms / 1000) or self._signals.interrupting():
                state = EngineState.STOPPING if self._stop.is_set() else self.readiness.state
                self._report(state)
                meanwhile = self._hints.request_batch, partial(self._report, state)
                drain(run, query, self.config.drain_seconds, meanwhile)
                return self._stop.is_set()
        error = query.exception()
        if run.error is None and error is not None:
            raise error
        return True

    def _done(self, run: Run, target: ClusterTime) -> bool:
        if not (run.started and run.progress.position >= target and run.machine.finished):
            return False
        known = {request.id for request in run.progress.requests}
        return all(request.id in known for request in self.journal.requests) and self._channels.quiet()

    def _skipped(self) -> None:
        self.tally.put("loads_skipped", 1)
        self.announcer.announce(Announce(SKIPPED, NAME))

    def _is_committed(self, batch_id: int) -> bool:
        return self.storage.exists(f"{self._checkpoint}/commits/{batch_id}")

    def _report(self, state: EngineState, error: BaseException | None = None) -> None:
        warnings = *self.first_load.warnings(self._progress), *self._catalogue.warnings
        reports = self._channels.reports(), self.notifier.reports(), warnings
        refused = self.signal_outcomes.refusals
        how = self.recovery.look(state, paused=self._signals.stream_paused)
        self.status.write(state, self.run_state, self.journal.requests, refused, error, *reports, how)

    @property
    def ledger(self) -> Ledger:
        """Where requests are now. Ask only while holding ``one_at_a_time``: a new run takes its place under that."""
        run = self.run_state
        return run if run is not None else Waiting(self.journal, self.store)

    def _watch(self, enabled: list[SignalChannel]) -> Channels:
        return Channels([self.inbox, self.in_process, *enabled], asked=self.status.times.asked)

    def _look_at_channels(self) -> None:
        self.announcer.look(self._is_committed)
        for part in self._channels.look():
            self._taking.take(part.actions, part.refused)

    def _context(self) -> RunContext:
        begins = self.spark, self.client, self.config, self.store, self.journal, self._hints, self._kept
        told = self._signals, self.announcer, self.first_load, self.outcomes
        lands = self.tables, self.windows, self.tally, self.topics, self._dead
        every = *begins, *told, *lands
        return RunContext(*every)

    @property
    def _checkpoint(self) -> str:
        return self.store.generation.checkpoint

    def _tables(self) -> Tables:
        config, mine = self.config, self.identity
        sample = partial(sample_plan, config.layout, self.client, config.fields)
        columns = config.layout, sample, mine.owner, config.further, config.form
        return Tables(self.spark, config.warehouse, mine.application_id, *columns)

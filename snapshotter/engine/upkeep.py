"""The upkeep of an engine's state tables and changelog tables: one step at a time, of one table at a time, beside its
landings.

A thread of its own looks at each table that the engine has opened twice a minute, more often where it is landed into
all the time, and does what is due (`streaming.delta.upkeep_plan`). Looks and commits are made under that table's lock,
and files are written anew without it, so that landings go on beside (`streaming.delta.rewriting`); only where that
can't be, or came to nothing the time before, the lock is kept all the while. Behind each step nothing of its kind is
done for nine times as long as it took, or for as long where hardly anything lands: small files that are to be put
together do not wait for large ones, for old ones to be removed, or for the log. Old files are removed without the lock,
for no commit is made, and not while a window is open that may have files as old: READs lie in files of the table before
a commit adds them.

A run that ends by itself may be over before anything was looked at. So it has a last turn: what is due is done then,
without rests, for nothing lands any more, and nothing is begun behind `LAST_SECONDS`, nor by the looks of before. Those
tables come first that have waited longest, by what is kept beside the state (`engine.upkeep_book`); it also says when
old files were to be removed, so that of a scheduler's runs one a day does that, and not each. Old files of a table that
no run has met are for a run of another day, for all of its folder is listed for them.

Upkeep is nobody's condition. What goes wrong is logged, counted, shown in the status and tried again later; neither a
landing nor the engine ends by it.

Invariant: nothing is written unless the engine has its lock.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

import structlog
from pyspark.sql import SparkSession

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.engine.kept_table import KeptTable, Name
from snapshotter.engine.recurring_look import RecurringLook
from snapshotter.engine.upkeep_book import UpkeepBook
from snapshotter.errors import cause_of
from snapshotter.failures import classify
from snapshotter.landing.tables import KeptInOrder, Tables
from snapshotter.log import warn_of
from snapshotter.metrics.figures import Number
from snapshotter.metrics.tally import Tally
from snapshotter.reporting.notices import wall_clock_ms
from snapshotter.reporting.status import Status
from snapshotter.reporting.window_log import OpenWindow
from snapshotter.state.storage import Storage
from snapshotter.state.upkeep_notes import Key, UpkeepNote
from streaming.delta.delta_log import CONFLICTS
from streaming.delta.file_concat import NotAlike
from streaming.delta.rewriting import Begun, Copies, GaveWay
from streaming.delta.state_upkeep import RetentionContradicted
from streaming.delta.table_paths import CHANGELOG, STATE
from streaming.delta.upkeep_plan import (
    IDLE,
    LOOK_SECONDS,
    Effort,
    FileFacts,
    Kind,
    Pace,
    Step,
    Thresholds,
    checkpoint_due,
    due,
)
from streaming.namespaces import Namespace

if TYPE_CHECKING:
    from snapshotter.engine.engine import Engine

_log = structlog.get_logger("snapshotter.upkeep")
SECONDS, LAST_SECONDS = 1.0, 30.0
_WAIT_SECONDS = 0.05
_WORKED_LOOKS = 30
_KEY_BYTES = 32
"""That the driver takes for a key, in round numbers: those of ids as MongoDB makes them have 26 characters."""
_RETRY_SECONDS, _RETRY_SECONDS_MAX = 60.0, 3_600.0


class TableUpkeep(RecurringLook):
    """Of the tables of the engine of this ``config``. ``spark`` and ``tables`` give the session and the tables of the
    moment; ``check`` raises where the engine has lost its lock; what is done is counted in ``tally``, and noted in
    ``storage``. ``in_flight``: windows whose READs may lie in files that no commit has added yet. It wakes ``every`` so
    many seconds."""

    def __init__(
        self,
        config: EngineConfig,
        spark: Callable[[], SparkSession],
        tables: Callable[[], Tables],
        check: Callable[[], object],
        tally: Tally,
        storage: Storage,
        in_flight: Callable[[], Sequence[OpenWindow]] = tuple,
        every: float = SECONDS,
    ) -> None:
        super().__init__("upkeep", every)
        self._enabled = config.upkeep is not None
        # Half of what the driver may hold of keys, so that a landing into one range of keys finds them there.
        file_rows = max(1, config.keys_bytes // (2 * _KEY_BYTES))
        self._limits = replace(config.upkeep or Thresholds(), file_rows=file_rows)
        self._spark, self._tables, self._check, self._tally = spark, tables, check, tally
        self._book, self._in_flight = UpkeepBook(storage, check), in_flight
        self._group = f"snapshotter-upkeep-{uuid.uuid4().hex[:12]}"
        self._pace = Pace()
        self._rests: dict[Effort, float] = {}
        self._worked: deque[tuple[float, float]] = deque(maxlen=_WORKED_LOOKS)
        self._kept: dict[Name, KeptTable] = {}
        self._one_at_a_time = threading.Lock()
        self._last: threading.Thread | None = None

    def last_turn(
        self, stopped: Callable[[], bool], keep: Callable[[], object], report: Callable[[], object]
    ) -> None:
        """Do what is due at the end of a run that ends by itself; return when that is done, or ``stopped`` says so.
        ``report`` is called meanwhile, and ``keep`` keeps the engine's lock. Where that cannot be done just now the
        turn is over; where another engine has the lock, that is raised."""
        if not self._enabled or stopped():
            return
        until = time.monotonic() + LAST_SECONDS
        self._last = threading.Thread(target=self._all_due, args=(until,), name="last-upkeep", daemon=True)
        self._last.start()
        try:
            while self._last.is_alive() and not stopped():
                report()
                keep()
                self._last.join(_WAIT_SECONDS)
        except Exception as error:
            if not classify(error).may_pass:
                raise
            warn_of(_log, "upkeep at the end of a run is broken off", error)
        finally:
            self._stopped.set()

    def told(self, status: Status) -> Status:
        """The status with what is known of each table's files."""
        kept = sorted(dict(self._kept).items())
        return status.model_copy(update={"upkeep": tuple(one.report(name) for name, one in kept)})

    def _look(self) -> None:
        """Nothing at the start, which has more urgent things to do."""

    def _look_again(self) -> bool:
        if not self._enabled:
            return False
        with self._one_at_a_time:
            self._worked.append((time.monotonic(), _batch_seconds(self._tally.counts())))
            for name, opened in self._in_turn():
                if self._stopped.is_set():
                    return False
                if self._kept_in_order(name, opened):
                    break
        return True

    def _all_due(self, until: float) -> None:
        """On a thread of its own, as `last_turn` says. Raises nothing."""
        with self._one_at_a_time:
            self._worked.append((time.monotonic(), _batch_seconds(self._tally.counts())))
            opened, looked, at_ms = self._opened(), [], wall_clock_ms()
            for name in sorted(opened, key=lambda n: (self._kept[n].note.looked_ms, n)):
                if self._over(until):
                    break
                kept = self._kept[name]
                if not kept.note.vacuumed_ms:
                    kept.noted(UpkeepNote(vacuumed_ms=at_ms), at_ms)
                while self._goes_on(name, opened[name]) and not self._over(until):
                    pass
                kept.note = replace(kept.note, looked_ms=wall_clock_ms())
                looked.append(name)
            if looked:
                self._note(looked)
            self._stopped.set()  # before any other look gets the lock

    def _goes_on(self, name: Name, opened: KeptInOrder) -> bool:
        """Look at a table at the end of a run; whether it is to be looked at again. A step that came to nothing keeps
        nothing else from being done, and behind one that failed there is one more try."""
        done, kept = self._kept_in_order(name, opened), self._kept[name]
        return done or kept.more or kept.failures == 1

    def _over(self, until: float) -> bool:
        return self._stopped.is_set() or time.monotonic() >= until

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        if self._enabled and self._kept:
            with suppress(Exception):  # Spark may be gone, and with it what is broken off here
                self._spark().sparkContext.cancelJobGroup(self._group)
        super().__exit__(kind, error, trace)
        if self._last is not None:
            self._last.join()

    def _opened(self) -> dict[Name, KeptInOrder]:
        """The tables that are kept in order."""
        tables = self._tables()
        opened: dict[Name, KeptInOrder] = {(n, STATE): one for n, one in tables.opened().items()}
        opened |= {(n, CHANGELOG): one for n, one in dict(tables.changelogs).items()}
        self._kept = {n: kept for n, kept in self._kept.items() if n in opened}
        for name in opened.keys() - self._kept.keys():
            self._kept[name] = kept = KeptTable(next=time.monotonic() + LOOK_SECONDS)
            if (note := self._book.note_of(_key(name))) is not None:
                kept.noted(note, wall_clock_ms())
                if kept.note != note:
                    self._note([name])  # a clock was wrong, and would be so for the next as well
        return opened

    def _note(self, names: Iterable[Name]) -> None:
        self._book.keep({_key(name): self._kept[name].note for name in names})

    def _in_turn(self) -> Iterator[tuple[Name, KeptInOrder]]:
        """Tables that may be looked at now: that first which has waited longest."""
        opened, now = self._opened(), time.monotonic()
        for name in sorted(opened, key=lambda n: (self._kept[n].next, self._kept[n].stepped, n)):
            if self._kept[name].next <= now:
                yield name, opened[name]

    def _kept_in_order(self, name: Name, opened: KeptInOrder) -> bool:
        """Look at a table, and do what is due; whether anything was. Raises nothing."""
        kept, now = self._kept[name], time.monotonic()
        kept.more = False
        if kept.waits in self._resting() and now < kept.again:  # another table was first
            kept.wait(kept.waits, self._rests[kept.waits])
            return False
        try:
            self._check()
            context = self._spark().sparkContext
            context.setJobGroup(self._group, "upkeep of tables", interruptOnCancel=True)
            context.setLocalProperty("spark.scheduler.pool", "upkeep")
            step = self._step(name, opened)
        except Exception as error:  # noqa: BLE001 - a table is landed all the same, and this is tried again
            if not self._stopped.is_set():
                self._failed(name, kept, error)
            return False
        kept.failures, kept.error = 0, None
        if step is not None:
            _log.info("upkeep of a table", **_said(name), done=step.kind.value, why=step.reason)
        return step is not None

    def _failed(self, name: Name, kept: KeptTable, error: Exception) -> None:
        kept.failures += 1
        wait = min(_RETRY_SECONDS * 2 ** (kept.failures - 1), _RETRY_SECONDS_MAX)
        kept.next, kept.error = time.monotonic() + wait, cause_of(error)
        self._tally.add("upkeep", part="failed")
        if isinstance(error, (*CONFLICTS, GaveWay)):
            _log.info("another writer was quicker than the upkeep of a table", **_said(name))
            return
        named = {**_said(name), "again_in_seconds": wait}
        warn_of(_log, "the upkeep of a table failed, and is tried again", error, **named)

    def _step(self, name: Name, opened: KeptInOrder) -> Step | None:
        """What was done; None for nothing."""
        limits = replace(self._limits, idle=self._busy() < IDLE)
        upkeep, kept = opened.upkeep, self._kept[name]
        found = step = done = None
        try:
            with opened.lock:
                upkeep.own_checkpoints()
                found = upkeep.look(limits)
                kept.looked(found, time.monotonic(), limits)
                if found is None:
                    return None
                files = found.files or ()
                kept.small = None if found.files is None else sum(limits.is_small(file) for file in files)
                step = self._due(kept, files, limits)
                begun = None if step is None or step.kind is Kind.VACUUM else upkeep.begin(step)
                # What landings mark in files that are concatenated can always be made up for.
                if begun is not None and (begun.alone or (kept.gave_way and not begun.step.concatenates)):
                    copies = self._written(kept, begun)
                    done, begun = None if copies is None else self._finish(kept, opened, begun, copies), None
            if begun is not None:
                done = self._rewrite(name, opened, begun)
        finally:
            if found is not None:  # readers need it, whatever becomes of a rewrite
                self._checkpoint_if_due(kept, opened, found.commits)
        return self._vacuum(name, opened, step) if step is not None and step.kind is Kind.VACUUM else done

    def _checkpoint_if_due(self, kept: KeptTable, opened: KeptInOrder, commits: int) -> None:
        ago = time.monotonic() - kept.checkpointed
        if self._stopped.is_set() or not checkpoint_due(commits, ago, kept.checkpoint_seconds):
            return
        if Effort.CHECKPOINT in self._resting():
            kept.wait(Effort.CHECKPOINT, self._rests[Effort.CHECKPOINT])
        else:
            self._checkpoint(kept, opened)

    def _due(self, kept: KeptTable, files: Sequence[FileFacts], limits: Thresholds) -> Step | None:
        """What is done now of what is due."""
        ago = None if kept.tried is None else time.monotonic() - kept.tried
        needs = partial(due, files, limits, self._pace.bytes_max, ago, kept.last)
        kept.due = first = needs()
        resting = self._resting()
        if first is None or first.effort not in resting:
            return first
        kept.wait(first.effort, self._rests[first.effort])
        return needs(resting)

    def _checkpoint(self, kept: KeptTable, opened: KeptInOrder) -> None:
        """Beside landings; only the version in memory is theirs."""
        began = time.monotonic()
        opened.upkeep.checkpoint()
        kept.checkpointed = time.monotonic()
        # Some times a day it lists the log as well, which takes seconds where that is long.
        kept.checkpoint_seconds = kept.checkpointed - began
        self._rest(kept, Effort.CHECKPOINT, kept.checkpoint_seconds)
        self._tally.add("upkeep", part="checkpoint")
        with opened.lock:
            opened.upkeep.stand_upon_checkpoint()

    def _rewrite(self, name: Name, opened: KeptInOrder, begun: Begun) -> Step | None:
        """Beside landings; None where it gave way to one."""
        kept = self._kept[name]
        if (copies := self._written(kept, begun)) is None:
            return None
        try:
            with opened.lock:
                return self._finish(kept, opened, begun, copies)
        except GaveWay as why:
            kept.gave_way = True
            self._rest(kept, begun.step.effort, copies.seconds)
            self._tally.add("upkeep", part="gave_way")
            _log.info("files of a table were written anew in vain", **_said(name), why=str(why))
            return None

    def _written(self, kept: KeptTable, begun: Begun) -> Copies | None:
        """None where files are not concatenated after all; the next look finds something else for them."""
        self._go_on()
        try:
            return begun.write(self._go_on)
        except NotAlike as why:
            kept.look_again()
            _log.info("files of a table are not concatenated, but put together as rows", why=str(why))
            return None

    def _go_on(self) -> None:
        """Raises where the engine stops."""
        if self._stopped.is_set():
            raise RuntimeError("the engine stops")

    def _finish(self, kept: KeptTable, opened: KeptInOrder, begun: Begun, copies: Copies) -> Step:
        began = time.monotonic()
        done, step = opened.upkeep.finish(begun, copies, self._check), begun.step
        self._tally.add("upkeep_bytes", done.made_bytes)
        if not step.concatenates:
            self._pace = self._pace.after(step.size_bytes, copies.seconds)
        if copies.left is not None:
            _log.debug("files were written anew by Spark, and not by the driver", why=copies.left)
        kept.rewrites, kept.last, kept.gave_way = kept.rewrites + 1, step.kind, False
        self._done(kept, step, copies.seconds + time.monotonic() - began)
        kept.wait(step.effort, self._rests[step.effort])  # there may be more to do
        return step

    def _vacuum(self, name: Name, opened: KeptInOrder, step: Step) -> Step | None:
        kept = self._kept[name]
        # Whatever becomes of it, it is not tried again before it is due again: nothing depends on it.
        kept.tried, kept.due, kept.refused = time.monotonic(), None, None
        kept.note = replace(kept.note, vacuumed_ms=wall_clock_ms())
        kept.look_again()
        upkeep, hours = opened.upkeep, self._limits.retention_hours
        before = datetime.now(UTC) - timedelta(hours=hours)
        # READs wait in the state table of their own collection alone.
        mine = [w for w in self._in_flight() if name == (Namespace.parse(w.collection), STATE)]
        if any(window.low_at <= before for window in mine):
            # Its files are as old as what goes, and nobody else knows that they are to stay.
            _log.info(
                "old files of a table stay while a window is open for longer than they would", **_said(name)
            )
            return None
        try:
            with opened.lock:
                upkeep.retain(hours)
        except RetentionContradicted as why:
            kept.refused = str(why)
            _log.warning("files that a table no longer has are not removed", why=kept.refused)
            return None
        self._go_on()
        began, kept.note = time.monotonic(), replace(kept.note, oldest=None)  # if it breaks off, nobody knows
        try:
            oldest = upkeep.vacuum(hours, check=self._limits.retention_checked)
            kept.note = replace(kept.note, oldest=oldest)
        finally:
            self._note([name])  # also where it failed: all of the folder was listed
        kept.vacuumed = time.monotonic()
        self._done(kept, step, time.monotonic() - began)
        return step

    def _done(self, kept: KeptTable, step: Step, seconds: float) -> None:
        self._rest(kept, step.effort, seconds)
        kept.done_at = datetime.now(UTC)
        if kept.due is step:
            kept.due = None
        self._tally.add("upkeep", part=step.kind.value)

    def _rest(self, kept: KeptTable, effort: Effort, seconds: float) -> None:
        """From now on, behind a step that took so many ``seconds``; waits for a lock are none of them."""
        kept.stepped = time.monotonic()
        self._rests[effort] = kept.stepped + Pace.pause(seconds, self._busy())

    def _resting(self) -> set[Effort]:
        now = time.monotonic()
        return set() if self._last else {effort for effort, until in self._rests.items() if now < until}

    def _busy(self) -> float:
        """The part of the last half minute that batches took; all of it while one lands, or a window is open."""
        counts, now = self._tally.counts(), time.monotonic()
        if any(counts["bytes_landing"].values()) or self._in_flight():
            return 1.0
        began, before = self._worked[0]
        return (_batch_seconds(counts) - before) / max(now - began, SECONDS)


def upkeep_of(engine: Engine, check: Callable[[], object]) -> TableUpkeep:
    """Of the tables of this ``engine``; ``check`` as of `TableUpkeep`."""

    def in_flight() -> Sequence[OpenWindow]:
        run = engine.run_state
        return () if run is None else engine.windows.in_flight(run.id)

    tables = lambda: engine.spark, lambda: engine.tables
    return TableUpkeep(engine.config, *tables, check, engine.tally, engine.storage, in_flight)


def _batch_seconds(counts: Mapping[str, Mapping[str, Number]]) -> Number:
    """What batches that have landed took, all together."""
    return sum(counts["batch_seconds"].values())


def _key(name: Name) -> Key:
    return str(name[0]), name[1]


def _said(name: Name) -> dict[str, str]:
    return {"collection": str(name[0]), "table": name[1]}

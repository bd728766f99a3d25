"""What a start of the engine reads, and as which request.

The initial load is a request like any other. So one that was cut short goes on by itself, and only a mode that wants
another one gets another one (`snapshot_modes`). Besides, a later start reads what is captured since
(`core.values.coverage`).

Invariants
- A table that holds rows which the stream has not followed is read with reconcile: what was deleted meanwhile has no
  event any more, and its row goes because the source has no document for it. So after a position was lost, where the
  state was removed and the table was not, and where a collection was not captured for a while.
- So it is under a filter, which then is no reason to leave a row as it is: besides what matches, every document that
  has a row is read.
- So is such a table whose collection is no more: its rows go. Tables of what is not captured are somebody else's.
- What a start leaves unread although the stream cannot make it whole is said, at every start.
- A table whose collection has other rules about fields than the rows were written by is read again, with reconcile,
  whatever the mode: every row is written anew. (Each READ is written; where equal rows are not, these must be.)
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

import structlog

from signals.matching.selection import spelled
from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.configuration.event_options import CONFIRMED
from snapshotter.configuration.option_values import NewCollections
from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.gaps import HEAL
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from snapshotter.errors import DefiniteError
from snapshotter.state.generation import Generation
from snapshotter.state.journal import Journal
from snapshotter.state.progress_store import ProgressStore
from streaming.namespaces import Namespace, listed

_log = structlog.get_logger("snapshotter.initial")
NAME = "initial"
OPTION = "engine.snapshot.new.collections"
_SHOWN = 20
AHEAD = 4
"""So many tables are made, or looked into, before anybody needs them."""


class TablesThere(Protocol):
    """What is asked of the tables."""

    def there(self) -> list[Namespace]:
        """The collections that have one, captured or not."""

    def filled(self, namespaces: Iterable[Namespace]) -> frozenset[Namespace]:
        """Those whose table holds a row."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a start finds: the captured collections that are ``there``; those of them and of former ones whose table has
    rows that the stream may not have followed, or that other rules were followed by (``filled``); the former ones among
    these (``missing``); and those under other rules (``ruled``)."""

    there: tuple[Namespace, ...]
    missing: tuple[Namespace, ...] = ()
    filled: frozenset[Namespace] = frozenset()
    ruled: tuple[Namespace, ...] = ()

    @property
    def all(self) -> tuple[Namespace, ...]:
        return *self.there, *self.missing

    def left_by(self, *, heals: bool) -> frozenset[Namespace]:
        """The collections that a gap leaves in doubt. What ``heals`` makes whole also those that have no table yet."""
        return frozenset(self.all) if heals else self.filled


@dataclass(frozen=True, slots=True)
class Decision:
    """Collections to read, and the marks from here on."""

    read: tuple[Namespace, ...]
    coverage: Coverage


@dataclass(slots=True)
class FirstLoad:
    """Asked at the beginning of each run of one start of the engine. ``skipped`` is called if the start reads
    nothing."""

    config: EngineConfig
    journal: Journal
    captured: Callable[[], list[Namespace]]
    tables: Callable[[], TablesThere]
    skipped: Callable[[], None]
    _asked: bool = False
    _decided: Coverage = field(default_factory=Coverage)
    _missing: frozenset[Namespace] = frozenset()
    _ruled: tuple[Namespace, ...] = ()

    def wanted(self, progress: Progress, generation: Generation) -> bool:
        """Whether this start begins a load, and does not only go on with one."""
        if self._reads(progress, generation):
            return True
        if progress.fresh and generation.lost:
            return bool(self._goes_on(progress, Found(tuple(self.captured()))).read)
        there = () if progress.fresh else tuple(self.captured())
        if self._under_other_rules(progress, there):
            return True
        return bool(self._newly_read(self._before(progress), progress, there))

    def first(self, progress: Progress, generation: Generation) -> list[Namespace]:
        """The first collections that a first start reads; none for any other start."""
        if not progress.fresh or not self._reads(progress, generation):
            return []
        return [n for n in self.captured() if self.config.loads_initially(n)][:AHEAD]

    def look(self, progress: Progress) -> Found:
        """Look at the source and at the tables; this may take a while, and decides nothing."""
        there = tuple(self.captured())
        settled = frozenset() if progress.fresh else self._before(progress).settled
        tables = self.tables()
        made = tables.there()
        doubtful = [n for n in made if self.config.captures_data(n) and n not in settled]
        ruled = [n for n in self._under_other_rules(progress, there) if n in made]
        filled = tables.filled(dict.fromkeys((*doubtful, *ruled)))
        missing = tuple(n for n in doubtful if n in filled and n not in there)
        return Found(there, missing, filled, tuple(n for n in ruled if n in filled))

    def begin(
        self, progress: Progress, generation: Generation, found: Found
    ) -> tuple[Progress, list[SnapshotRequest]]:
        """The state that a run begins from, with the marks of this start, and the load that begins here, if one does.
        ``progress`` is the state that was saved, ``generation`` the one in force, and ``found`` what `look` has found
        for this state. The load is durable when this returns; where no batch has been saved yet, the next start asks
        for it again. Once a batch is saved, further runs of this start keep to what was decided."""
        fresh = progress.fresh
        progress = replace(progress, fields=self.config.fields.to_text())
        if self._asked and not fresh:
            return progress.covering(self._again(progress)), []
        self._asked = True
        decision = self._first(progress, generation, found) if fresh else self._later(progress, found)
        self._decided, self._missing = decision.coverage, frozenset(found.missing)
        self._ruled = found.ruled
        for warning in (*_advice(decision.coverage.unread, self._missing), *_held(self._ruled)):
            _log.warning(warning)
        if not decision.read:
            if not self._loading(progress):
                self.skipped()
            return progress.covering(decision.coverage), []
        heals = fresh and generation.heal
        read = self._first_healed(decision.read) if heals else decision.read
        wanted = tuple(self._wanted(n, n in found.filled, rewritten=n in found.ruled) for n in read)
        name, origin = (HEAL, Origin.HEAL) if heals else (NAME, Origin.INITIAL)
        load = SnapshotRequest(self._id(progress, name), wanted, origin)
        if not fresh:
            self.journal.add(load)
        return progress.covering(decision.coverage), [load]

    def check_events(self, progress: Progress, found: Found) -> None:
        """What tells events is not read again under other rules about fields, as tables are, and whoever takes them may
        count on a field. Raises DefiniteError until somebody says that the rules are meant."""
        fields = self.config.fields
        told = self.config.envelope is not None and progress.batch_id >= 0
        if not told or self.config.fields_confirmed == fields.digest:
            return
        others = [n for n in found.there if fields.differ(progress.fields, n, shaped=False)]
        if others:
            names = ", ".join(map(str, others[:_SHOWN]))
            raise DefiniteError(
                f"the rules about fields (field.exclude.list, field.renames, engine.field.hash.list) are others than "
                f"before for {names}: tables are read again, but what was told of these collections in changelogs and "
                f"topics stays as it is, and from now on is told otherwise",
                f"set {CONFIRMED}={fields.digest} if that is meant; delete from changelogs and topics what is not to "
                f"stay there (docs/fields.md)",
            )

    def tables_to_make(self, progress: Progress, found: Found) -> tuple[Namespace, ...]:
        """The captured collections whose tables this start makes before it reads, where the mode says so. Asked before
        `begin`, with the same arguments; later runs of a start make none."""
        exists = progress.batch_id >= 0
        if self._asked and exists:
            return ()
        wanted = self.config.policy.should_snapshot_schema(exists, self._loading(progress))
        return found.there if wanted else ()

    def warnings(self, progress: Progress) -> tuple[str, ...]:
        """What to do about collections that are unread in this state."""
        unread = progress.coverage.unread if progress.coverage is not None else frozenset()
        return (*_advice(unread, self._missing), *_held(self._ruled))

    # What is read

    def _reads(self, progress: Progress, generation: Generation) -> bool:
        """Whether this start reads everything."""
        exists = not progress.fresh
        if not exists and (generation.heal or generation.lost):
            return generation.heal
        return self.config.policy.should_snapshot_data(exists, self._loading(progress))

    def _first(self, progress: Progress, generation: Generation, found: Found) -> Decision:
        if generation.heal:
            return Decision(found.all, Coverage(frozenset(found.all)))
        if generation.lost:
            return self._goes_on(progress, found)
        reads = self._reads(progress, generation)
        read = tuple(n for n in found.all if self.config.loads_initially(n)) if reads else ()
        left = [n for n in found.filled if n not in read]
        return Decision(read, Coverage(frozenset(found.all)).leaving(left))

    def _goes_on(self, progress: Progress, found: Found) -> Decision:
        """Behind a gap: what an initial load had not come to is read, and all else left as unread."""
        marked = progress.coverage or Coverage()
        begins = self.config.policy.should_snapshot_data(False, False)
        begun = [n for n in marked.new(found.all) if begins and self.config.loads_initially(n)]
        read = tuple(dict.fromkeys((*begun, *found.ruled)))
        return Decision(
            read, Coverage(frozenset(found.all)).leaving(n for n in found.filled if n not in read)
        )

    def _later(self, progress: Progress, found: Found) -> Decision:
        before = self._before(progress)
        read = dict.fromkeys(self._newly_read(before, progress, found.all))
        if self.config.policy.should_snapshot_data(True, self._loading(progress)):
            read |= dict.fromkeys(n for n in found.all if self.config.loads_initially(n))
        asked = {t.namespace for r in self._waiting(progress) for t in r.tasks if t.reconcile}
        read |= dict.fromkeys(n for n in found.ruled if n not in asked)
        left = [n for n in before.new(found.all) if n not in read]
        return Decision(tuple(read), before.settling(read).leaving(left))

    def _newly_read(
        self, before: Coverage, progress: Progress, found: Iterable[Namespace]
    ) -> list[Namespace]:
        """What a later start reads of what is found, by `engine.snapshot.new.collections`."""
        found = tuple(found)
        match self.config.new_collections:
            case NewCollections.READ:
                return [n for n in found if n not in before.settled]
            case NewCollections.AUTO if progress.coverage is not None:
                if not self.config.policy.should_snapshot_data(False, False):
                    return []
                return [n for n in before.new(found) if self.config.loads_initially(n)]
            case _:
                return []

    def _under_other_rules(self, progress: Progress, there: Iterable[Namespace]) -> list[Namespace]:
        """Those of these collections whose rows, if there are any, were written by other rules about fields. What is
        suspended is left: whoever restores it reads it by the present rules."""
        if progress.batch_id < 0:
            return []
        left_out = progress.left_out
        return [n for n in there if n not in left_out and self.config.fields.differ(progress.fields, n)]

    def _waiting(self, progress: Progress) -> list[RequestProgress]:
        """Loads that were asked for and have not begun."""
        return [r for r in self.journal.waiting(progress) if r.origin is Origin.INITIAL]

    def _before(self, progress: Progress) -> Coverage:
        """The marks that hold when this start begins."""
        coverage = progress.coverage
        if coverage is None:
            loads = (r for r in progress.requests if r.origin is Origin.INITIAL)
            coverage = Coverage().settling(t.namespace for r in loads for t in r.tasks)
        asked = [t.namespace for r in self._waiting(progress) for t in r.tasks]
        return coverage.settling(asked).within(self.config.captures_data)

    def _again(self, progress: Progress) -> Coverage:
        """The marks in another run of this start: what the first one decided holds, though it may have saved nothing.
        Collections that were made meanwhile are no concern of a start."""
        before = self._before(progress)
        settled = self._decided.settled - before.unread  # a load that was stopped since left it so
        return before.settling(settled).leaving(self._decided.unread - before.settled)

    def _loading(self, progress: Progress) -> bool:
        """Whether an initial load, or a healing one, is under way. Before the first batch only a saved one counts: what
        an earlier life of the position left in the journal begins anew without reconcile, and that is not enough."""
        known = self.journal.existing(progress) if not progress.fresh else progress.requests
        return any(r.origin in (Origin.INITIAL, Origin.HEAL) and not r.ended for r in known)

    def _wanted(self, namespace: Namespace, unbelieved: bool, *, rewritten: bool) -> Wanted:
        """``unbelieved``: its table holds rows that the stream has not followed. ``rewritten``: they were written by
        other rules about fields. Every row is written anew then, or files with what is left out would stay in use."""
        query = self.config.initial_filter(namespace)
        return Wanted(namespace, query, reconcile=unbelieved, rewrite=rewritten)

    def _first_healed(self, names: Iterable[Namespace]) -> list[Namespace]:
        """In the order of ``engine.heal.first``, as far as it names them."""
        if (first := self.config.heal_first) is None:
            return list(names)
        entries = [first.only(entry) for entry in first.entries]

        def place(name: Namespace) -> int:
            return next((at for at, entry in enumerate(entries) if entry.admits(str(name))), len(entries))

        return sorted(names, key=place)

    def _id(self, progress: Progress, name: str) -> str:
        """An id that no request has, and no signal that is remembered."""
        known = {r.id for r in self.journal.existing(progress)}
        names = (name if n == 1 else f"{name}-{n}" for n in count(1))
        return next(name for name in names if name not in known and self.journal.digest_of(name) is None)


def fitting_checkpoint(store: ProgressStore, location: str) -> ProgressStore | None:
    """Where somebody has removed the checkpoint and left what was saved beside it: a store in the state of a first
    start, in force when this returns; None where the two fit. ``location`` is for the message."""
    batch = store.unknown_to_checkpoint()
    if batch is None:
        return None
    _log.warning(
        "progress was saved for a batch that the checkpoint does not know, so that was removed or replaced: a new "
        "position, from now on, and snapshot.mode says what is read",
        checkpoint=f"{location}/{store.generation.checkpoint}",
        batch=batch,
    )
    return store.next_generation(removed=True)


def named_position(store: ProgressStore, partition: str) -> ProgressStore | None:
    """Where ``offset.partition.name`` (``partition``) is another one than before: a store in the state of a first
    start, in force when this returns; None where the name is the same."""
    before = store.generation
    if partition == before.partition:
        return None
    began = store.newest() is not None
    if began:
        _log.warning(
            "offset.partition.name has changed: a new position, and snapshot.mode says what is read",
            before=before.partition,
            now=partition,
        )
    return store.renamed(partition, began=began)


def _held(ruled: Iterable[Namespace]) -> Iterator[str]:
    """What is still there of fields under other rules."""
    if names := sorted(map(str, ruled)):
        yield (
            f"the rules about fields are others than before for {listed(names)}: read again. Versions of the tables "
            "from before the end of that still hold what was there, until VACUUM has removed their files"
        )


def _advice(unread: frozenset[Namespace], missing: frozenset[Namespace]) -> Iterator[str]:
    """What to do about collections that were not read; those that are no more have rows."""
    if there := sorted(map(str, unread - missing)):
        names = " ".join(shlex.quote(spelled(name)) for name in there[:_SHOWN])
        more = f", and so {len(there) - _SHOWN} more" if len(there) > _SHOWN else ""
        yield (
            f"captured, but what was there before is not in the tables, or not as it is now: to read it, run "
            f"snapshotter execute-snapshot -c FILE --reconcile {names}{more} (or start with {OPTION}=read)"
        )
    if lost := sorted(map(str, unread & missing)):
        yield (
            f"tables with rows of collections that are no more: {listed(lost)}. Start with {OPTION}=read to empty them"
        )

"""What a start reads: which one has an initial load, under which id; what it finds that is captured since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.configuration.option_values import NewCollections
from snapshotter.configuration.snapshot_modes import MODES
from snapshotter.core.values.coverage import Coverage
from snapshotter.core.values.gaps import Cause, Gap
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import Origin, SnapshotRequest, Wanted
from snapshotter.core.values.suspension import Suspension
from snapshotter.core.values.tasks import TaskState
from snapshotter.core.values.watermark_ids import Strategy
from snapshotter.engine.first_load import FirstLoad
from snapshotter.state.generation import Generation
from snapshotter.state.journal import Journal
from snapshotter.state.storage import MemoryStorage
from streaming.fields.rules import FieldRules
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.scope.scope import CaptureScope, NameList

ORDERS, PEOPLE, GONE = (Namespace("shop", name) for name in ("orders", "people", "gone"))
ELSEWHERE = Namespace("elsewhere", "orders")
FIRST, SECOND = Generation(), Generation(2)


@dataclass
class FakeTables:
    """Of these collections there are tables; ``empty`` ones hold no row."""

    names: tuple[Namespace, ...] = ()
    empty: tuple[Namespace, ...] = ()

    def there(self) -> list[Namespace]:
        return list(self.names)

    def filled(self, namespaces: Iterable[Namespace]) -> frozenset[Namespace]:
        return frozenset(namespaces) - frozenset(self.empty)


@dataclass
class Start:
    """One start of an engine in some mode; ``options`` are fields of its configuration."""

    mode: str
    journal: Journal = field(default_factory=lambda: Journal(MemoryStorage()))
    there: tuple[Namespace, ...] = (ORDERS, PEOPLE)
    tables: FakeTables = field(default_factory=FakeTables)
    options: dict[str, Any] = field(default_factory=dict)
    skipped: int = 0
    coverage: Coverage = field(default_factory=Coverage)

    def __post_init__(self) -> None:
        named = {"scope": CaptureScope.parse({"database.include.list": "shop"}), **self.options}
        given = {"name": "e", "uri": "mongodb://x", "warehouse": "/w", "source_options": {}, **named}
        config = EngineConfig(strategy=Strategy.CLUSTER_TIME, policy=MODES[self.mode], **given)
        self.load = FirstLoad(config, self.journal, lambda: list(self.there), lambda: self.tables, self._skip)

    def _skip(self) -> None:
        self.skipped += 1

    def begins(self, progress: Progress, generation: Generation = FIRST) -> list[str]:
        return [request.id for request in self.asks(progress, generation)]

    def asks(self, progress: Progress, generation: Generation = FIRST) -> list[SnapshotRequest]:
        """The load of a run that begins from this state."""
        wanted, ahead = self.load.wanted(progress, generation), self.load.first(progress, generation)
        begun, loads = self.load.begin(progress, generation, self.load.look(progress))
        assert begun.coverage is not None
        assert bool(loads) <= wanted, "a start that reads says so before"
        assert {*ahead} <= {w.namespace for load in loads for w in load.wanted}, "only of what is read"
        assert not ahead or progress.fresh
        self.coverage = begun.coverage
        return loads

    def reads(self, progress: Progress, generation: Generation = FIRST) -> dict[Namespace, bool]:
        """The collections that are read, and whether with reconcile."""
        return {w.namespace: w.reconcile for load in self.asks(progress, generation) for w in load.wanted}


def state(batch: int, *loads: tuple[str, TaskState]) -> Progress:
    """Progress of a batch that knows these initial loads."""
    requests = tuple(
        RequestProgress.accepted(SnapshotRequest(name, (Wanted(ORDERS),), Origin.INITIAL))
        for name, _ in loads
    )
    ended = tuple(
        request.with_task(replace(request.tasks[0], state=how))
        for request, (_, how) in zip(requests, loads, strict=True)
    )
    return Progress(batch_id=batch, requests=ended)


def after_a_gap(*, heals: bool) -> Generation:
    return Generation(2, heals=heals, gap=Gap(2, ClusterTime(5, 1), Cause.HISTORY, "gone", heals, 7))


NOTHING = Progress()
DONE = state(7, ("initial", TaskState.DONE))
LOADING = state(7, ("initial", TaskState.RUNNING))


@pytest.mark.parametrize(
    ("mode", "first", "later"),
    [
        ("always", ["initial"], ["initial-2"]),
        ("initial", ["initial"], []),
        ("initial_only", ["initial"], []),
        ("no_data", [], []),
        ("when_needed", ["initial"], []),
    ],
)
def test_a_start_reads_as_its_mode_says(mode: str, first: list[str], later: list[str]) -> None:
    """The first one, and one that finds a position; where it reads nothing, that is said once."""
    start = Start(mode)
    assert start.begins(NOTHING) == first
    assert start.skipped == (not first)
    start = Start(mode)
    assert start.begins(DONE) == later
    assert start.skipped == (not later)


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_load_that_goes_on_is_enough(mode: str) -> None:
    """No second one beside it, and nothing is said to be skipped."""
    start = Start(mode)
    assert start.begins(LOADING) == []
    assert start.skipped == 0


def test_a_start_reads_once() -> None:
    """Whatever many runs it takes; before any batch has been saved it is asked for again in the same words."""
    start = Start("always")
    assert start.begins(DONE) == ["initial-2"]
    assert [r.id for r in start.journal.requests] == ["initial-2"]
    assert start.begins(DONE) == []
    start = Start("initial")
    assert start.begins(NOTHING) == start.begins(NOTHING) == ["initial"]
    assert start.journal.requests == ()


def test_tables_are_made_ahead_for_a_first_start_that_reads() -> None:
    """For its first collections, and for no other start."""
    assert Start("initial").load.first(NOTHING, FIRST) == [ORDERS, PEOPLE]
    assert Start("initial").load.first(DONE, FIRST) == []
    assert Start("no_data").load.first(NOTHING, FIRST) == []
    many = tuple(Namespace("shop", f"c{n}") for n in range(9))
    assert Start("initial", there=many).load.first(NOTHING, FIRST) == list(many[:4])


LOST = state(-1, ("initial", TaskState.DONE))


def test_a_lost_position_reads_everything_whatever_the_mode_says_of_a_start() -> None:
    """Also what has a table and is no more, and with reconcile: what was deleted meanwhile has no event. So it is under
    a filter (the documents of all rows are read then). Tables outside of the captured scope are somebody else's."""
    tables = FakeTables((ELSEWHERE, GONE, ORDERS, PEOPLE))
    start = Start("no_data", tables=tables, options={"initial_filters": {"shop.people": '{"a": 1}'}})
    (load,) = start.asks(LOST, SECOND)
    assert load.id == "heal"
    assert [(w.namespace, w.filter, w.reconcile) for w in load.wanted] == [
        (ORDERS, None, True),
        (PEOPLE, '{"a": 1}', True),
        (GONE, None, True),
    ]
    assert start.begins(DONE, SECOND) == [], "it has streamed since"


@pytest.mark.parametrize("before", [NOTHING, LOST], ids=["no state at all", "the checkpoint was removed"])
def test_a_first_load_into_a_table_with_rows_reconciles(before: Progress) -> None:
    """Rows of documents that were deleted while nobody looked go, and so do those of captured collections that are no
    more; what is empty is loaded as ever."""
    generation = Generation(2, removed=True) if before is LOST else FIRST
    tables = FakeTables((ELSEWHERE, GONE, ORDERS, PEOPLE), empty=(PEOPLE,))
    assert Start("initial", tables=tables).reads(before, generation) == {
        ORDERS: True,
        PEOPLE: False,
        GONE: True,
    }
    start = Start("no_data", tables=tables)
    assert start.reads(before, generation) == {}
    assert start.coverage == Coverage(frozenset({PEOPLE}), unread=frozenset({ORDERS, GONE}))


MARKED = replace(DONE, coverage=Coverage(frozenset({ORDERS})))


@pytest.mark.parametrize(
    ("mode", "new", "read"),
    [
        ("initial", "auto", {PEOPLE: False}),
        ("when_needed", "auto", {PEOPLE: False}),
        ("initial_only", "auto", {PEOPLE: False}),
        ("always", "auto", {ORDERS: False, PEOPLE: False}),
        ("no_data", "auto", {}),
        ("no_data", "read", {PEOPLE: False}),
        ("initial", "warn", {}),
    ],
)
def test_what_is_captured_since_is_read_as_at_a_first_start(
    mode: str, new: str, read: dict[Namespace, bool]
) -> None:
    """Or as `engine.snapshot.new.collections` says; what is not read is told at this start and at every later one."""
    options = {"new_collections": NewCollections(new)}
    start = Start(mode, options=options)
    assert start.reads(MARKED) == read
    assert start.coverage == Coverage(frozenset({ORDERS, *read}), frozenset({PEOPLE} - read.keys()))
    assert [r.id for r in start.journal.requests] == (["initial-2"] if read else [])
    if mode != "always":
        later = Start(mode, start.journal, options=options)
        assert later.reads(MARKED) == {}, "it is asked for already, though no batch has been saved since"
        assert later.coverage == start.coverage


def test_the_list_of_an_initial_load_holds_for_what_is_captured_since() -> None:
    """``snapshot.include.collection.list`` leaves it out."""
    only = NameList(("shop.orders",), excludes=False, mode="literal")
    start = Start("initial", options={"initial_collections": only})
    assert start.reads(MARKED) == {}
    assert start.coverage.unread == {PEOPLE}


def test_what_is_captured_again_is_read_with_reconcile() -> None:
    """Its mark ended with the start that did not capture it; whether it still exists or not."""
    elsewhere = {"scope": CaptureScope.parse({"collection.include.list": "shop.people"})}
    without = Start("initial", options=elsewhere, there=(PEOPLE,))
    assert without.reads(replace(MARKED, coverage=Coverage(frozenset({ORDERS, PEOPLE, GONE})))) == {}
    assert without.coverage == Coverage(frozenset({PEOPLE}))
    again = Start("initial", tables=FakeTables((ORDERS, PEOPLE, GONE)))
    assert again.reads(replace(DONE, coverage=without.coverage)) == {ORDERS: True, GONE: True}


def test_state_of_before_there_were_marks() -> None:
    """What an initial load had read counts as read; of the rest nobody knows, so it is told, and read only where that
    is asked for."""
    start = Start("initial")
    assert start.reads(DONE) == {}
    assert start.coverage == Coverage(frozenset({ORDERS}), frozenset({PEOPLE}))
    later = Start("initial")
    assert later.reads(replace(DONE, coverage=start.coverage)) == {}
    assert later.coverage == start.coverage
    asked = Start("initial", options={"new_collections": NewCollections.READ})
    assert asked.reads(replace(DONE, coverage=start.coverage)) == {PEOPLE: False}


def test_another_run_of_one_start_decides_nothing_anew() -> None:
    """What was made while the run before streamed is whole by its events; what that run has not saved still holds."""
    start = Start("initial", options={"new_collections": NewCollections.WARN})
    start.reads(MARKED)
    start.there = (ORDERS, PEOPLE, GONE)
    assert start.reads(MARKED) == {}
    assert start.coverage == Coverage(frozenset({ORDERS}), frozenset({PEOPLE}))
    saved = replace(MARKED, coverage=Coverage(frozenset({ORDERS, PEOPLE, GONE})))
    assert start.reads(saved) == {}
    assert start.coverage == saved.coverage, "what has been read since is not told again"


def test_what_to_do_about_unread_collections_can_be_pasted() -> None:
    """Names as a signal and a shell have them. No signal can name what is no more: its table is truncated by a
    start."""
    odd = Namespace("shop", "a+b")
    start = Start("no_data", there=(odd, ORDERS), tables=FakeTables((odd, ORDERS, GONE)))
    start.reads(NOTHING)
    unread, gone = start.load.warnings(replace(NOTHING, coverage=start.coverage))
    assert "--reconcile '\"shop.a+b\"' shop.orders (or" in unread
    assert "shop.gone. Start with engine.snapshot.new.collections=read" in gone
    later = Start(
        "no_data", there=start.there, tables=start.tables, options={"new_collections": NewCollections.READ}
    )
    assert later.reads(replace(MARKED, coverage=start.coverage)) == {odd: True, ORDERS: True, GONE: True}
    assert start.load.warnings(NOTHING) == ()


def test_an_initial_load_reads_what_its_filters_match() -> None:
    """Of the collections that are named; the others are read whole."""
    start = Start("initial", options={"initial_filters": {"shop.orders": '{"a": 1}'}})
    (load,) = start.asks(NOTHING)
    assert [(w.namespace, w.filter) for w in load.wanted] == [(ORDERS, '{"a": 1}'), (PEOPLE, None)]


def test_a_load_has_an_id_of_its_own() -> None:
    """Also where the request that had it ended long ago, and only its id is remembered."""
    start = Start("always")
    assert start.begins(DONE) == ["initial-2"]
    start.journal.forget(state(8, ("initial-2", TaskState.DONE)))
    again = Start("always", start.journal)
    assert again.begins(DONE) == ["initial-3"]


@pytest.mark.parametrize("mode", ["no_data", "initial", "when_needed"])
def test_a_gap_is_healed_whatever_the_mode_reads(mode: str) -> None:
    """Every captured collection, also those that an initial load leaves out, and those that are no more and have rows:
    with reconcile where there are rows. As a request of its own kind, and a later start reads nothing besides."""
    start = Start(mode, tables=FakeTables((ORDERS, GONE)))
    start.load.config = replace(
        start.load.config, initial_collections=NameList(("shop.people",), excludes=False, mode="literal")
    )
    (load,) = start.asks(NOTHING, after_a_gap(heals=True))
    assert (load.id, load.origin) == ("heal", Origin.HEAL)
    assert {w.namespace: w.reconcile for w in load.wanted} == {ORDERS: True, PEOPLE: False, GONE: True}
    assert start.coverage == Coverage(frozenset({ORDERS, PEOPLE, GONE}))


@pytest.mark.parametrize(
    ("mode", "entries", "order"),
    [
        ("literal", ("shop.people", "shop.orders"), [PEOPLE, ORDERS, GONE]),
        ("literal", ("shop.people",), [PEOPLE, ORDERS, GONE]),
        ("regex", (".*gone", "shop.*"), [GONE, ORDERS, PEOPLE]),
    ],
)
def test_a_heal_takes_first_what_matters_most(
    mode: str, entries: tuple[str, ...], order: list[Namespace]
) -> None:
    """In the order of the entries, and within one as it would be anyway; another load is not concerned."""
    first = NameList(entries, excludes=False, mode=mode)
    start = Start("initial", tables=FakeTables((ORDERS, GONE)), options={"heal_first": first})
    (load,) = start.asks(NOTHING, after_a_gap(heals=True))
    assert [wanted.namespace for wanted in load.wanted] == order
    plain = Start("initial", options={"heal_first": NameList(("shop.people",), excludes=False, mode=mode)})
    (load,) = plain.asks(NOTHING)
    assert [wanted.namespace for wanted in load.wanted] == [ORDERS, PEOPLE]


def test_behind_a_gap_only_what_was_being_loaded_is_read() -> None:
    """A collection without a mark, whose initial load had not ended. All else is unread, and said to be."""
    start = Start("initial", tables=FakeTables((ORDERS, PEOPLE)))
    begun = Progress(coverage=Coverage(unread=frozenset({PEOPLE})))
    (load,) = start.asks(begun, after_a_gap(heals=False))
    assert (load.id, load.origin) == ("initial", Origin.INITIAL)
    assert {w.namespace: w.reconcile for w in load.wanted} == {ORDERS: True}
    assert start.coverage == Coverage(frozenset({ORDERS}), frozenset({PEOPLE}))
    (advice,) = start.load.warnings(Progress(coverage=start.coverage))
    assert "--reconcile shop.people" in advice
    start = Start("no_data", tables=FakeTables((ORDERS, PEOPLE)))
    assert start.asks(begun, after_a_gap(heals=False)) == []


def test_other_rules_about_fields_read_a_table_again() -> None:
    """In every mode, with reconcile, and only tables that have rows; once, however many runs or restarts it takes; and
    what is suspended is left to whoever restores it."""
    rules = FieldRules.parse({"field.exclude.list": "shop.orders.mail"})
    there = FakeTables((ORDERS, PEOPLE))
    settled = replace(DONE, coverage=Coverage(frozenset((ORDERS, PEOPLE))))
    for mode in ("initial", "no_data", "when_needed", "initial_only"):
        start = Start(mode, tables=there, options={"fields": rules})
        assert start.reads(settled) == {ORDERS: True}
        assert start.reads(settled) == {}, "another run of this start"
        assert any("until VACUUM" in said for said in start.load.warnings(settled))
        again = Start(mode, journal=start.journal, tables=there, options={"fields": rules})
        assert again.reads(settled) == {}, "a start after a crash: it is asked for already"
    by_now = replace(settled, fields=rules.to_text())
    assert Start("initial", tables=there, options={"fields": rules}).reads(by_now) == {}
    assert Start("initial", tables=there).reads(by_now) == {ORDERS: True}
    empty = FakeTables((ORDERS, PEOPLE), (ORDERS,))
    assert Start("initial", tables=empty, options={"fields": rules}).reads(settled) == {}
    (load,) = Start("no_data", tables=there, options={"fields": rules}).asks(settled)
    assert [w.rewrite for w in load.wanted] == [True], "or files that hold what is left out would stay in use"
    suspended = settled.suspending(ORDERS, Suspension("altered", "why", "how", ClusterTime(1, 1)))
    assert Start("initial", tables=there, options={"fields": rules}).reads(suspended) == {}


def test_a_load_that_is_stopped_stays_unread_in_the_next_run() -> None:
    """What the first run of a start decided is of no weight against what has been saved since."""
    start = Start("initial", tables=FakeTables((ORDERS, PEOPLE)))
    (load,) = start.asks(NOTHING)
    assert start.coverage == Coverage(frozenset((ORDERS, PEOPLE)))
    stopped = RequestProgress.accepted(load)
    stopped = stopped.with_task(stopped.tasks[0].stopped())
    since = Progress(
        batch_id=3, requests=(stopped,), coverage=Coverage(frozenset((PEOPLE,)), frozenset((ORDERS,)))
    )
    assert start.asks(since) == []
    assert start.coverage == since.coverage


def test_what_a_state_says_of_fields_is_of_this_start() -> None:
    """From the first batch on, so that the next start compares with it."""
    rules = FieldRules.parse({"field.exclude.list": "shop.orders.mail"})
    for progress in (NOTHING, DONE):
        start = Start("initial", options={"fields": rules})
        for _ in range(2):
            begun, _ = start.load.begin(progress, FIRST, start.load.look(progress))
            assert begun.fields == rules.to_text()

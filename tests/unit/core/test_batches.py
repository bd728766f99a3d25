"""`core.rules.batches`: what a micro-batch shows, closes, and need not land."""

from __future__ import annotations

from dataclasses import replace

from snapshotter.core.rules import batches
from snapshotter.core.rules.scan import Scan
from snapshotter.core.values.chunks import Bound, KeyList, KeyRange
from snapshotter.core.values.effects import Unreached
from snapshotter.core.values.limits import Limits
from snapshotter.core.values.tasks import TaskProgress, TaskState
from snapshotter.core.values.tries import FIRST
from snapshotter.core.values.window import Edge, WatermarkObservation, Window, WindowId, WindowState
from streaming.namespaces import Namespace

from .some import ITEMS, ORDERS, arrived, at, bound, chunk, ids, window


def done(
    number: int, target: KeyRange | KeyList | None = None, *, high: int = 14, rows: int = 2, **fields: object
) -> Window:
    """A window whose watermarks have been seen, the high one at ``high``."""
    return window(
        number,
        target,
        state=WindowState.CLOSING,
        low_acknowledged=at(11),
        low_seen=at(11),
        ended=at(12),
        high_acknowledged=at(high),
        high_seen=at(high),
        rows=rows,
        **fields,
    )


def by_id(*windows: Window) -> dict[WindowId, Window]:
    return {w.id: w for w in windows}


def scans(next_close: int = 0, namespace: Namespace = ORDERS) -> dict[tuple[str, Namespace], Scan]:
    return {("q1", namespace): Scan(None, bound("k9"), 2, next_close=next_close)}


def closable(*windows: Window, next_close: int = 0, end: int = 20, rows: int = 99) -> list[int]:
    limits = Limits(commit_rows_target=rows)
    return [w.id.number for w in batches.closable(by_id(*windows), scans(next_close), at(end), limits)]


def test_observations_go_to_their_windows() -> None:
    """Those of other runs, and of windows given up, are passed over."""
    seen, failed = batches.observe(
        by_id(window(1)),
        [
            WatermarkObservation(WindowId("old", 1), Edge.LOW, at(11)),
            WatermarkObservation(WindowId("a", 1), Edge.LOW, at(12)),
            WatermarkObservation(WindowId("a", 7), Edge.HIGH, at(12)),
        ],
        at(13),
    )
    assert seen[WindowId("a", 1)].low_seen == at(12)
    assert failed == []


def test_a_window_that_a_batch_proves_useless_fails_once() -> None:
    """With the first reason; a hidden watermark is definite, anything else is worth another attempt."""
    lost = [WatermarkObservation(WindowId("a", 1), edge, at(12)) for edge in (Edge.LOST, Edge.LOST)]
    windows = by_id(window(1), window(2, state=WindowState.OPEN, low_acknowledged=at(12)))
    _, failed = batches.observe(windows, lost, at(13))
    assert [(f.window.id.number, f.definite) for f in failed] == [(1, False), (2, True)]
    early = done(3, high=11)
    _, failed = batches.observe(by_id(early), [], at(13))
    assert [(f.window, f.definite) for f in failed] == [(early, False)]


def test_with_cluster_time_nothing_is_hidden() -> None:
    """No watermark travels, so none can be missing."""
    silent = window(1, in_stream=False, state=WindowState.OPEN, low_acknowledged=at(12), low_seen=at(12))
    assert batches.observe(by_id(silent), [], at(99))[1] == []


def test_chunks_close_in_an_unbroken_run() -> None:
    """From the next one to land; one that is not done holds up those behind it."""
    one, two, three = done(1), done(2, chunk("k2", "k4")), done(3, chunk("k4", "k6"))
    assert closable(three, two, one) == [1, 2, 3]
    assert closable(one, three) == [1]
    assert closable(two, three) == []
    assert closable(two, three, next_close=1) == [2, 3]
    assert closable(one, replace(two, high_seen=at(21)), three) == [1]


def test_a_commit_takes_as_many_rows_as_it_should_but_at_least_one_chunk() -> None:
    """Sizes of chunk and commit are apart."""
    one, two, three = done(1), done(2, chunk("k2", "k4")), done(3, chunk("k4", "k6"))
    assert closable(one, two, three, rows=4) == [1, 2]
    assert closable(one, two, three, rows=1) == [1]


def test_single_ids_close_by_themselves() -> None:
    """They are in no scan, and share no id with a range in flight."""
    assert closable(done(1, ids("k7"), request_id=None, order=0)) == [1]


def test_a_recorded_table_takes_no_more_rows_in_that_batch() -> None:
    """Its commit would be skipped without a word, and the READs be lost (rule 9)."""
    mine, other = done(1), done(2, ids("k7"), request_id=None, namespace=ITEMS)
    batch = arrived(5, 20, recorded=frozenset({ORDERS}))
    landing = batches.plan_landing(batch, by_id(mine, other), [mine, other], {}, [], {}, {})
    assert [c.window for c in landing.closings] == [other]
    assert landing.keep == {ORDERS, ITEMS}


def test_what_is_proven_new() -> None:
    """A chunk of a first load at its first attempt, beyond what an earlier run had landed; nothing else."""

    def proven(it: Window, *, loading: bool = True, upto: str | None = None) -> bool:
        landed_upto = {ORDERS: upto} if upto else {}
        first = [ORDERS] if loading else []
        return (
            batches.plan_landing(arrived(5, 20), by_id(it), [it], {}, first, landed_upto, {})
            .closings[0]
            .proven_new
        )

    later = done(1, chunk("k4", "k6"))
    assert proven(later)
    assert not proven(later, loading=False)
    assert not proven(replace(later, tries=FIRST.again()))
    assert not proven(done(1, ids("k4")))
    assert [proven(later, upto=key) for key in ("k3", "k4", "k5")] == [True, True, False]
    assert not proven(done(1, chunk(None, "k2")), upto="k1")


def test_what_is_unreached() -> None:
    """The ids of a first load beyond its windows, and beyond what an earlier run had landed."""

    def after(reached: str | None, landed: str | None = None, **fields: object) -> Unreached | None:
        task = TaskProgress(ORDERS, state=TaskState.RUNNING, last=bound("k6"), first_load=True)
        task = replace(task, **fields)  # type: ignore[arg-type]
        ends: dict[Namespace, Bound | None] = {ORDERS: bound(reached) if reached else None}
        return batches.unreached([task], ends, {ORDERS: landed} if landed else {}).get(ORDERS)

    assert after(None) == Unreached(None, "k6")
    assert after("k2") == Unreached("k2", "k6")
    assert after("k2", "k4") == Unreached("k4", "k6")
    assert after("k4", "k2") == Unreached("k4", "k6")
    assert after(None, "k2") == Unreached("k2", "k6")
    assert after("k6") is None
    assert after("k2", first_load=False) is None


def test_a_landing_only_shrinks() -> None:
    """Without the lost windows and those behind them in their scan; those before, and single ids, still close."""
    one, two, three = done(1), done(2, chunk("k2", "k4")), done(3, chunk("k4", "k6"))
    single = done(4, ids("k7"), request_id=None, order=0)
    landing = batches.plan_landing(arrived(5, 20), by_id(one, two), [one, two, three, single], {}, [], {}, {})
    rest = batches.without(landing, frozenset({two.id}))
    assert [c.window.id.number for c in rest.closings] == [1, 4]
    assert replace(rest, closings=landing.closings) == landing
    assert [c.window.id.number for c in batches.without(landing, frozenset({single.id})).closings] == [
        1,
        2,
        3,
    ]


def test_ids_that_a_window_will_read_anyway_are_not_read_by_themselves() -> None:
    """Those in the unreached range."""
    bounds = tuple(map(bound, ("k1", "k2", "k3", "k7")))
    assert batches.reached_only(bounds, None) == bounds
    assert batches.reached_only(bounds, Unreached("k1", "k3")) == (bound("k1"), bound("k7"))
    assert batches.reached_only(bounds, Unreached(None, "k3")) == (bound("k7"),)

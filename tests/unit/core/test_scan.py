"""`core.rules.scan`: chunks join without a gap, up to the end of the scan, and close in order."""

from __future__ import annotations

import pytest

from snapshotter.core.rules.scan import Planned, Scan
from snapshotter.core.values.chunks import KeyRange, end_of
from snapshotter.core.values.outcome import Outcome
from snapshotter.core.values.requests import Wanted
from snapshotter.core.values.tasks import TaskProgress
from snapshotter.core.values.tries import FIRST

from .some import ORDERS, bound, chunk, ids

FAILED = FIRST.failing()


def scan(tail: str | None = None, last: str = "k9", *, ordered: bool = True) -> Scan:
    """A scan that has asked for chunks."""
    made = Scan(bound(tail) if tail else None, bound(last), docs=2, ordered_keys=ordered)
    made.planning = True
    return made


def plan(into: Scan, *ends: str, exhausted: bool = False) -> None:
    into.plan(tuple(map(bound, ends)), exhausted=exhausted)


def test_chunks_join_without_a_gap() -> None:
    """Each begins where the one before ends, over several plans."""
    it = scan()
    plan(it, "k2", "k4")
    it.planning = True
    plan(it, "k6")
    assert list(it.ready) == [
        Planned(0, chunk(None, "k2")),
        Planned(1, chunk("k2", "k4")),
        Planned(2, chunk("k4", "k6")),
    ]
    assert not it.exhausted


@pytest.mark.parametrize(
    ("ends", "planned"),
    [
        (["k2", "k9"], ["k2", "k9"]),
        (["k2", "k8"], ["k2", "k9"]),
        ([], ["k9"]),
    ],
)
def test_the_last_chunk_ends_at_the_end_of_the_scan(ends: list[str], planned: list[str]) -> None:
    """Also when the document there is gone: an id may come back in between, and must lie in some window."""
    it = scan()
    plan(it, *ends, exhausted=True)
    assert [end_of(p.target) for p in it.ready] == list(map(bound, planned))
    assert it.exhausted


def test_a_plan_that_reaches_the_end_needs_no_other() -> None:
    """Even if the planner cannot know that nothing is left."""
    it = scan()
    plan(it, "k9")
    assert it.exhausted


def test_a_scan_that_starts_at_its_end_is_complete() -> None:
    """After a restart, when the last chunk had landed, but the task had not been ended."""
    it = Scan(bound("k9"), bound("k9"), docs=2)
    assert it.exhausted
    assert it.complete


@pytest.mark.parametrize("ends", [["k4", "k2"], ["k2", "k2"], ["ka"], ["k1"]])
def test_ends_that_do_not_rise_are_refused(ends: list[str]) -> None:
    """And change nothing."""
    it = scan(tail="k1")
    with pytest.raises(ValueError, match=r"do not rise|empty range"):
        plan(it, *ends)
    assert (it.tail, it.next_order, it.planning, list(it.ready)) == (bound("k1"), 0, True, [])


def test_under_a_collation_the_order_of_keys_says_nothing() -> None:
    """Ids come in the collection's order, whatever their keys."""
    it = scan(last="k1", ordered=False)
    plan(it, "k7", "k3", "k1")
    assert [str((end_of(p.target) or bound("?")).key) for p in it.ready] == ["k7", "k3", "k1"]


def test_an_answer_that_nobody_asked_for_is_refused() -> None:
    """As is one that leads nowhere: the machine would ask for ever."""
    it = scan()
    with pytest.raises(ValueError, match="though documents are left"):
        plan(it)
    plan(it, "k2")
    with pytest.raises(ValueError, match="none were asked for"):
        plan(it, "k4")


def test_failed_chunks_come_first_in_order() -> None:
    """The frontier waits for the earliest; reached does not go back."""
    it = scan()
    plan(it, "k2", "k4", "k6")
    one, two = it.take(), it.take()
    assert one is not None
    assert two is not None
    it.retry(Planned(two.order, two.target, FAILED))
    it.retry(Planned(one.order, one.target, FAILED))
    assert it.reached == bound("k4")
    assert [p and (p.order, p.tries) for p in (it.take(), it.take(), it.take(), it.take())] == [
        (0, FAILED), (1, FAILED), (2, FIRST), None,
    ]  # fmt: skip


def test_while_draining_only_what_was_begun_is_taken() -> None:
    """Chunks that never had a window stay where they are."""
    it = scan()
    plan(it, "k2", "k4")
    first = it.take()
    assert first is not None
    it.retry(first)
    assert it.take(begun_only=True) == first
    assert it.take(begun_only=True) is None


def test_complete_once_every_chunk_has_landed() -> None:
    """Not while a plan is awaited, not while one is in flight."""
    it = scan(last="k2")
    assert not it.complete
    plan(it, "k2")
    assert not it.complete
    it.next_close = 1
    assert it.complete


def test_single_ids_are_chunks_without_a_plan() -> None:
    """So many at a time, from behind the frontier on; the last of them ends the scan."""
    task = TaskProgress.of(Wanted(ORDERS, keys=tuple(map(bound, ("k1", "k3", "k5", "k7")))))
    task = task.opened(None, None, ordered_keys=True).begun(table_empty=False)
    it = Scan.of(task, 9, 3)
    assert [p.target for p in it.ready] == [ids("k1", "k3", "k5"), ids("k7")]
    assert (it.exhausted, it.complete) == (True, False)
    it.next_close = 2
    assert it.complete
    later = Scan.of(task.advanced(bound("k3"), Outcome(1, 1)), 9, 3)
    assert [p.target for p in later.ready] == [ids("k5", "k7")]


def test_a_range_begins_with_its_lower_end() -> None:
    """The first chunk holds it; those behind begin after an end, as ever, and so does the first one after a restart."""
    wanted = Wanted(ORDERS, range=KeyRange(bound("k2"), bound("k6"), closed=True))
    task = TaskProgress.of(wanted).opened(bound("k6"), None, ordered_keys=True).begun(table_empty=False)
    it = Scan.of(task, 2, 9)
    it.planning = True
    plan(it, "k2", "k4", exhausted=True)
    assert [p.target for p in it.ready] == [
        KeyRange(bound("k2"), bound("k2"), closed=True),
        chunk("k2", "k6"),
    ]
    again = Scan.of(task.advanced(bound("k2"), Outcome(1, 0)), 2, 9)
    assert (again.tail, again.closed) == (bound("k2"), False)
    one = Scan.of(
        TaskProgress.of(Wanted(ORDERS, range=KeyRange(bound("k6"), None, closed=True))).opened(
            bound("k6"), None, ordered_keys=True
        ),
        2,
        9,
    )
    assert not one.exhausted
    one.planning = True
    plan(one, exhausted=True)
    assert (one.complete, len(one.ready)) == (False, 1)

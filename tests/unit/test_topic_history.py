"""The oracle of topics notices what it is there for."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from streaming.positions import ClusterTime
from tests.support.history import Change
from tests.support.topic_history import Raw, judge_topic

LOADED = ClusterTime(10, 0)


def record(op: str, k: int, v: int | None, at: int = 0) -> Raw:
    after = None if v is None else json.dumps({"_id": k, "k": k, "v": v})
    value = {"op": op, "after": after, "source": {"ts_ms": at}}
    return json.dumps({"id": str(k)}).encode(), json.dumps(value).encode()


def tombstone(k: int) -> Raw:
    return json.dumps({"id": str(k)}).encode(), None


def change(time: int, k: int, v: int | None) -> Change:
    return Change(ClusterTime(time, 0), k, v, None)


CHANGES = [change(5, 1, 2), change(11, 1, 3), change(12, 2, None), change(13, 2, 2), change(14, 1, None)]
TOLD = [
    record("r", 1, 2),
    record("r", 2, 1),
    record("u", 1, 3),
    record("d", 2, None),
    tombstone(2),
    record("c", 2, 2),
    record("d", 1, None),
    tombstone(1),
    record("r", 2, 2, at=9),
]


def judged(told: list[Raw]) -> int:
    return judge_topic(told, CHANGES, {2: 2}, LOADED)


def test_a_sound_topic_passes() -> None:
    """Also one in which stretches come again, the last of them up to the end; the first change was read."""
    assert judged(TOLD) == 3
    assert judged(TOLD[:6] + TOLD[3:6] + TOLD[2:] + TOLD[5:]) == 3


def test_what_was_deleted_before_it_was_read_is_only_deleted() -> None:
    """Nobody tells its number. One that nobody has deleted is no such document."""
    changes = [change(6, 3, None), *CHANGES]
    told = [TOLD[0], record("d", 3, None), tombstone(3), *TOLD[1:]]
    assert judge_topic(told, changes, {2: 2}, LOADED) == 3
    with pytest.raises(AssertionError, match="before they were read"):
        judged(told)


@pytest.mark.parametrize(
    ("planted", "message"),
    [
        (lambda told: told[:2] + told[3:], "told are"),
        (lambda told: told[:5] + told[6:], "told are"),
        (lambda told: [*told[:3], told[5], told[3], told[4], *told[6:]], "told are|assert"),
        (lambda told: [*told[:3], record("r", 1, 2, at=3), *told[3:]], "goes back"),
        (lambda told: [*told, record("u", 2, 2, at=99)], "told are"),
        (lambda told: told[:6] + told[2:4] + told[6:], "breaks off"),
        (lambda told: told[:6] + told[2:4], "breaks off"),
        (lambda told: told[:6] + told[2:3] + told[5:], "left behind"),
        (lambda told: told[:6] + told[8:], "told are"),
        (lambda told: [*told[:3], tombstone(2), *told[3:]], "a tombstone"),
    ],
    ids=[
        "an update is missing",
        "an insert is missing",
        "two are changed round",
        "a READ is stale",
        "an event is told twice",
        "a stretch breaks off",
        "a stretch breaks off at the end",
        "a stretch has a hole",
        "a delete is missing",
        "a tombstone is too early",
    ],
)
def test_what_is_wrong_is_noticed(planted: Callable[[list[Raw]], list[Raw]], message: str) -> None:
    """Each planted mistake fails, by what it is."""
    with pytest.raises(AssertionError, match=message):
        judged(planted(TOLD))

"""`engine.source_head`: how far what has landed is behind."""

from __future__ import annotations

import random

from snapshotter.engine.source_head import SourceHead
from streaming.positions import ClusterTime


class Watched:
    """A source that is looked at, second by second."""

    def __init__(self) -> None:
        self.now = 0.0
        self.head = SourceHead(lambda: self.now)

    def look(self, now: float, t: int, i: int = 1) -> None:
        self.now = now
        self.head.look(ClusterTime(t, i))


def test_what_comes_after_a_pause_is_not_late_by_the_pause() -> None:
    """All had landed a second ago, so nothing can be later than that, whatever cluster times say."""
    source = Watched()
    for second in range(9):
        source.look(second, 100)
    assert source.head.behind(ClusterTime(100, 1)) == 0
    source.look(9, 109)
    assert source.head.behind(ClusterTime(100, 1)) == 1.0
    source.look(11, 111)
    assert source.head.behind(ClusterTime(100, 1)) == 3.0
    assert source.head.behind(ClusterTime(111, 1)) == 0


def test_a_backlog_is_told_by_cluster_times() -> None:
    """Of a position that was behind from the first look on nothing better is known."""
    source = Watched()
    for second in range(20):
        source.look(second, 5_000 + second)
        assert source.head.behind(ClusterTime(100, 1)) == 4_900 + second
    assert source.head.behind(ClusterTime(5_010, 1)) == 9


def test_it_is_never_less_than_what_is_late() -> None:
    """Nor more than cluster times say: by a source that does what it likes, on a machine whose clock is its own."""
    rng = random.Random(5)
    source, t, i, position = Watched(), 1_000, 1, ClusterTime(1_000, 1)
    came: list[tuple[float, ClusterTime]] = [(0.0, position)]
    source.look(0, t, i)
    for _ in range(2_000):
        now = source.now + rng.random()
        t, i = (max(t + 1, 1_000 + int(now)), 1) if rng.random() < 0.3 else (t, i + 1)
        source.look(now, t, i)
        came.append((now, ClusterTime(t, i)))
        if rng.random() < 0.3:
            position = max(position, rng.choice(came[-10:])[1])
        late = [now - at for at, head in came if head > position]
        behind = source.head.behind(position)
        assert min(max(late, default=0.0), t - position.t) - 0.1 <= behind <= max(0, t - position.t)


def test_it_takes_bounded_room() -> None:
    """However long nothing lands."""
    source = Watched()
    for second in range(10_000):
        source.look(second, second + 1)
    assert len(source.head._looks) < 5_000
    assert source.head.behind(ClusterTime(1, 1)) == 9_999

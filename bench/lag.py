"""How old what a reader sees is, seen from outside: changes, and the commits of a table that have them.

A change counts from the moment when its writer has MongoDB's answer (`w: 1`) until the file of a commit lies in the
table's log whose position is the change's cluster time or later. What a reader takes to load that version is its own.
"""

import json
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from deltalake import DeltaTable
from pymongo import MongoClient, UpdateOne

from bench.orders import order_id
from snapshotter.testing.processes import meanwhile, wait_until

SEED = 1
_LOOKS_S = 0.01
_BULKS_A_SECOND = 100
_PATIENCE_S = 900.0
Time = tuple[int, int]
"""A cluster time: seconds and increment."""
Written = tuple[float, Time, int]
"""When a bulk of changes was answered, its cluster time, and how many there were."""


@dataclass(slots=True)
class Log:
    """A table's log, looked at from outside: when which position could be seen, and what its files have."""

    folder: Path
    seen: list[tuple[float, Time, int]] = field(default_factory=list)
    _known: set[Path] = field(default_factory=set)

    def look(self) -> None:
        """Take in what is new. Commits without a position (a table's making, say) are nobody's landing."""
        now = time.perf_counter()
        if not self.folder.exists():
            return
        for path in sorted({*self.folder.glob("[0-9]*.json")} - self._known):
            self._known.add(path)
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            said = json.loads(
                next((c["commitInfo"].get("userMetadata", "{}") for c in lines if "commitInfo" in c), "{}")
            )
            if "landing" in said:
                position = said["metadata"]["position"]
                size = sum(line["add"]["size"] for line in lines if "add" in line)
                self.seen.append((now, (position["t"], position["i"]), size))

    def reached(self) -> Time:
        """The newest position that could be seen."""
        return self.seen[-1][1] if self.seen else (0, 0)

    def loaded(self, documents: int) -> bool:
        """Whether the table has had so many rows added: until then positions pass changes of what a load has yet to
        read."""
        self.look()
        if not self.seen:
            return False
        files = DeltaTable(str(self.folder.parent)).get_add_actions(flatten=True)
        rows: int = sum(files.column("num_records").to_pylist())
        return rows >= documents

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Looked at all the while."""
        with meanwhile(self.look, every=_LOOKS_S):
            yield

    def await_last(self, written: list[Written]) -> None:
        """Until the last of these changes can be seen, while the log is watched."""
        wait_until(
            lambda: self.reached() >= written[-1][1], "the last change to be seen", seconds=_PATIENCE_S
        )

    def figures(self, written: Iterable[Written], begun: float, ended: float) -> dict[str, Any]:
        """Percentiles of the lag, in seconds, of changes that were written in this time, and its commits."""
        positions = [position for _, position, _ in self.seen]
        lags = sorted(
            lag
            for at, clock, count in written
            if begun <= at <= ended
            for lag in [self.seen[bisect_left(positions, clock)][0] - at] * count
        )
        commits = [size for at, _, size in self.seen if begun <= at <= ended]
        return {
            **percentiles(lags),
            "changes": len(lags),
            "commits": len(commits),
            "mb_added": round(sum(commits) / 1e6, 2),
        }


def percentiles(seconds: Iterable[float]) -> dict[str, float]:
    found = sorted(seconds)
    at = {f"p{p}": found[min(len(found) - 1, len(found) * p // 100)] for p in (50, 90, 99)}
    return {name: round(value, 2) for name, value in {**at, "max": found[-1]}.items()}


def changes(
    uri: str, db: str, coll: str, documents: int, rate: float, seconds: float | None = None
) -> Iterator[Written]:
    """Update orders at ``rate`` a second, for so many ``seconds`` or as long as somebody asks for more."""
    random, begun = Random(f"{SEED}:{rate}"), time.perf_counter()
    bulk = max(1, round(rate / _BULKS_A_SECOND))
    with MongoClient[dict[str, Any]](uri) as client, client.start_session() as session:
        turn = 0
        while seconds is None or turn < int(rate * seconds / bulk):
            time.sleep(max(0.0, begun + turn * bulk / rate - time.perf_counter()))
            numbers = [random.randrange(documents) for _ in range(bulk)]
            client[db][coll].bulk_write([_touch(random, number) for number in numbers], session=session)
            clock = session.operation_time
            assert clock is not None
            yield time.perf_counter(), (clock.time, clock.inc), bulk
            turn += 1


def _touch(random: Random, number: int) -> UpdateOne:
    """An update of an order that always changes it."""
    return UpdateOne(
        {"_id": order_id(SEED, number, "objectid")}, {"$set": {"touched": random.getrandbits(48)}}
    )

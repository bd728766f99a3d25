"""How fast an engine can be on a cluster, computed from what its parts take: nothing of it is measured.

    python -m bench.sizing                   # the tables of docs/sizing.md
    python -m bench.sizing --workers 16 --cores 4 --threads 48 --mongod-cores 16

A backfill is a pipeline: chunks are read by executors while what was read before lands, so the slowest part bounds it.
A batch of the stream goes through its phases one after the other, so their seconds add up; the server and the driver
bound that as well. The parts are those of `MEASURED`, for orders of 312 bytes; what is linear in documents is taken to
stay so, and a machine's cores to be worth those of the one that it was measured on.

Pure but for `main`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace

MILLION = 1_000_000
WORKERS = 1, 10, 100
CHUNK_DOCUMENTS = (16 << 20) // 312
"""Of one chunk, by `engine.chunk.target.bytes`, where documents have the size of those that were measured."""
READS_BESIDE = 600_000
"""In flight while changes stream (`snapshotter.core.values.limits`)."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Core-seconds that a million documents read, or changes streamed, take of each; and seconds. ``cycle_seconds``: a
    batch of the stream, and so a commit, however little is in it. ``landing_million``: what a million READs in files
    add to one. ``cursor_million``: in which one change stream brings a million changes, looked up and decoded; the
    executors land them then (``change_executors``)."""

    read_mongod: float
    read_executors: float
    read_driver: float
    landing_million: float
    change_mongod: float
    change_executors: float
    change_driver: float
    cursor_million: float
    cycle_seconds: float


MEASURED = Parts(
    read_mongod=2.5,
    read_executors=7.9,
    read_driver=8,
    landing_million=1.4,
    change_mongod=27,
    change_executors=15,
    change_driver=9,
    cursor_million=28,
    cycle_seconds=0.6,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A cluster, and the options that bound what an engine does with it. ``cores``: of each of the ``workers``.
    ``threads``: chunks read at a time (`snapshot.max.threads`). ``windows``: that may be in flight, by
    `engine.windows.in.flight` and the bytes that may be held (`engine.batch.max.bytes`). ``commit_rows``: READs in a
    commit, ``batch_events``: changes in a batch, ``stream_readers``: change streams that read a large one side by
    side."""

    workers: int
    cores: int = 1
    driver_cores: int = 4
    mongod_cores: int = 8
    threads: int = 2
    windows: int = 6
    commit_rows: int = 600_000
    batch_events: int = 200_000
    stream_readers: int = 4

    @property
    def all_cores(self) -> int:
        """Of the executors."""
        return self.workers * self.cores

    def opened(self) -> Shape:
        """With the options set so that all cores of its executors may read chunks."""
        return replace(self, threads=self.all_cores, windows=max(self.windows, 2 * self.all_cores))

    def beside_changes(self) -> Shape:
        """While changes stream no option lets more READs be in flight than `READS_BESIDE`."""
        return replace(self, windows=max(1, READS_BESIDE // CHUNK_DOCUMENTS))


def backfill(parts: Parts, shape: Shape) -> dict[str, float]:
    """Documents a second that each part would allow by itself."""
    reading = min(shape.all_cores, shape.threads, shape.windows)
    rows = min(shape.commit_rows, shape.windows * CHUNK_DOCUMENTS)
    landing = parts.cycle_seconds + parts.landing_million * rows / MILLION
    return {
        "mongod": MILLION * shape.mongod_cores / parts.read_mongod,
        "executors": MILLION * shape.all_cores / parts.read_executors,
        "chunks at a time": MILLION * reading / parts.read_executors,
        "driver, processors": MILLION * shape.driver_cores / parts.read_driver,
        "driver, commits": rows / landing,
    }


def batch(parts: Parts, shape: Shape) -> dict[str, float]:
    """Seconds of a full batch of the stream, by phase."""
    events = shape.batch_events / MILLION
    cursors = min(shape.stream_readers, shape.all_cores)
    return {
        "fixed": parts.cycle_seconds,
        "cursors": events * parts.cursor_million / cursors,
        "executors": events * parts.change_executors / shape.all_cores,
    }


def stream(parts: Parts, shape: Shape) -> dict[str, float]:
    """Changes a second that each part would allow by itself; the phases of a batch are one, named by the longest."""
    phases = batch(parts, shape)
    longest = max(phases, key=lambda phase: phases[phase])
    return {
        "mongod": MILLION * shape.mongod_cores / parts.change_mongod,
        "driver, processors": MILLION * shape.driver_cores / parts.change_driver,
        f"batch, {longest}": shape.batch_events / sum(phases.values()),
    }


def bound(rates: Mapping[str, float]) -> tuple[str, float]:
    """The part that allows the least, and how much."""
    return min(rates.items(), key=lambda item: item[1])


def tables(parts: Parts) -> str:
    """The ceilings of some clusters, as the page shows them."""
    shapes = [Shape(workers) for workers in WORKERS]
    opened = [shape.opened() for shape in shapes]
    beside = [shape.beside_changes() for shape in opened]
    kinds = ("by default", shapes), ("all cores may read", opened), ("the same, beside changes", beside)
    windows = 4 * MILLION // CHUNK_DOCUMENTS
    large = [replace(shape, commit_rows=4 * MILLION, windows=max(windows, shape.windows)) for shape in opened]
    reading = (*kinds, ("all cores may read, 4,000,000 READs in a commit", large))
    many = [replace(shape, stream_readers=16) for shape in shapes]
    streaming = ("four change streams at a time", shapes), ("sixteen", many)
    lines = _heading("backfill, documents a second")
    lines += [_row(name, *(_told(backfill(parts, one)) for one in some)) for name, some in reading]
    lines += ["", *_heading("stream, changes a second")]
    lines += [_row(name, *(_told(stream(parts, one)) for one in some)) for name, some in streaming]
    return "\n".join(lines) + "\n"


def _heading(what: str) -> list[str]:
    return [_row(what, *(f"{n} worker{'s' * (n > 1)}" for n in WORKERS)), "|---|" + "--:|" * len(WORKERS)]


def _told(rates: Mapping[str, float]) -> str:
    part, rate = bound(rates)
    return f"{round(rate, -3):,.0f} ({part})"


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workers", type=int, help="one cluster, all its ceilings; without it the page's tables"
    )
    of = Shape(1)
    for name in (
        "cores",
        "driver_cores",
        "mongod_cores",
        "threads",
        "windows",
        "commit_rows",
        "stream_readers",
    ):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(of, name))
    given = vars(parser.parse_args())
    if given["workers"] is None:
        print(tables(MEASURED), end="")
        return
    shape = Shape(**given)
    for what, rates in (("backfill", backfill(MEASURED, shape)), ("stream", stream(MEASURED, shape))):
        ascending = sorted(rates.items(), key=lambda one: one[1])
        print(what, *(f"{name}: {rate:,.0f}/s" for name, rate in ascending), sep="\n  ")


if __name__ == "__main__":
    main()

"""How long a cold engine takes, from the command on: until its first row can be seen, and as a scheduler calls it.

    python -m bench.cold [--documents 2000] [--backlog 0] [--rounds 5] [--beside FOLDER | --verify]
                         [--busy] [--output FILE]

Each round is a process of its own (`run --once`, a fresh warehouse), as somebody types it. `--beside` names another
checkout, whose rounds take turns with this one's: a machine that is busy meanwhile is so for both. What is timed:

    first row   the command given -> a version of the table that has a row
    once        the command given -> the process has ended: the load landed, the engine stopped
    backlog     the same of a second `run --once`, behind which so many mixed changes lie (400,000 documents or more
                for 200,000 changes)

`--verify` times another command instead: `verify`, of the table that such a round has left, by its two readers in turn.

JSON lines (`bench.lines`): the median and all rounds of each.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from bench.command import COMMAND, HERE, Command, by_turns, running
from bench.lines import about_run, add_options, telling
from bench.workload import load_orders, mixed_changes
from snapshotter.testing.mongodb import start_mongodb

_DB, _ORDERS = "bench_shop", "orders"
_LOOKS_S = 0.02
_KINDS = ("first_row_seconds", "once_seconds", "backlog_seconds")
READERS = {"duckdb": COMMAND, "spark": f"import sys; sys.modules['duckdb'] = None; {COMMAND}"}
"""What reads a small table for `verify`, and a process in which it does."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backlog", type=int, default=0, help="changes; 0 leaves that out")
    parser.add_argument("--verify", action="store_true", help="time `verify` instead")
    add_options(parser)
    asked, checkouts = by_turns(parser)
    with telling(about_run(asked), asked.output) as tell:
        tell(**measured(asked, checkouts))


def measured(asked: argparse.Namespace, checkouts: Sequence[Path]) -> dict[str, object]:
    """Of each checkout what was found; of each reader, where `verify` is what is timed."""
    found: dict[Path, list[tuple[float, ...]]] = {checkout: [] for checkout in checkouts}
    with start_mongodb() as mongo, tempfile.TemporaryDirectory(prefix="bench-cold-") as homes:
        load_orders(mongo.uri, _DB, _ORDERS, asked.documents)
        if asked.verify:
            return {name: _times(some) for name, some in verified(mongo.uri, asked.rounds).items()}
        for number in range(asked.rounds):
            folders = [Path(homes, f"{number}-{place}") for place, _ in enumerate(checkouts)]
            for checkout, home in zip(checkouts, folders, strict=True):
                home.mkdir()
                found[checkout].append(once(checkout, mongo.uri, home))
            if asked.backlog:
                mixed_changes(mongo.uri, _DB, _ORDERS, asked.backlog, existing=asked.documents, part=number)
                for checkout, home in zip(checkouts, folders, strict=True):
                    found[checkout][-1] += (once(checkout, mongo.uri, home)[1],)
    names = ["this", "beside"]
    return {name: _summary(found[at]) for name, at in zip(names, checkouts, strict=False)}


def once(checkout: Path, uri: str, home: Path) -> tuple[float, float]:
    """Seconds until the first row could be seen, and until the command had ended, of an engine with this `home`. Raises
    RuntimeError where it fails."""
    first: float | None = None
    begun = time.perf_counter()
    with running(checkout, uri, _DB, _ORDERS, "--once", home=home) as command:
        while command.process.poll() is None:
            if first is None and _has_rows(command.table_log):
                first = time.perf_counter() - begun
            time.sleep(_LOOKS_S)
        ended = time.perf_counter() - begun
        if command.process.returncode or first is None:
            raise _failed(checkout, command)
        return first, ended


def verified(uri: str, rounds: int) -> dict[str, list[float]]:
    """Seconds that `verify` takes of a table that has landed, by each of its readers in turn. Raises RuntimeError where
    somebody else has read it, or they differ."""
    seconds: dict[str, list[float]] = {reader: [] for reader in READERS}
    with running(HERE, uri, _DB, _ORDERS, "--once") as command:
        if command.process.wait():
            raise _failed(HERE, command)
        for reader in list(READERS) * rounds:
            begun = time.perf_counter()
            verify = [sys.executable, "-c", READERS[reader], "verify", "-c", str(command.settings), "--json"]
            paths = {**os.environ, "PYTHONPATH": str(HERE)}
            (found,) = json.loads(
                subprocess.run(verify, env=paths, stdout=subprocess.PIPE, check=True).stdout
            )
            seconds[reader].append(time.perf_counter() - begun)
            if found["read_by"] != reader:
                raise RuntimeError(f"{found['read_by']} has read it: {found['why_spark']}")
    return seconds


def _failed(checkout: Path, command: Command) -> RuntimeError:
    said = command.output.read_text(encoding="utf-8", errors="replace")
    return RuntimeError(f"the engine of {checkout} ended with {command.process.returncode}:\n{said[-4_000:]}")


def _has_rows(log: Path) -> bool:
    """Whether some version of the table has added a file."""
    return any('"add":{' in path.read_text(encoding="utf-8") for path in log.glob("*.json"))


def _summary(rounds: list[tuple[float, ...]]) -> dict[str, object]:
    kinds = zip(_KINDS, zip(*rounds, strict=True), strict=False)
    return {name: _times(some) for name, some in kinds}


def _times(seconds: Sequence[float]) -> dict[str, object]:
    return {"median": round(median(seconds), 2), "rounds": [round(one, 2) for one in seconds]}


if __name__ == "__main__":
    main()

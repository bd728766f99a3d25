"""An engine as somebody types it: `run` in a process of its own, of this checkout or another, with a warehouse that
goes with it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COMMAND = "import sys; from snapshotter.cli import main; sys.exit(main())"
"""The command line, for a Python that has the checkout on its path."""
HERE = Path(__file__).parents[1]
"""This checkout."""
_STOP_S = 120


@dataclass(frozen=True)
class Command:
    """A command that runs. `settings` is its configuration, `table_log` the folder of the log of its only table."""

    process: subprocess.Popen[bytes]
    settings: Path
    table_log: Path
    output: Path


def by_turns(parser: ArgumentParser) -> tuple[Namespace, list[Path]]:
    """What was given to a program that takes ``--beside``, too; and the checkouts that take turns, this one first."""
    parser.add_argument("--beside", type=Path, help="another checkout, for rounds by turns")
    asked = parser.parse_args()
    return asked, [HERE, *([asked.beside.resolve()] if asked.beside else [])]


@contextmanager
def running(
    checkout: Path,
    uri: str,
    db: str,
    coll: str,
    *arguments: str,
    options: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> Iterator[Command]:
    """`snapshotter run` with these `arguments`, for one collection, with all defaults but these `options`. Whoever
    leaves it running has it stopped. `home`: the folder of its warehouse and state, which stays; None: one that
    goes."""
    folder = home or Path(tempfile.mkdtemp(prefix="bench-engine-"))
    given = {
        "name": "bench",
        "mongodb.connection.string": uri,
        "collection.include.list": f"{db}\\.{coll}",
        "delta.warehouse": str(folder / "warehouse"),
        **(options or {}),
    }
    settings, output = folder / "bench.json", folder / "log"
    settings.write_text(json.dumps(given), encoding="utf-8")
    command = [sys.executable, "-c", COMMAND, "run", "-c", str(settings), *arguments]
    paths = {**os.environ, "PYTHONPATH": str(checkout)}
    try:
        with output.open("wb") as written:
            process = subprocess.Popen(command, cwd=checkout, env=paths, stdout=written, stderr=written)
            try:
                log = folder / "warehouse" / "state" / db / coll / "_delta_log"
                yield Command(process, settings, log, output)
            finally:
                process.terminate()
                process.wait(_STOP_S)
    finally:
        if home is None:
            shutil.rmtree(folder, ignore_errors=True)

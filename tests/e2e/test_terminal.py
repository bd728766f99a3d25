"""An engine at a terminal: what a person sees of its start and of its end, and what Spark says that nobody sees."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo import MongoClient, WriteConcern

from snapshotter.engine.interrupts import NOT_STARTED
from snapshotter.engine.readiness import READY
from snapshotter.reporting.status import EngineState
from tests.support.engine_process import EngineProcess
from tests.support.tables import difference, rows
from tests.support.terminal import CTRL_C, Terminal

pytestmark = [pytest.mark.slow, pytest.mark.guard]
COMMAND = "import sys; from snapshotter.cli import main; sys.exit(main())"
DOCUMENTS = 60_000
FOREIGN = re.compile(
    r"log4j|incubator|:: |\bWARN\b|\bERROR\b|\.scala:|\.java:|\bat (?:org|java|py4j)\.|Traceback|rdkafka"
)
"""What Spark, Ivy, Java, Python and Kafka's client would say."""


@contextmanager
def running(engine: EngineProcess, folder: Path, before: str = "") -> Iterator[Terminal]:
    """The engine at a terminal, called in an empty ``folder``, which it leaves empty. ``before``: code that is run
    before the command."""
    engine.write()
    folder.mkdir(exist_ok=True)
    code = f"{before}; {COMMAND}" if before else COMMAND
    command = [sys.executable, "-c", code, "--log-file", str(engine.spark_log), "run", "-c", str(engine.file)]
    checkout = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (checkout, os.environ.get("PYTHONPATH"))))
    with Terminal(command, cwd=folder, env={**os.environ, "PYTHONPATH": paths}) as terminal:
        yield terminal
        assert not (found := FOREIGN.search(terminal.screen.text)), f"{found}\n{terminal.screen.text}"
    assert list(folder.iterdir()) == [], "left where the command was called"


def engine_of(uri: str, client: MongoClient[dict[str, Any]], database: str, folder: Path) -> EngineProcess:
    """One of two collections that it takes some seconds to read."""
    for name in ("orders", "customers"):
        collection = client[database].get_collection(name, write_concern=WriteConcern("majority"))
        collection.insert_many([{"_id": n, "text": "x" * 200} for n in range(DOCUMENTS)])
    options = {
        "name": "shop",
        "mongodb.connection.string": uri,
        "database.include.list": database,
        "notification.enabled.channels": "delta",
    }
    return EngineProcess(folder, options)


def steps_noted(engine: EngineProcess) -> Counter[str]:
    """By collection, in how many of the batches that are noted as told chunks of it have landed, or it was read to its
    end."""
    steps: Counter[str] = Counter()
    before: dict[str, tuple[int, str]] = {}
    upto = json.loads((engine.state / "told.json").read_text())["batch"]
    for batch in (batch for batch in engine.batches() if batch <= upto):
        saved = json.loads((engine.state / "progress" / f"{batch:012d}.json").read_text())
        for task in (task for request in saved["requests"] for task in request["tasks"]):
            name, now = task["namespace"], (task["chunks"], task["state"])
            chunks, state = before.get(name, (0, ""))
            steps[name] += (now[0] > chunks) + (now[1] == "done" != state)
            before[name] = now
    return steps


def steps_told(engine: EngineProcess) -> Counter[str]:
    """How many notifications of such are in the table of them."""
    told = [dict(row["additional_data"]) for row in rows(engine.state / "notifications")]
    names = (one.get("current_collection_in_progress", one.get("scanned_collection")) for one in told)
    return Counter(name for name in names if name is not None)


def state_of(engine: EngineProcess) -> EngineState | None:
    status = engine.status()
    return None if status is None else status.state


def is_free(engine: EngineProcess) -> bool:
    newest = max((engine.state / "lock").rglob("0*"))
    return bool(json.loads(newest.read_text())["released"])


def test_a_day_at_a_terminal(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str, tmp_path: Path
) -> None:
    """A SIGTERM to the whole group while Spark starts: it ends with 0, has touched nothing, and no stack is shown. The
    next start says what it is at, in its order, then that it is ready. Ctrl+C in the midst of the first load: windows
    are said to land, and it says where it stopped; the display is there once, no line of it is left behind, and what
    is noted as told was told. The last start goes on; a SIGTERM to the group and to each process of it, as systemd
    sends it by itself, ends it as cleanly. Whatever Spark has said is in the log file."""
    engine, folder = engine_of(mongo_uri, mongo_client, database, tmp_path), tmp_path / "called"

    with running(engine, folder) as terminal:
        terminal.until_shown("starting Spark")
        assert state_of(engine) is EngineState.STARTING
        terminal.signal_group(signal.SIGTERM)
        assert terminal.wait() == 0, terminal.screen.text
        assert NOT_STARTED in terminal.screen.text
    assert is_free(engine)

    with running(engine, folder) as terminal:
        terminal.until_shown(READY)
        silence = terminal.silence(READY)
        said = "".join(text for _, text in terminal.came)
        steps = ["reading ", "checking MongoDB at ", "starting Spark (", "opening the change stream"]
        steps += [f"loading 2 collections: {database}.customers, {database}.orders", READY]
        places = [said.index(step) for step in steps]
        assert places == sorted(places), list(zip(steps, places, strict=True))
        first, ready = terminal.came[0][0], terminal.came[-1][0]
        print(
            f"first word after {first:.2f} s, ready after {ready:.1f} s, silent for {silence:.2f} s at most"
        )
        terminal.until("a window in flight", lambda: (s := engine.status()) is not None and s.windows)
        asked = time.monotonic()
        terminal.press(CTRL_C)
        assert terminal.wait() == 0, terminal.screen.text
        print(f"stopped {time.monotonic() - asked:.1f} s after Ctrl+C")
        text = terminal.screen.text
        landing = r"stopping: \d+ windows? (is|are) landing \(Ctrl\+C again ends at once; nothing is lost\)"
        assert re.search(landing, text), text
        assert "^C" not in text, "keys are not drawn into the display"
        assert "stopped at " in " ".join(text.split())[-150:], text
        assert (text.count("rows/s"), text.count("lag=")) == (1, 1), text
    assert state_of(engine) is EngineState.STOPPED
    assert is_free(engine)
    assert engine.batches()[0] == 0, "no progress has been removed yet"
    assert steps_told(engine) >= steps_noted(engine)
    # On a busy machine windows may not have landed in time, or the channel was left behind.
    assert steps_noted(engine).total() > 0 or "the next start repeats" in " ".join(text.split())

    with running(engine, folder) as terminal:
        terminal.until_shown(READY)
        every = psutil.Process(terminal.process.pid).children(recursive=True)
        terminal.signal_group(signal.SIGTERM)
        for process in every:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        assert terminal.wait() == 0, terminal.screen.text
        assert "stopped" in " ".join(terminal.screen.text.split())[-150:]
    assert state_of(engine) is EngineState.STOPPED
    assert is_free(engine)
    assert "Setting default log level" in engine.spark_log.read_text(errors="replace")


def test_an_end_at_once_loses_nothing(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]], database: str, tmp_path: Path
) -> None:
    """Time is up as soon as somebody asks for the end, in the midst of the first load: its JVM and whatever that has
    started are gone with it, its name is free, and the next start goes on to the end."""
    engine = engine_of(mongo_uri, mongo_client, database, tmp_path)
    no_time = "from snapshotter.engine import engine_runner; engine_runner.STOP_SECONDS = 0.0"
    with running(engine, tmp_path / "called", no_time) as terminal:
        terminal.until("a window in flight", lambda: (s := engine.status()) is not None and s.windows)
        started = psutil.Process(terminal.process.pid).children(recursive=True)
        assert any(process.name() == "java" for process in started)
        terminal.press(CTRL_C)
        assert terminal.wait() == 0, terminal.screen.text
        assert "the next start repeats what was under way" in " ".join(terminal.screen.text.split())
    psutil.wait_procs(started, timeout=180)
    assert not [process for process in started if process.is_running()]
    assert state_of(engine) is EngineState.STOPPED
    assert is_free(engine)
    assert engine.start("--once").wait() == 0
    for name in ("orders", "customers"):
        assert difference(mongo_uri, database, name, engine.table(database, name)) == []

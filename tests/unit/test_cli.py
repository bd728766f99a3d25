"""The command line's frame: arguments, messages, exit codes, and what is written where."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from signals.actions import (
    Condition,
    ExecuteSnapshot,
    IdRange,
)
from signals.channels.inbox_channel import InboxChannel
from snapshotter.cli import waiting
from snapshotter.cli.waiting import only
from snapshotter.reporting.answers import CollectionEstimate, DryRun, read_answer, write_answer
from snapshotter.reporting.health import silent_seconds
from snapshotter.reporting.status import (
    STATUS_FILE,
    EngineState,
    ErrorReport,
    RequestReport,
    RequestState,
    RestartReport,
    Status,
)
from snapshotter.state.lock import EngineLock
from snapshotter.state.process import this_process
from snapshotter.state.storage import LocalStorage
from tests.support.shop_engine import config, invoke, report, state

__all__ = ["config", "state"]


def test_help_and_version_load_nothing_heavy() -> None:
    """Help names every command, and imports neither Spark nor the MongoDB driver nor pydantic."""
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from snapshotter.cli.app import app\n"
        "result = CliRunner().invoke(app, ['--help'])\n"
        "heavy = {'pyspark', 'pymongo', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "print(result.output)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for command in ("run", "execute-snapshot", "status", "verify", "demo", "config"):
        assert command in done.stdout
    assert invoke("--version").output.startswith("snapshotter ")


def test_config_prints_the_settings_masked(config: Path) -> None:
    """Every option in force on standard output, warnings on standard error, secrets nowhere."""
    result = invoke("config", "-c", config)
    assert result.exit_code == 0
    assert "capture.mode = change_streams_update_full\n" in result.stdout
    assert "mongodb.connection.string = mongodb://***:***@localhost:1/\n" in result.stdout
    assert "warning: key.converter has no effect" in result.stderr
    assert "s3cret" not in result.output
    values = json.loads(invoke("config", "-c", config, "--json").stdout)
    assert values["incremental.snapshot.watermarking.strategy"] == "cluster_time"


def test_config_lists_all_options() -> None:
    """The catalogue needs no file."""
    rows = json.loads(invoke("config", "--options", "--json").stdout)
    statuses = {"supported", "planned", "refused", "meaningless", "renamed"}
    assert statuses == {row["status"] for row in rows}
    assert "delta.warehouse  [supported, required]" in invoke("config", "--options").stdout


@pytest.mark.parametrize("command", ["run", "status", "verify", "execute-snapshot shop.orders", "config"])
def test_a_wrong_configuration_exits_2(tmp_path: Path, command: str) -> None:
    """All problems on standard error, and nothing is started or written."""
    path = tmp_path / "bad.json"
    path.write_text(
        '{"name": "x", "snapshot.mode": "sometimes", "mongodb.conection.string": "y"}', encoding="utf-8"
    )
    result = invoke(*command.split(), "-c", path)
    assert result.exit_code == 2
    assert "snapshot.mode = sometimes: must be one of always, initial," in result.stderr
    assert "did you mean mongodb.connection.string?" in result.stderr
    assert "delta.warehouse: is required" in result.stderr
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "arguments", [["config"], ["run"], ["nonsense"], ["--log-level", "loud", "config"], ["execute-snapshot"]]
)
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    """Missing files and arguments, unknown commands and values."""
    assert invoke(*arguments).exit_code == 2


def test_execute_snapshot_puts_the_signal_into_the_inbox(config: Path, state: LocalStorage) -> None:
    """Without a signal collection the request waits beside the state, whether an engine runs or not."""
    result = invoke(
        "execute-snapshot", "-c", config, "shop.orders", "shop.c.*", "--filter", "{a: 1}", "--id", "r1"
    )
    assert (result.exit_code, result.stdout) == (0, "r1\n")
    assert "inbox of the engine 'shop'" in result.stderr
    (received,) = InboxChannel(state).poll()
    conditions = (Condition("shop.orders", '{"a": 1}'), Condition("shop.c.*", '{"a": 1}'))
    assert received.action == ExecuteSnapshot(
        "r1", ("shop.orders", "shop.c.*"), additional_conditions=conditions
    )


def test_execute_snapshot_makes_an_id(config: Path, state: LocalStorage) -> None:
    """Without ``--id`` each call is a request of its own, and prints its id."""
    ids = {invoke("execute-snapshot", "-c", config, "a.b").stdout.strip() for _ in range(2)}
    assert {received.id for received in InboxChannel(state).poll()} == ids
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("arguments", "expectation"),
    [
        (["a.b", "--filter", "{a: "], "not a query document"),
        (["a.b", "--type", "blocking", "--key", "1"], "keys goes with type incremental only"),
        (["a.b", "--type", "full"], "one of incremental, blocking, got 'full'"),
        ([" "], "names no collection"),
        (["a.b", "--key", "A-4"], "An id is JSON: 17,"),
        (["a.b", "--min", "{"], "--min is not JSON"),
        (["a.b", "--key", "1", "--min", "1"], "keys and range exclude each other"),
        (["a.*", "--key", "1"], "must be the plain name of one"),
        (["a.b", "--reconcile", "--filter", "{a: 1}"], "reconcile and additional-conditions exclude"),
        (["a.b", "--id", "known"], "waits already"),
    ],
)
def test_a_wrong_signal_exits_2(
    config: Path, state: LocalStorage, arguments: list[str], expectation: str
) -> None:
    """The arguments are checked as any signal is, before anything is sent."""
    InboxChannel(state).send(ExecuteSnapshot("known", ("x.y",)))
    result = invoke("execute-snapshot", "-c", config, *arguments)
    assert result.exit_code == 2
    assert expectation in result.stderr
    assert [r.id for r in InboxChannel(state).poll()] == ["known"]


def test_parts_of_a_collection(config: Path, state: LocalStorage) -> None:
    """Ids are JSON and keep their types; a range may have one end only."""
    keys = ("--key", "17", "--key", '"A-4"', "--key", '{"$oid": "65a1b2c3d4e5f60718293a4b"}')
    one = invoke("execute-snapshot", "-c", config, "a.b", "--id", "1", *keys, "--priority", "-5")
    two = invoke("execute-snapshot", "-c", config, "a.b", "--id", "2", "--max", '"m"', "--reconcile")
    assert (one.exit_code, two.exit_code) == (0, 0)
    texts = ('{"$numberInt": "17"}', '"A-4"', '{"$oid": "65a1b2c3d4e5f60718293a4b"}')
    assert {r.id: r.action for r in InboxChannel(state).poll()} == {
        "1": ExecuteSnapshot("1", ("a.b",), keys=texts, priority=-5),
        "2": ExecuteSnapshot("2", ("a.b",), range=IdRange(None, '"m"'), reconcile=True),
    }


def test_a_dry_run_shows_the_answer(
    config: Path, state: LocalStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's, not one that lay there from an earlier question; as text and as JSON."""
    part = CollectionEstimate(
        name="a.b", first="1", last='"z"', documents=12_000, bytes=3_600_000, seconds=2.4, notes=("odd",)
    )
    made = DryRun(
        id="d", answered_at=datetime.now(UTC), collections=(part, part), documents=24_000, rows_per_second=5e3
    )
    write_answer(state, made.model_copy(update={"error": "an old one"}))

    def engine(seconds: float) -> None:
        (received,) = InboxChannel(state).poll()
        assert received.action == ExecuteSnapshot("d", ("a.b",), dry_run=True)
        InboxChannel(state).ack(received.name)
        write_answer(state, made)

    # The module's own clock: other threads of this process sleep by the real one.
    monkeypatch.setattr(waiting, "time", SimpleNamespace(sleep=engine, monotonic=time.monotonic))
    arguments = ("execute-snapshot", "-c", config, "a.b", "--dry-run", "--id", "d")
    shown = invoke(*arguments)
    assert shown.exit_code == 0, shown.output
    assert "the engine is absent; the dry run waits" in shown.stderr
    assert "a.b: 12,000 documents, about 3.6 MB, about 2 s" in shown.stdout
    assert '  ids 1 to "z"\n  odd\n' in shown.stdout
    assert "all: 24,000 documents\n" in shown.stdout
    assert "at 5,000 documents a second" in shown.stdout
    assert DryRun.from_json(invoke(*arguments, "--json").stdout) == made


def test_a_dry_run_that_has_no_answer(config: Path) -> None:
    """Out of time, that is said, with exit code 3."""
    late = invoke("execute-snapshot", "-c", config, "a.b", "--dry-run", "--id", "x", "--timeout", "0")
    assert (late.exit_code, "has no answer after 0 s" in late.stderr) == (3, True)


def test_old_answers_go(state: LocalStorage) -> None:
    """The newest hundred are kept, by their time; an id that a file system would object to has one too."""
    now = datetime.now(UTC)
    for number in range(103):
        write_answer(state, DryRun(id=f"a/{number}", answered_at=now - timedelta(seconds=number % 101)))
    assert len(state.list_names("answers")) == 100
    assert read_answer(state, "a/100") is None
    assert read_answer(state, "a/102") is not None


def test_waiting_ends_with_the_request(config: Path, state: LocalStorage) -> None:
    """Completed exits 0; failed exits 3 with the reason; out of time exits 3 and says that it goes on."""
    report(state, requests=(RequestReport(id="good", state=RequestState.COMPLETED),))
    assert invoke("execute-snapshot", "-c", config, "a.b", "--wait", "--id", "good").exit_code == 0
    report(state, requests=(RequestReport(id="bad", state=RequestState.FAILED, error="no such collection"),))
    failed = invoke("execute-snapshot", "-c", config, "a.b", "--wait", "--id", "bad")
    assert failed.exit_code == 3
    assert "request bad failed: no such collection" in failed.stderr
    slow = invoke("execute-snapshot", "-c", config, "a.b", "--wait", "--id", "slow", "--timeout", "0")
    assert slow.exit_code == 3
    assert "has not ended after 0 s" in slow.stderr


def test_waiting_says_that_no_engine_runs(config: Path) -> None:
    """A person who waits for nothing is told so."""
    result = invoke("execute-snapshot", "-c", config, "a.b", "--wait", "--timeout", "0")
    assert "the engine is absent; the signal waits until it runs" in result.stderr


def test_status(config: Path, state: LocalStorage) -> None:
    """For a person and as JSON; the same facts."""
    missing = invoke("status", "-c", config)
    assert missing.exit_code == 3
    assert "no engine named 'shop' has run" in missing.stderr
    written = report(state, lag_seconds=2.0, error=ErrorReport(kind="X", message="boom"))
    shown = invoke("status", "-c", config)
    assert shown.exit_code == 0
    assert "shop running · lag=2.0s" in shown.stdout
    fields = json.loads(invoke("status", "-c", config, "--json").stdout)
    assert Status.model_validate(fields) == written
    assert fields["error"]["class"] == "X"


def test_a_silent_engine_is_doubted(config: Path, state: LocalStorage) -> None:
    """A status that says "running" and is old is that of a lost engine: said first, and beside JSON too."""
    now = datetime.now(UTC)
    old = report(state, updated_at=now - timedelta(seconds=90), pid=5, host="h")
    assert silent_seconds(old, now) == 90
    assert silent_seconds(old.model_copy(update={"state": EngineState.STOPPED}), now) is None
    failed = old.model_copy(update={"state": EngineState.FAILED, "restarts": RestartReport(enabled=True)})
    assert silent_seconds(failed, now) is None
    waits = failed.model_copy(update={"restarts": RestartReport(enabled=True, next_at=now)})
    assert silent_seconds(waits, now) is not None
    first, *_ = invoke("status", "-c", config).stdout.splitlines()
    assert first.startswith("shop lost: last heard of 9")
    assert "it has said nothing for 9" in (beside := invoke("status", "-c", config, "--json").stderr)
    assert "(process 5 on h)" in beside


def test_an_engine_whose_process_is_gone_is_lost_at_once(config: Path, state: LocalStorage) -> None:
    """Nobody waits for thirty seconds to hear of what this machine knows, and what to do is said. Of a process
    elsewhere it knows nothing, and one that has given its name back has ended."""
    mine, now = this_process(), datetime.now(UTC)
    killed = EngineLock(state, "shop", replace(mine, started="1"), lambda: 0)
    report(state, updated_at=now - timedelta(seconds=3), pid=mine.pid, host=mine.host, health="Active")
    assert invoke("status", "-c", config, "--check").exit_code == 0
    killed.acquire()
    shown = invoke("status", "-c", config)
    assert shown.stdout.startswith("shop lost: last heard of")
    assert "next: start it again: `snapshotter run -c FILE`" in shown.stdout
    assert invoke("status", "-c", config, "--check").exit_code == 3
    assert "gone" not in json.loads(invoke("status", "-c", config, "--json").stdout)
    killed.release()
    assert invoke("status", "-c", config, "--check").exit_code == 0
    EngineLock(state, "shop", replace(mine, place="elsewhere"), lambda: 0).acquire()
    assert invoke("status", "-c", config, "--check").exit_code == 0


def test_an_error_says_its_class(config: Path, state: LocalStorage) -> None:
    """Message, class and named state, next step: a line each. As JSON where that is asked for."""
    options = json.loads(config.read_text())
    config.write_text(
        json.dumps({**options, "connect.max.attempts": 1, "connect.backoff.initial.delay.ms": 1})
    )
    away = invoke("run", "-c", config, "--once")
    assert away.exit_code == 4
    assert "\nclass: connection (source-unreachable), worth another attempt\nnext: " in away.stderr
    told = invoke("run", "-c", config, "--once", "--log-format", "json")
    assert told.exit_code == 4
    lines = [json.loads(line) for line in told.stderr.splitlines()]
    assert lines[-1]["level"] == "error"
    assert (lines[-1]["failure"], lines[-1]["condition"]) == ("connection", "source-unreachable")
    assert "mongodb.connection.string" in lines[-1]["next_step"]
    assert any("attempt 1 of 1" in line["event"] for line in lines)
    quiet = invoke("run", "-c", config, "--once", "--log-format", "json", "--log-level", "error")
    assert [json.loads(line)["level"] for line in quiet.stderr.splitlines()] == ["error"]
    assert invoke("run", "-c", config, "--log-level", "loud").exit_code == 2


def test_a_broken_status_exits_3(config: Path, state: LocalStorage) -> None:
    """What is no status is said to be none."""
    state.write_text(STATUS_FILE, '{"name": 5}')
    result = invoke("status", "-c", config)
    assert result.exit_code == 3
    assert "status.json is not a status: name:" in result.stderr


def test_a_warehouse_that_cannot_be_written_exits_3(config: Path, tmp_path: Path) -> None:
    """The message names the folder, and the option to look at."""
    (tmp_path / "lake").write_text("a file in the way", encoding="utf-8")
    result = invoke("execute-snapshot", "-c", config, "a.b")
    assert result.exit_code == 3
    assert str(tmp_path / "lake") in result.stderr
    assert "next: check delta.warehouse" in result.stderr


def test_an_unreachable_mongodb_exits_4(tmp_path: Path) -> None:
    """With a signal collection the signal goes to MongoDB; nobody there is a matter of trying again."""
    path = tmp_path / "shop.toml"
    path.write_text(
        f'name = "shop"\n"mongodb.connection.string" = "mongodb://me:s3cret@127.0.0.1:1/"\n'
        f'"signal.data.collection" = "shop.signals"\n"delta.warehouse" = "{tmp_path}"\n'
        '"mongodb.server.selection.timeout.ms" = 50\n"mongodb.heartbeat.frequency.ms" = 500\n',
        encoding="utf-8",
    )
    result = invoke("execute-snapshot", "-c", path, "shop.orders")
    assert result.exit_code == 4, result.output
    assert "127.0.0.1:1" in result.stderr
    assert "mongodb.connection.string" in result.stderr
    assert "s3cret" not in result.output
    assert "SNAPSHOTTER-ERROR" not in result.output


def test_only_one_request_is_watched(state: LocalStorage) -> None:
    """``--wait`` shows the request that was sent, not all that ever were."""
    status = report(state, requests=(RequestReport(id="a"), RequestReport(id="b")))
    assert [r.id for r in only(status, status.requests[1]).requests] == ["b"]


def test_status_shows_the_queue_and_what_to_do(config: Path, state: LocalStorage) -> None:
    """Where each request stands, how urgent it is, and of an error the next step."""
    report(
        state,
        requests=(
            RequestReport(id="q1", state=RequestState.PAUSED, priority=5, paused_seconds=5.2),
            RequestReport(id="q2", state=RequestState.FAILED, error="gone", next_step="look for it"),
            RequestReport(id="q3", state=RequestState.STOPPED),
        ),
    )
    shown = invoke("status", "-c", config).stdout
    assert "request q1 is paused for 5s, priority 5" in shown
    assert "request q2 failed · incremental\n  why: gone\n  next: look for it\n" in shown
    assert "request q3 is stopped" in shown

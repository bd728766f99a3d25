"""Where the log file is, who may read it, and when an error names it."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from snapshotter import log_file
from snapshotter.cli import config as config_command
from snapshotter.cli.app import app
from snapshotter.errors import ConfigurationError
from snapshotter.log import LogFormat, set_up, warn_of
from snapshotter.testing.processes import wait_until


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Log file and handlers as they were."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers[:] = handlers
    log_file.choose(None)


def test_where_it_lies(tmp_path: Path) -> None:
    """With systemd's logs, with the user's state, and under a name that is one of a file."""
    systemd = {"LOGS_DIRECTORY": "/var/log/a:/var/log/b", "XDG_STATE_HOME": "/x"}
    assert log_file.default_place("shop", systemd) == Path("/var/log/a/shop.log")
    assert log_file.default_place("a/b", {"XDG_STATE_HOME": "/x"}) == Path("/x/snapshotter/a~2Fb.log")
    assert log_file.default_place("shop", {}) == Path.home() / ".local/state/snapshotter/shop.log"


def test_it_is_made_when_it_is_needed(tmp_path: Path) -> None:
    """For its owner alone; an error names it once something worth reading is in it."""
    place = tmp_path / "logs" / "shop.log"
    log_file.choose(place)
    assert (log_file.chosen(), log_file.named(), place.exists()) == (place, None, False)
    assert log_file.opened() == place
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert log_file.named() is None
    assert log_file.write("Traceback")
    assert log_file.named() == place


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """A file may have a thousand bytes, and is looked at all the time."""
    monkeypatch.setattr(log_file, "LARGEST", 1_000)
    monkeypatch.setattr(log_file, "LOOK_SECONDS", 0.001)
    return 1_000


def test_one_that_has_grown_large_is_emptied(tmp_path: Path, small: int) -> None:
    """It stays the same file, and its newest lines, whole, are beside it, for the same reader alone."""
    place, aside = tmp_path / "shop.log", tmp_path / "shop.log.1"
    lines = [f"line {number:03}\n" for number in range(150)]
    place.write_text("".join(lines))
    before = place.stat().st_ino
    log_file.bound(place)
    assert (place.stat().st_ino, place.stat().st_size) == (before, 0)
    kept = aside.read_text().splitlines(keepends=True)
    assert kept == lines[-len(kept) :]
    assert small - len(lines[0]) < aside.stat().st_size <= small
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    place.write_text("x" * small)
    log_file.bound(place)
    assert place.stat().st_size == small, "it is not larger than it may be"


def test_it_stays_small_while_others_write(tmp_path: Path, small: int) -> None:
    """A process that has it open for as long as it lives, as a JVM has, writes on behind what it was emptied to; so do
    we."""
    place, aside = tmp_path / "shop.log", tmp_path / "shop.log.1"
    log_file.choose(place)
    assert log_file.opened() == place
    with place.open("ab") as output:
        flood = "while read -r line; do echo said; done"
        writer = subprocess.Popen(["sh", "-c", flood], stdin=subprocess.PIPE, stdout=output, text=True)
    assert writer.stdin is not None
    for _ in range(20):
        writer.stdin.write("\n" * 250)
        writer.stdin.flush()
        wait_until(lambda: place.stat().st_size <= small, "an empty file")
    writer.communicate()
    log_file.write("of ours\n")
    found = place.read_bytes() + aside.read_bytes()
    assert set(found.split()) == {b"said", b"of", b"ours"}, "no holes, no halves"
    assert aside.stat().st_size <= small


def test_half_a_line_is_not_set_aside(tmp_path: Path, small: int) -> None:
    """One that is being written is seen in part, where it crosses from one page of memory to the next."""
    place, aside = tmp_path / "shop.log", tmp_path / "shop.log.1"
    place.write_text("a line\n" * small + "half a l")
    log_file.bound(place)
    assert set(aside.read_text().splitlines(keepends=True)) == {"a line\n"}


@pytest.mark.parametrize("spoilt", ["folder", "full"])
def test_what_cannot_be_set_aside_is_lost(
    tmp_path: Path, small: int, capsys: pytest.CaptureFixture[str], spoilt: str
) -> None:
    """That is said: the size counts for more. What there was before goes as well, to make room."""
    place, aside = tmp_path / "shop.log", tmp_path / "shop.log.1"
    if spoilt == "folder":
        aside.mkdir()
    else:
        aside.symlink_to("/dev/full")
    place.write_text("line\n" * small)
    log_file.bound(place)
    assert place.stat().st_size == 0
    assert "older lines of the log file are lost" in capsys.readouterr().out
    assert spoilt == "folder" or not aside.is_symlink()


def test_what_is_no_file_is_left_alone(tmp_path: Path, small: int) -> None:
    """Nothing grows there; a container's /dev/stderr is a pipe."""
    log_file.bound(Path("/dev/null"))
    os.mkfifo(tmp_path / "pipe")
    log_file.bound(tmp_path / "pipe")


def test_two_processes_that_look_at_once(tmp_path: Path, small: int) -> None:
    """One of them sets aside."""
    place = tmp_path / "shop.log"
    place.write_text("line\n" * small)
    with place.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        log_file.bound(place)
        assert place.stat().st_size > small
    log_file.bound(place)
    assert place.stat().st_size == 0


def test_a_place_that_cannot_be_written_to(tmp_path: Path) -> None:
    """One that was asked for is an error with the option; another one is taken in the place of one that was not."""
    (tmp_path / "file").write_text("")
    closed, instead = tmp_path / "file" / "shop.log", tmp_path / "instead.log"
    log_file.choose(closed)
    with pytest.raises(ConfigurationError, match="--log-file = "):
        log_file.opened()
    assert not log_file.write("lost")
    log_file.choose(closed, instead)
    assert log_file.opened() == instead
    log_file.choose(None)
    assert log_file.opened() is None
    assert not log_file.write("lost")


def test_a_folder_among_everybodys_is_this_users_alone(tmp_path: Path) -> None:
    """Somebody else may have made it, to read what comes into it, or to have it written elsewhere."""
    (tmp_path / "file").write_text("")
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o700)
    shared.chmod(0o755)
    log_file.choose(tmp_path / "file" / "shop.log", shared / "shop.log")
    with pytest.raises(ConfigurationError, match="not this user's alone"):
        log_file.opened()
    assert list(shared.iterdir()) == []


def test_the_file_has_what_the_screen_is_spared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines below the level, and libraries that nobody has asked; what they say of errors is on both."""
    place = tmp_path / "shop.log"
    place.touch()
    set_up(LogFormat.JSON, "warning", place)
    structlog.get_logger("snapshotter.x").info("landed", rows=5)
    structlog.get_logger("snapshotter.x").warning("slow")
    for library in ("py4j.clientserver", "librdkafka", "pyspark"):
        logging.getLogger(library).error("a page of stack")
    logging.getLogger("plugin").error("lost it")
    shown = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    kept = [json.loads(line)["event"] for line in place.read_text().splitlines()]
    assert shown == ["slow", "lost it"]
    assert kept == ["landed", "slow", *["a page of stack"] * 3, "lost it"]
    warn_of(structlog.get_logger("snapshotter.x"), "tried again", RuntimeError("no room"))
    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["tried again"]
    _, whole = map(json.loads, place.read_text().splitlines()[-2:])
    assert (whole["event"], "RuntimeError: no room" in whole["exception"]) == ("the error in full", True)
    set_up(LogFormat.JSON, "error")
    structlog.get_logger("snapshotter.x").warning("no more")
    assert "no more" not in place.read_text()


def test_a_terminal_is_spared_stacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they end with is shown; the file has them whole."""
    place = tmp_path / "shop.log"
    place.touch()
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    set_up(LogFormat.KEY_VALUE, "info", place)
    try:
        raise ValueError("no room")
    except ValueError:
        structlog.get_logger("snapshotter.x").exception("it fails")
    assert 'event="it fails"' in (shown := capsys.readouterr().err)
    assert "no room" in shown
    assert "Traceback" not in shown
    assert "Traceback" in place.read_text()


def test_an_error_that_nobody_has_foreseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stack is in the file, which the message names; without a file it is shown."""

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("mongodb://u:hunter2@h/ is odd")

    monkeypatch.setattr(config_command, "load_settings", fails)
    place = tmp_path / "all.log"
    told = CliRunner().invoke(app, ["--log-file", str(place), "config", "-c", "x.json"])
    assert told.stderr.splitlines()[-1] == f"log: {place}"
    assert "Traceback" not in told.stderr
    assert "Traceback" in place.read_text()
    assert "hunter2" not in place.read_text()
    shown = CliRunner().invoke(app, ["config", "-c", "x.json"])
    assert "Traceback" in shown.stderr
    assert "log: " not in shown.stderr

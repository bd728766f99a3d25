"""Where a `mongod` is looked for, and what is said when there is none."""

import os
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from snapshotter.testing import mongod_binary
from snapshotter.testing.mongodb import start_mongodb


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def pretend_wheel(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    spec = ModuleSpec("fiftyone", None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec if name == "fiftyone" else None)


def test_the_one_on_path_comes_before_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who has put a `mongod` on PATH means that one."""
    mine = executable(tmp_path / "bin" / "mongod")
    executable(tmp_path / "wheel" / "db" / "bin" / "mongod")
    pretend_wheel(monkeypatch, tmp_path / "wheel")
    monkeypatch.setenv("PATH", str(mine.parent))
    assert mongod_binary.find_mongod() == mine
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert mongod_binary.find_mongod() == tmp_path / "wheel" / "db" / "bin" / "mongod"


def test_the_wheels_execute_bit_is_restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The wheel's file is made executable when its installer dropped the bit."""
    binary = executable(tmp_path / "db" / "bin" / "mongod")
    binary.chmod(0o644)
    pretend_wheel(monkeypatch, tmp_path)
    assert mongod_binary.wheel_mongod() == binary
    assert binary.stat().st_mode & 0o111 == 0o111


def test_nothing_found_names_all_four_ways(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without any MongoDB the error says each of the four things that would help."""
    pretend_wheel(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert mongod_binary.find_mongod() is None
    message = str(mongod_binary.nothing_found())
    for way in (mongod_binary.URI_VARIABLE, "PATH", "snapshotter[embedded-mongodb]", "Docker daemon"):
        assert way in message


def test_more_than_a_container_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where Docker is there, but three nodes are asked for, nobody is told to start Docker."""
    pretend_wheel(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(mongod_binary.URI_VARIABLE, raising=False)
    monkeypatch.setattr(mongod_binary, "docker_answers", lambda: True)
    with pytest.raises(mongod_binary.MongoUnavailableError, match="is one node") as refused:
        start_mongodb(nodes=3)
    assert "start a Docker daemon" not in str(refused.value)


def test_an_empty_variable_gives_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable counts as unset."""
    monkeypatch.setitem(os.environ, mongod_binary.URI_VARIABLE, "")
    assert mongod_binary.given_uri() is None

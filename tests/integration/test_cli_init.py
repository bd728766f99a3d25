"""``snapshotter init`` on a real server: what it writes, what it refuses, and what it says comes next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from snapshotter.cli.app import app
from snapshotter.configuration.settings import Settings
from snapshotter.testing.mongodb import start_mongodb
from snapshotter.testing.processes import free_port
from streaming.scope.scope import CaptureScope


@pytest.fixture
def shop(mongo_client: Any, database: str) -> Any:
    """A database of this test's own, with orders and customers."""
    for name in ("orders", "customers"):
        mongo_client[database][name].insert_one({"_id": 1})
    return mongo_client[database]


def init(path: Path, *arguments: str, **more: Any) -> Result:
    """The command, in this process; its standard input is no terminal."""
    result = CliRunner().invoke(app, ["init", "-c", str(path), *arguments], **more)
    assert "Traceback" not in result.output
    return result


def flags(uri: str, shop: Any, folder: Path) -> list[str]:
    """All that has to be given where nobody is asked."""
    lake = str(folder / "lake")
    return ["--address", uri, "--collection", f"{shop.name}.orders", "--warehouse", lake]


@pytest.mark.parametrize("suffix", [".toml", ".properties", ".json"])
def test_by_flags_alone(tmp_path: Path, mongo_uri: str, shop: Any, suffix: str) -> None:
    """What is written is accepted by config, captures what was named and nothing else, and says what to run next."""
    path = tmp_path / f"shop{suffix}"
    result = init(path, *flags(mongo_uri, shop, tmp_path), "--signals", f"{shop.name}.signals")
    assert result.exit_code == 0, result.output
    assert f"1 collection is captured: {shop.name}.orders" in " ".join(result.stdout.split())
    assert result.stdout.splitlines()[-1] == f"next: snapshotter run -c {path}"
    checked = CliRunner().invoke(app, ["config", "-c", str(path)])
    assert (checked.exit_code, checked.stderr) == (0, "")
    settings = Settings.load(path, {})
    assert (settings.name, settings.signal_collection) == ("shop", f"{shop.name}.signals")
    lists = CaptureScope.parse(settings.source_options()).collections
    assert lists is not None
    assert lists.admits(f"{shop.name}.orders")
    assert not lists.admits(f"{shop.name}_orders")
    text = path.read_text()
    assert ("# collections to capture" in text) == (suffix != ".json")
    assert not (tmp_path / "lake").exists()


def test_what_is_proposed_is_accepted(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """Each option that stands there as a comment, with the value that stands beside it."""
    path = tmp_path / "shop.properties"
    init(path, *flags(mongo_uri, shop, tmp_path))
    lines = path.read_text().splitlines()
    opened = [line if line.startswith("# ") else line.removeprefix("#") for line in lines]
    assert opened != lines
    path.write_text("\n".join(opened).replace("DATABASE.", f"{shop.name}."))
    assert Settings.load(path, {}).metrics.port == 9404


def test_without_a_terminal_what_is_missing_is_named(tmp_path: Path) -> None:
    """By its flag, all of it at once, and nothing is written."""
    result = init(tmp_path / "shop.toml")
    assert result.exit_code == 2
    said = " ".join(result.stderr.replace("│", " ").split())
    for flag in ("--address", "--collection", "--warehouse"):
        assert flag in said
    assert not list(tmp_path.iterdir())


def test_a_file_is_never_overwritten(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """Exit 2, unless it is to be; a form that cannot be written is refused, too."""
    path = tmp_path / "shop.toml"
    path.write_text("mine")
    result = init(path, *flags(mongo_uri, shop, tmp_path))
    assert (result.exit_code, path.read_text()) == (2, "mine")
    assert "--force" in result.stderr
    assert init(path, *flags(mongo_uri, shop, tmp_path), "--force").exit_code == 0
    assert Settings.load(path, {}).name == "shop"
    assert init(tmp_path / "shop.yaml", *flags(mongo_uri, shop, tmp_path)).exit_code == 2


def test_a_name_that_is_not_there(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """It is said with the names near it, exit 2; nothing is written."""
    arguments = ["--address", mongo_uri, "--warehouse", "lake", "--collection", f"{shop.name}.ordres"]
    result = init(tmp_path / "shop.toml", *arguments)
    assert result.exit_code == 2
    assert f"(near it: {shop.name}.orders" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_server_that_is_away(tmp_path: Path) -> None:
    """The exit code of any command that cannot reach it; nothing is written."""
    address = f"mongodb://127.0.0.1:{free_port()}/?serverSelectionTimeoutMS=100"
    arguments = ["--address", address, "--warehouse", "lake", "--collection", ".*"]
    result = init(tmp_path / "shop.toml", *arguments)
    assert result.exit_code == 4
    assert not list(tmp_path.iterdir())


def test_answers(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """At a terminal what was not given is asked for, after a look at what there is."""
    path = tmp_path / "shop.toml"
    given = f"{mongo_uri}\n{shop.name}.orders, {shop.name}.customers\n{tmp_path / 'lake'}\n\n"
    keyboard, terminal = os.openpty()
    os.write(keyboard, given.encode())
    command = "import sys; from snapshotter.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", command, "init", "-c", str(path)],
        stdin=terminal,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    os.close(keyboard)
    os.close(terminal)
    assert done.returncode == 0, done.stderr
    assert f"  {shop.name}.customers" in done.stderr
    settings = Settings.load(path, {})
    assert settings.capture.collection_include == (rf"{shop.name}\.orders", rf"{shop.name}\.customers")
    assert settings.signal_collection is None


def test_an_address_from_a_variable(tmp_path: Path, mongo_uri: str, shop: Any) -> None:
    """It is looked up for the look, and stands in the file as it was given."""
    path = tmp_path / "shop.toml"
    arguments = flags("${env:SHOP_URI}", shop, tmp_path)
    assert init(path, *arguments, env={"SHOP_URI": mongo_uri}).exit_code == 0
    assert "${env:SHOP_URI}" in path.read_text()
    assert mongo_uri not in path.read_text()


def test_roles(tmp_path: Path) -> None:
    """A user of one database gets a scope of that database; one who lacks a privilege is told so, by exit 3; a password
    in the file is for its owner's eyes alone."""
    with start_mongodb(auth=True) as deployment:
        shop = deployment.client()["shop"]
        shop["orders"].insert_one({"_id": 1})
        where = {"db": "shop", "collection": ""}
        actions = ["find", "changeStream", "listCollections"]
        deployment.add_user("narrow", [{"resource": where, "actions": actions}], password="secret")
        deployment.add_user(
            "poor", [{"resource": where, "actions": ["find", "listCollections"]}], password="secret"
        )
        for name, code in (("narrow", 0), ("poor", 3)):
            path = tmp_path / f"{name}.json"
            uri = deployment.bare_uri.replace("//", f"//{name}:secret@") + "&authSource=admin"
            result = init(path, *flags(uri, shop, tmp_path))
            assert result.exit_code == code, result.output
            assert path.stat().st_mode & 0o777 == 0o600
            assert "secret" not in result.output
            assert ("lacks the privilege 'changeStream'" in " ".join(result.stdout.split())) == (code == 3)
            narrowed = json.loads(path.read_text()).get("capture.scope")
            assert narrowed == ("database" if name == "narrow" else None)

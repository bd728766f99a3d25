"""docs/recovery.md, as somebody follows it who copies and pastes: its commands in their order, on a real engine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from snapshotter.cli.app import app
from tests.support.commands import share
from tests.support.engines import Lab, lab
from tests.support.sources import ROOT

__all__ = ["lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]

_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(section: str) -> Iterator[list[str]]:
    """Those of a section of the page, as arguments."""
    page = (ROOT / "docs" / "recovery.md").read_text(encoding="utf-8")
    (text,) = (
        part for part in re.split(r"^## ", page, flags=re.MULTILINE) if part.startswith(f"{section}\n")
    )
    for block in _BLOCK.findall(text):
        yield from map(shlex.split, block.strip().splitlines())


def test_the_commands_of_the_position_work(
    lab: Lab, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each ends with 0, and in the end the table equals the collection."""
    share(spark, monkeypatch)
    lab.with_options("cluster_time", snapshot__mode="initial")
    lab.collection("orders").insert_many([{"_id": n} for n in range(10)])
    files = {"shop.toml": str(lab.config_file()), "position.json": str(tmp_path / "position.json")}

    def run(*arguments: str) -> None:
        result = CliRunner().invoke(app, [files.get(argument, argument) for argument in arguments])
        assert result.exit_code == 0, (arguments, result.output)

    run("run", "-c", "shop.toml", "--once")
    found = list(commands("The position"))
    assert len(found) >= 8
    for number, (program, *arguments) in enumerate(found):
        assert program == "snapshotter"
        lab.collection("orders").delete_one({"_id": number})
        run(*arguments)
    run("run", "-c", "shop.toml", "--once")
    lab.assert_equal("orders")

"""Two engines that mean the same tables: the second one is refused, until it takes them over and reads them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from click.testing import Result
from pyspark.sql import SparkSession

from snapshotter.state.journal import Journal
from snapshotter.state.storage import LocalStorage
from tests.support.commands import run, share
from tests.support.engines import SECONDS, Lab, lab

__all__ = ["lab"]

pytestmark = pytest.mark.guard

Command = Callable[..., Result]


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command with a lab's configuration."""
    share(spark, monkeypatch)
    return run


def other_of(lab: Lab) -> Lab:
    """Another engine of the same collections and the same warehouse."""
    return replace(lab, options={**lab.options, "name": "other"})


def test_a_second_name_is_refused_until_it_takes_over(lab: Lab, command: Command) -> None:
    """Both names are said, and no row is doubled. What it takes over it reads with reconcile, so that what was deleted
    while nobody looked goes as well; the engine before is refused from then on, until it takes them back."""
    lab.with_options("cluster_time", snapshot__mode="initial")
    orders, other = lab.collection("orders"), other_of(lab)
    orders.insert_many([{"_id": n} for n in range(20)])
    assert command(lab, "run", "--once").exit_code == 0
    assert "nothing to take over" in command(lab, "take-over").stdout

    refused = command(other, "run", "--once")
    assert refused.exit_code == 3
    assert f"'engine-{lab.database}'" in refused.output
    assert "'other'" in refused.output
    assert "take-over" in refused.output
    assert len(lab.rows("orders")) == 20

    orders.delete_many({"_id": {"$lt": 5}})
    took = command(other, "take-over")
    assert took.exit_code == 0
    assert f"{lab.name('orders')}: taken over from 'engine-{lab.database}'" in took.stdout
    (request,) = Journal(LocalStorage(lab.state.parent / "other")).requests
    assert (request.id, [w.reconcile for w in request.wanted]) in [(f"take-over-{n}", [True]) for n in (2, 3)]
    assert command(other, "run", "--once").exit_code == 0
    lab.assert_equal("orders")
    assert "nothing to take over" in command(other, "take-over").stdout

    orders.insert_one({"_id": "new"})
    assert command(lab, "run", "--once").exit_code == 3
    assert len(lab.rows("orders")) == 15, "the one before lands nothing any more"
    assert command(lab, "take-over").exit_code == 0
    assert command(lab, "run", "--once").exit_code == 0
    lab.assert_equal("orders")


def test_nothing_is_taken_over_beside_the_running_engine(lab: Lab, command: Command) -> None:
    """The lock of the name is held: exit 3, with who holds it."""
    lab.with_options("cluster_time", snapshot__mode="no_data")
    lab.collection("orders").insert_one({"_id": 1})
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        refused = command(lab, "take-over")
    assert refused.exit_code == 3
    assert "process" in refused.output


def test_a_state_that_was_removed_finds_its_tables_again(lab: Lab, command: Command) -> None:
    """The same name and a new id: no take-over is needed."""
    lab.with_options("cluster_time", snapshot__mode="initial")
    lab.collection("orders").insert_many([{"_id": n} for n in range(3)])
    assert command(lab, "run", "--once").exit_code == 0
    for file in sorted(lab.state.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    assert command(lab, "run", "--once").exit_code == 0
    lab.assert_equal("orders")

"""The Spark plan that lands a batch, where rows of deleted documents stay: live rows are what the rule in plain Python
says, and each deleted row keeps what it had."""

from __future__ import annotations

import random
from pathlib import Path

import bson
import pytest
from pyspark.sql import SparkSession

from tests.support.histories import generate
from tests.support.landings import Landings, follow

pytestmark = pytest.mark.guard


@pytest.mark.parametrize("first_load", [False, True], ids=["over_rows", "first_load"])
def test_a_history_lands_as_the_rule_says(
    spark: SparkSession, tmp_path: Path, rng: random.Random, first_load: bool
) -> None:
    """Keys that go, come again and go: by streamed events, and by READs of windows, of which stale ones bring nothing
    back."""
    history = generate(rng, keys=150, batches=4, events=120)
    follow(Landings(spark, tmp_path / "table", first_load=first_load, soft=True), history)


def test_a_history_with_drops_lands_as_the_rule_says(
    spark: SparkSession, tmp_path: Path, rng: random.Random
) -> None:
    """All rows that are left of before are deleted then, in the commit that brings what follows."""
    history = generate(rng, keys=80, batches=5, events=60, drops=0.02)
    while not history.truncated:
        history = generate(rng, keys=80, batches=5, events=60, drops=0.02)
    follow(Landings(spark, tmp_path / "table", first_load=False, soft=True), history)


@pytest.mark.slow
def test_rows_that_are_missing_at_source_stay_deleted(
    spark: SparkSession, tmp_path: Path, rng: random.Random
) -> None:
    """Windows that reconcile mark them, count them once, and never find a deleted row missing."""
    history = generate(rng, keys=120, batches=4, events=40)
    landings = Landings(spark, tmp_path / "table", first_load=False, reconcile=True, soft=True)
    stale = [key for key in history.ids if rng.random() < 0.7]
    landings.hold({key: {**bson.decode(history.ids[key]), "v": -n} for n, key in enumerate(stale)})
    follow(landings, history)

"""Fixtures that every test may use. Nothing is imported or started before a test asks for it.

The servers are real, one of each for the whole run; a test keeps apart from the others by its own
`database` and its own folder (`tmp_path`). Random tests take `seed` or `rng`: the same for every run unless
`--seed` says otherwise, different for every test, and printed with a failure. Hypothesis goes by the same seed: its
own examples of a run of seed 1, those of the seed in any other. What it finds is kept as an `@example` of the test.

Tests marked guard come last, file by file in an order that the seed shuffles. With `--guard-minutes N` those of them
that would begin later in the run are skipped, which is said of each: continuous integration gets done on a slow machine
too, and tries others the next time.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import time
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pymongo import MongoClient
    from pyspark.sql import SparkSession

    from snapshotter.testing.kafka import KafkaBroker
    from snapshotter.testing.mongodb import MongoDeployment

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=100, print_blob=True)
settings.register_profile("seeded", settings.get_profile("ci"), derandomize=False, database=None)
settings.register_profile(
    "thorough",
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


_SEED = pytest.StashKey[int]()
_BEGAN = pytest.StashKey[float]()
_USUAL = "1"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", default=_USUAL, help="seed of the random tests: a number, or 'random'")
    parser.addoption(
        "--guard-minutes", type=float, help="no test marked guard begins later in the run than this"
    )


@pytest.hookimpl(tryfirst=True)  # before Hypothesis, which reads its options then
def pytest_configure(config: pytest.Config) -> None:
    given = getattr(config, "workerinput", {}).get("seed") or config.getoption("--seed")
    config.stash[_BEGAN] = getattr(config, "workerinput", {}).get("began") or time.time()
    config.stash[_SEED] = random.SystemRandom().getrandbits(32) if given == "random" else int(given)
    if config.stash[_SEED] != int(_USUAL):
        if config.getoption("--hypothesis-profile") is None:
            settings.load_profile("seeded")
        config.option.hypothesis_seed = str(config.stash[_SEED])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A worker of xdist is given the run's seed, or each would take a random one of its own; and when the run began."""
    node.workerinput |= {"seed": node.config.stash[_SEED], "began": node.config.stash[_BEGAN]}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked guard go last, the files in another order for each seed."""

    def place(item: pytest.Item) -> tuple[bool, int]:
        guards = item.get_closest_marker("guard") is not None
        return guards, zlib.crc32(f"{config.stash[_SEED]} {item.path.name}".encode()) if guards else 0

    items.sort(key=place)


def pytest_runtest_setup(item: pytest.Item) -> None:
    minutes = item.config.getoption("--guard-minutes")
    late = minutes is not None and time.time() - item.config.stash[_BEGAN] > 60 * minutes
    if late and item.get_closest_marker("guard"):
        pytest.skip(f"no time left for {item.nodeid}: tests marked guard begin within {minutes:g} minutes")


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.stash[_SEED]} (replay with --seed {config.stash[_SEED]})"


@pytest.fixture(autouse=True, scope="session")
def logs_elsewhere(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands leave no log with the user who runs the tests."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def log_as_it_was() -> Iterator[None]:
    """A command that a test runs in this process sets logging up as its own; the next test begins without that."""
    level = logging.getLogger().level
    yield
    logging.getLogger().setLevel(level)
    if (structlog := sys.modules.get("structlog")) is not None:
        structlog.reset_defaults()


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """This test's own seed; pytest shows the line below when the test fails."""
    run = request.config.stash[_SEED]
    value = zlib.crc32(f"{run} {request.node.nodeid}".encode())
    print(f"seed {value} (of the run: --seed {run})")
    return value


@pytest.fixture
def rng(seed: int) -> random.Random:
    """A random generator with this test's own seed."""
    return random.Random(seed)


@pytest.fixture(scope="session")
def mongodb() -> Iterator[MongoDeployment]:
    """A MongoDB of one node, for the whole run; tests that stop or step down nodes start their own."""
    from snapshotter.testing.mongod_binary import find_mongod, given_uri
    from snapshotter.testing.mongodb import start_mongodb

    # What waits for a quiet server's clock waits 10 s otherwise. A server of somebody else's is taken as it is.
    ours = given_uri() is None and find_mongod() is not None
    quick = {"periodicNoopIntervalSecs": 1} if ours else None
    with start_mongodb(set_parameters=quick) as deployment:
        yield deployment


@pytest.fixture(scope="session")
def mongo_uri(mongodb: MongoDeployment) -> str:
    return mongodb.uri


@pytest.fixture(scope="session")
def mongo_client(mongodb: MongoDeployment) -> MongoClient[dict[str, Any]]:
    return mongodb.client()


@pytest.fixture
def database(mongo_client: MongoClient[dict[str, Any]]) -> Iterator[str]:
    """The name of a database of this test's own, dropped afterwards."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    yield name
    mongo_client.drop_database(name)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A Kafka broker, for the whole run; a test that kills it starts it again."""
    from snapshotter.testing.kafka import start_kafka

    with start_kafka() as broker:
        yield broker


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    """The name of a Kafka topic of this test's own, with one partition."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    kafka.create_topic(name)
    return name


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local Spark with two cores and Delta, for the whole run."""
    from snapshotter.spark_session import LOCAL_CHECKPOINTS, spark_builder
    from tests.support.class_archive import quick_java

    folder = tmp_path_factory.mktemp("spark")
    session = spark_builder(
        "snapshotter-tests",
        {
            **LOCAL_CHECKPOINTS,
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.local.dir": str(folder / "local"),
            # Tests plan much and compute little: compilers never earn what they cost. (Those that run the command line
            # have Spark as it is.)
            "spark.driver.extraJavaOptions": f"{quick_java()} -XX:ReservedCodeCacheSize=512m",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            # Workers are sent functions of the tests' own modules.
            "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1]),
        },
        master="local[2]",
        kafka=True,
    )
    yield session
    session.stop()

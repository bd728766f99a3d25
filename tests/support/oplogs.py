"""A replica set whose oplog really forgets: small, and written over on demand."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from snapshotter.testing.processes import wait_until


@contextmanager
def short_oplog() -> Iterator[MongoDeployment]:
    """One node with an oplog of a megabyte. (Only what a checkpoint holds is ever cut off, so there is one a
    second.)"""
    with start_mongodb(oplog_size_mb=1, extra_args=("--syncdelay", "1")) as deployment:
        yield deployment


@pytest.fixture
def forgetful() -> Iterator[MongoDeployment]:
    """Such a replica set for one test."""
    with short_oplog() as deployment:
        yield deployment


def forget(deployment: MongoDeployment) -> None:
    """Write elsewhere until everything of before has gone from the oplog."""
    client = deployment.client()
    oplog = client["local"]["oplog.rs"]
    last = oplog.find_one(sort=[("$natural", -1)])
    assert last is not None

    def gone() -> bool:
        client["junk"]["junk"].insert_many([{"text": os.urandom(100_000)} for _ in range(20)])
        first = oplog.find_one(sort=[("$natural", 1)])
        return first is not None and first["ts"] > last["ts"]

    wait_until(gone, "the oplog to be cut off")

"""What a real server says of its oplog, and what an engine makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import MongoClient
from structlog.testing import capture_logs

from snapshotter.position.runway import runway_hours
from snapshotter.reading.oplog import look
from snapshotter.reporting.status import Status
from snapshotter.testing.mongodb import MongoDeployment
from streaming.mongo.deployment import majority_time
from tests.support.engines import SECONDS, Lab, lab
from tests.support.mongos import mongos_before
from tests.support.oplogs import forget, forgetful

__all__ = ["forgetful", "lab"]

pytestmark = [pytest.mark.slow, pytest.mark.guard]


def test_a_real_oplog_is_looked_at(forgetful: MongoDeployment) -> None:
    """Its ends, its size, what it may have, and what it has to keep. Once it has rolled over, an early position has no
    runway, and its head has a little."""
    client = forgetful.client()
    early = majority_time(client)
    before = look(client)
    assert before.oldest <= early <= before.newest
    assert before.capacity is not None
    assert before.used is not None
    assert runway_hours(before, early) is None, "it is too young to tell"
    forget(forgetful)
    after = look(client)
    assert after.oldest > early
    assert runway_hours(after, early) == 0
    left = runway_hours(after, after.newest)
    assert left is not None
    assert 0 < left < 1, "a megabyte, and much was written"
    client.admin.command("replSetResizeOplog", 1, size=1000.0, minRetentionHours=5)
    assert look(client).retention_hours == 5
    kept = look(client)
    assert kept.window_hours >= 5


def test_a_short_runway_is_warned_of(lab: Lab, forgetful: MongoDeployment) -> None:
    """At the start, in the log and in the status, with figures; not where the option says never."""
    lab.uri, lab.client = forgetful.uri, forgetful.client()
    forget(forgetful)
    lab.with_options("cluster_time", snapshot__mode="no_data", engine__oplog__warning__hours=48)
    with capture_logs() as logs, lab.running() as engine:
        engine.catch_up(SECONDS)
        engine.until("the warning", lambda: status(lab).warnings, SECONDS)
    said = [line for line in logs if "engine.oplog.warning.hours=48" in line["event"]]
    assert len(said) == 1
    assert said[0]["log_level"] == "warning"
    oplog = status(lab).oplog
    assert oplog is not None
    assert oplog.runway_hours is not None
    assert oplog.runway_hours < 48
    lab.with_options("cluster_time", engine__oplog__warning__hours=0)
    with lab.running() as engine:
        engine.catch_up(SECONDS)
        engine.until("a status", lambda: status(lab).oplog is not None and status(lab).position, SECONDS)
        assert "oplog" not in str(status(lab).warnings)


def status(lab: Lab) -> Status:
    return Status.from_json((lab.state / "status.json").read_text())


def test_through_a_router_only_times_are_known(mongo_uri: str) -> None:
    """It has no oplog to look into, so it counts as full."""
    with mongos_before(mongo_uri) as mongos, MongoClient[dict[str, Any]](mongos.uri) as client:
        found = look(client)
    assert found.oldest < found.newest
    assert (found.used, found.capacity) == (None, None)

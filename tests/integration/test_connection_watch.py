"""How a client's connection fares, as the driver tells it: a server goes and comes back, another term begins."""

from __future__ import annotations

from snapshotter.testing.mongodb import start_mongodb
from snapshotter.testing.processes import wait_until
from streaming.mongo.connection_watch import Connection
from streaming.mongo.deployment import connect, connection_of


def test_what_is_lost_and_who_is_elected_is_counted() -> None:
    """The first look at a deployment is neither. A node that is killed is lost once, however often it is asked for;
    when it is back it leads in another term. A primary that steps down and is elected again does so as well."""
    with start_mongodb() as mongo:
        client = connect(f"{mongo.uri}&heartbeatFrequencyMS=500&serverSelectionTimeoutMS=500")
        client.admin.command("ping")
        wait_until(lambda: connection_of(client).connected, "the driver to tell of it")
        before = connection_of(client)
        assert before == Connection(True, 0, 0)
        mongo.kill(0)
        wait_until(lambda: not connection_of(client).connected, "the loss to be seen")
        assert connection_of(client) == Connection(False, 1, 0)
        mongo.restart(0)
        wait_until(lambda: connection_of(client) == Connection(True, 1, 1), "the node to be back")
        mongo.step_down(1)
        wait_until(lambda: connection_of(client).elections == 2, "the next term to be seen")
        now = connection_of(client)
        assert now.since(before).elections == 2
        assert now.since(now) == Connection(True, 0, 0)

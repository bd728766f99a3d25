"""What another package brings, by entry points, in a real engine: a signal channel, a type of signals, a notification
channel.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from snapshotter.core.values.tasks import TaskState
from tests.support.engines import SECONDS, Lab, lab
from tests.support.packages import install

__all__ = ["lab"]

PACKAGE = """
from signals.channel import received_text
from signals.notification_channel import NotificationChannel

waiting, heard, greeted = {}, [], []


class Pigeons:
    name = "pigeons"

    def __init__(self, context):
        self.loft = context.options["signal.custom.pigeons.loft"]

    def poll(self):
        return [received_text(self.name, name, text, f"pigeon {name}") for name, text in waiting.items()]

    def ack(self, *names):
        for name in names:
            waiting.pop(name, None)

    def health(self):
        return None

    def close(self):
        pass


class Bell(NotificationChannel):
    def __init__(self, engine, options):
        self.tone = options["bell.tone"]

    def send(self, batch):
        heard.extend((self.tone, told.id, told.type) for told in batch)


def greet(signal):
    greeted.append((signal.id, signal.data["to"]))
"""


@pytest.mark.slow
def test_a_package_brings_channels_and_a_type_of_signals(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that its channel delivers starts a backfill, and is acknowledged; what is told of it reaches its
    notification channel, in order; its type of signals is carried out once, though it comes twice. Each was given
    its options."""
    more = {
        "snapshotter.notification_channels": {"bell": "Bell"},
        "snapshotter.signal_actions": {"greet": "greet"},
    }
    points = {"pigeons": "Pigeons"}
    install(tmp_path, monkeypatch, "our_birds", PACKAGE, "snapshotter.signal_channels", points, more)
    birds = importlib.import_module("our_birds")
    lab.with_options("cluster_time", snapshot__mode="no_data")
    lab.options |= {
        "signal.enabled.channels": "pigeons",
        "signal.custom.pigeons.loft": "north",
        "notification.enabled.channels": "bell",
        "notification.custom.bell.tone": "high",
    }
    lab.collection("orders").insert_many([{"_id": n} for n in range(5)])
    request = {"type": "execute-snapshot", "data": {"data-collections": [lab.name("orders")]}}
    with lab.running() as engine:
        greeting = json.dumps({"id": "g", "type": "greet", "data": {"to": "all"}})
        birds.waiting |= {"1": greeting, "2": json.dumps({"id": "q", **request})}
        (task,) = engine.wait("q", SECONDS).tasks
        assert (task.state, task.rows) == (TaskState.DONE, 5)
        engine.until("both to be acknowledged", lambda: not birds.waiting, SECONDS)
        birds.waiting |= {"3": greeting}
        engine.until("the repetition to be acknowledged", lambda: not birds.waiting, SECONDS)
        told = ["STARTED", "IN_PROGRESS", "TABLE_SCAN_COMPLETED", "COMPLETED"]
        engine.until("all to be told", lambda: ("high", "q", "COMPLETED") in birds.heard, SECONDS)
        assert [kind for _, name, kind in birds.heard if name == "q"] == told
        engine.until("the greeting", lambda: birds.greeted, SECONDS)
    assert birds.greeted == [("g", "all")]
    lab.assert_equal("orders")

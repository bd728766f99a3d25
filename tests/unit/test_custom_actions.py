"""Types of signals that another package brings."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from signals.action_plugins import GROUP
from signals.actions import CustomAction, to_json
from signals.errors import MalformedSignal, UnknownSignal
from signals.parsing.signal import parse_signal, parse_signal_text
from snapshotter.intake import custom_actions
from snapshotter.reporting.outcomes import SignalOutcome
from snapshotter.state.journal import Journal
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import MemoryStorage
from snapshotter.testing.processes import wait_until
from streaming.namespaces import Namespace
from tests.support.handling import Handling
from tests.support.packages import install

CODE = """
import threading
seen, go = [], threading.Event()

def greet(signal):
    assert go.wait(60)
    seen.append((signal.id, signal.type, dict(signal.data), signal.engine))
    if signal.data.get("to") == "nobody":
        raise LookupError("who is that at mongodb://u:secret@h/?")
"""
POINTS = {"greet": "greet", "broken": "no_such_function", "log": "greet"}


@dataclass
class Around:
    """An engine that has not begun; what it says becomes of signals."""

    storage: MemoryStorage = field(default_factory=MemoryStorage)
    said: dict[str, str] = field(default_factory=dict)
    client: Any = None
    config: Any = field(default_factory=lambda: SimpleNamespace(name="shop"))

    def __post_init__(self) -> None:
        self.journal, self.store = Journal(self.storage), ProgressStore(self.storage)

    def captured(self) -> list[Namespace]:
        return []

    def refuse(self, signal_id: str, why: str) -> None:
        self.said[signal_id] = why

    def report(self, outcome: SignalOutcome) -> None:
        self.said[outcome.id] = outcome.kind


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installed; its module."""
    install(tmp_path, monkeypatch, "our_actions", CODE, GROUP, POINTS)
    import our_actions  # type: ignore[import-not-found]

    return our_actions


def greeting(name: str, to: str) -> CustomAction:
    action = parse_signal(name, "greet", {"to": to})
    assert isinstance(action, CustomAction)
    return action


def test_a_signal_of_another_package_is_carried_out_once(package: Any) -> None:
    """Alongside what else is handled, and in its order; delivered again, also to the next start, it is not. What its
    function raises is said, without credentials, and harms no other."""
    around = Around()
    handling = Handling(around)
    both = [greeting("g1", "nobody"), greeting("g2", "all")]
    handling.take(*both, greeting("g1", "nobody"))
    assert around.said == {}, "the engine does not wait for the function"
    package.go.set()
    wait_until(lambda: "g2" in around.said, "both to be carried out")
    assert "greet failed: LookupError: who is that" in around.said["g1"]
    assert "secret" not in around.said["g1"]
    assert around.said["g2"] == "greet"
    again = Around(around.storage)
    Handling(again).take(*both)
    assert again.said == {}
    assert package.seen == [("g1", "greet", {"to": "nobody"}, "shop"), ("g2", "greet", {"to": "all"}, "shop")]


def test_what_cannot_be_carried_out_is_said(package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is not there, another content under an id that is taken, and more than may wait."""
    monkeypatch.setattr(custom_actions, "WAITING_MAX", 1)
    around = Around()
    handling = Handling(around)
    handling.take(parse_signal("b", "broken"))
    wait_until(lambda: "b" in around.said, "an answer")
    assert "can't be loaded" in around.said["b"]
    begun = threading.Event()
    monkeypatch.setattr(
        package.go, "wait", lambda seconds: begun.set() or threading.Event.wait(package.go, 60)
    )
    handling.take(greeting("g1", "all"))
    assert begun.wait(60)
    handling.take(greeting("g2", "all"), greeting("g3", "all"), greeting("g1", "us"))
    assert "1 signals of other packages wait already" in around.said["g3"]
    assert "says something else" in around.said["g1"]
    package.go.set()
    wait_until(lambda: "g2" in around.said, "the one that waited")


def test_it_is_read_as_any_other_signal(package: Any) -> None:
    """From a document, or a text; its data is a document, and comes back as it was. The types that exist stay as they
    are, and others are unknown."""
    action = greeting("g1", "all")
    assert parse_signal_text(to_json(action)) == action
    assert parse_signal("g1", "greet", json.dumps({"to": "all"})) == action
    assert parse_signal("g1", "greet") == CustomAction("g1", "greet", "{}")
    with pytest.raises(MalformedSignal, match="must be a document"):
        parse_signal("g1", "greet", [1])
    with pytest.raises(MalformedSignal, match="unknown field"):
        parse_signal("l", "log", {"to": "all"})
    with pytest.raises(UnknownSignal, match=r"unknown type .*broken, execute-snapshot, greet"):
        parse_signal("g1", "greets")

"""`docs/troubleshooting.md` is what the code makes, and no message and no condition is missing there."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from scripts.messages import PACKAGES, Message, Source, messages
from scripts.troubleshooting import page
from snapshotter.failure_classes import CONDITIONS
from tests.support.sources import MODULES, ROOT

FOLDER_OF_TESTS = ("snapshotter.testing", "snapshotter.demo")
# Whose messages are made where they are caught, or by a class below them; or that nobody but our own code ever sees.
TOLD_ELSEWHERE = {
    "ChannelOptionsRefused": "signals.channels.kafka_options gathers several",
    "NotExtendedJson": "signals.parsing.extended_json: of what the driver says",
    "SignalError": "the classes below it",
    "SnapshotterError": "the classes below it",
    "SourceError": "the classes below it",
    "UnexpectedError": "streaming.mongo.errors.as_source_error",
    "AccessDeniedError": "streaming.mongo.errors.as_source_error",
    "EventTooLargeError": "streaming.mongo.errors.as_source_error",
    "TableUnusable": "snapshotter.landing.tables: of what Delta says",
    "StopRequested": "nobody sees it",
    "NeedsSpark": "no error: Spark is taken, and the reason is logged",
}


@pytest.fixture(scope="module")
def made() -> str:
    return page()


def test_the_page_is_made_from_the_code(made: str) -> None:
    """As ``make troubleshooting`` writes it."""
    there = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert there == made, "run `make troubleshooting`"


def test_every_condition_is_on_it(made: str) -> None:
    """With its cause and its next step, and a heading that messages link to."""
    for condition in CONDITIONS.values():
        section = made.split(f"### {condition.name}\n")[1].split("\n### ")[0]
        assert condition.cause[1:] in section
        assert "**Next**" in section
    linked = set(re.findall(r"\]\(#([a-z-]+)\)", made)) - {"conditions", "messages"}
    assert linked <= set(CONDITIONS)
    assert len(linked) > 20


def test_every_kind_of_error_is_on_it() -> None:
    """Each class of errors that the code defines says something, somewhere: none is missed by how texts are read."""
    told = {message.made.__name__ for message in messages()}
    defined = {
        name
        for module in MODULES
        if not module.startswith(FOLDER_OF_TESTS)
        for name, value in vars(importlib.import_module(module)).items()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == module
        if not name.startswith("_")
    }
    assert defined - told == set(TOLD_ELSEWHERE)
    assert {module.split(".")[0] for module in MODULES} == set(PACKAGES)


@pytest.fixture
def planted(tmp_path: Path) -> ModuleType:
    """A module with messages as ours are written."""
    path = tmp_path / "planted.py"
    path.write_text(
        """
import structlog
from snapshotter.errors import ConfigurationError, DefiniteError, Problem

_log = structlog.get_logger("planted")
_STEP = "look at it with snapshotter status"

def refuse(path, late):
    if late:
        raise DefiniteError(f"{path} came {'too late' if late else 'in time'}", _STEP, condition="stream-paused")
    why = "cannot be " "read"
    raise ConfigurationError(f"{path}: {why}", next_step="choose another")

def problems(value):
    yield Problem("capture.scope", f"must not be {value}", value)
    _log.warning("nothing is known of it", why=value)
    raise ValueError(str(value))
"""
    )
    spec = importlib.util.spec_from_file_location("planted", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_texts_are_read_as_they_are_written(planted: ModuleType) -> None:
    """In one piece or several, by a name or as one of two; with the next step, the option and the condition. What only
    a run knows is left open, and what is nothing else says nothing."""

    def told(one: Message) -> tuple[str, ...]:
        return one.made.__name__, one.about, one.text, one.remedy, one.condition

    step = "look at it with snapshotter status"
    assert sorted(told(one) for one in Source(planted).messages()) == [
        ("ConfigurationError", "", "…: cannot be read", "choose another", ""),
        ("DefiniteError", "", "… came in time", step, "stream-paused"),
        ("DefiniteError", "", "… came too late", step, "stream-paused"),
        ("Problem", "capture.scope", "must not be …", "", ""),
        ("UserWarning", "", "nothing is known of it", "", ""),
    ]

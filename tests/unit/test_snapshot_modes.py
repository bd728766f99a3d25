"""What each snapshot mode decides, and modes of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapshotter.configuration.settings import Settings
from snapshotter.configuration.snapshot_decisions import policy
from snapshotter.configuration.snapshot_modes import (
    EVERYTHING,
    GROUP,
    MODES,
    Custom,
    SnapshotPolicy,
    configured,
    custom,
)
from snapshotter.engine.assembly import engine_config
from snapshotter.errors import ConfigurationError, DefiniteError
from tests.support.packages import install

LEAST = {
    "name": "shop",
    "mongodb.connection.string": "mongodb://localhost:27017/?replicaSet=rs0",
    "delta.warehouse": "/lake",
}


@pytest.mark.parametrize(
    ("mode", "first", "later", "streams"),
    [
        ("always", True, True, True),
        ("initial", True, False, True),
        ("initial_only", True, False, False),
        ("no_data", False, False, True),
        ("when_needed", True, False, True),
    ],
)
def test_a_mode_decides_by_whether_there_is_a_position(
    mode: str, first: bool, later: bool, streams: bool
) -> None:
    """Debezium's table for the modes that need no lost position."""
    policy = MODES[mode]
    assert policy.should_snapshot_data(offset_exists=False, snapshot_in_progress=False) is first
    assert policy.should_snapshot_data(offset_exists=True, snapshot_in_progress=False) is later
    assert policy.should_stream() is streams
    assert policy.should_snapshot_on_data_error() is (mode == "when_needed")


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_load_that_goes_on_is_not_begun_again(mode: str) -> None:
    """It is a request, and resumes where it was."""
    assert not MODES[mode].should_snapshot_data(offset_exists=True, snapshot_in_progress=True)


@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_switches(data: bool, stream: bool) -> None:
    """``configuration_based``: every start does what the switches say."""
    policy = configured(snapshot_data=data, start_stream=stream, on_data_error=data)
    for exists in (False, True):
        assert policy.should_snapshot_data(offset_exists=exists, snapshot_in_progress=False) is data
    assert policy.should_stream() is stream
    assert policy.should_snapshot_on_data_error() is data


def decider(mode: str, **more: str) -> SnapshotPolicy:
    """Who decides with ``snapshot.mode`` and more options of that group, ``_`` for dots."""
    given = {f"snapshot.mode.{name.replace('_', '.')}": value for name, value in more.items()}
    return policy(Settings.from_options({**LEAST, "snapshot.mode": mode, **given}, {}).snapshot)


def decisions(policy: SnapshotPolicy) -> set[str]:
    """What is answered with yes."""
    answers = {
        "a first start reads": policy.should_snapshot_data(offset_exists=False, snapshot_in_progress=False),
        "a later start reads": policy.should_snapshot_data(offset_exists=True, snapshot_in_progress=False),
        "changes stream": policy.should_stream(),
        "a lost position is given up": policy.should_snapshot_on_data_error(),
        "tables are made": policy.should_snapshot_schema(offset_exists=False, snapshot_in_progress=False),
        "altered tables are read again": policy.should_snapshot_on_schema_error(),
    }
    return {decision for decision, answer in answers.items() if answer}


def switched(*switches: str) -> set[str]:
    """What ``configuration_based`` decides with these switches on, and the others as they are by default."""
    on = {f"configuration_based_{name}": "true" for name in switches}
    return decisions(decider("configuration_based", **on))


READS, STREAMS, GIVES_UP = (
    {"a first start reads", "a later start reads"},
    {"changes stream"},
    {"a lost position is given up"},
)


@pytest.mark.parametrize(
    ("switch", "alone", "changes"),
    [
        ("snapshot_data", READS, READS),
        ("start_stream", STREAMS, STREAMS),
        ("snapshot_on_data_error", None, GIVES_UP),
        ("snapshot_schema", None, {"tables are made"}),
        ("snapshot_on_schema_error", None, {"altered tables are read again"}),
    ],
)
def test_each_switch_has_its_decision(switch: str, alone: set[str] | None, changes: set[str]) -> None:
    """By the name of its option, and no other decision goes by it. Alone, those that neither read nor stream are
    refused, for such an engine would do nothing."""
    if alone is None:
        with pytest.raises(ConfigurationError) as refusal:
            switched(switch)
        (problem,) = refusal.value.problems
        assert problem.option == "snapshot.mode"
        assert "does nothing" in str(problem)
    else:
        assert switched(switch) == alone
    for other, before in (("snapshot_data", READS), ("start_stream", STREAMS)):
        assert switched(other, switch) == before | changes


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_mode_is_chosen_by_its_name(mode: str) -> None:
    """The option says which table decides."""
    assert decider(mode) is MODES[mode]


def bring(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str) -> None:
    """A package that brings a mode."""
    install(folder, monkeypatch, f"{name}_modes", code, GROUP, {name: "Mine"})


def test_a_mode_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by its entry point; any class with the two decisions will do."""
    code = (
        "class Mine:\n"
        "    def should_snapshot_data(self, offset_exists, snapshot_in_progress): return offset_exists\n"
        "    def should_stream(self): return False\n"
        "    def should_snapshot_on_data_error(self): return True\n"
    )
    bring(tmp_path, monkeypatch, "odd", code)
    policy = custom("odd")
    assert policy.should_snapshot_data(offset_exists=True, snapshot_in_progress=False)
    assert not policy.should_stream()


def test_the_option_names_who_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``custom``: an instance of the class decides, and each decision is its own."""
    code = (
        "class Mine:\n"
        "    def should_snapshot_data(self, offset_exists, snapshot_in_progress):\n"
        "        return offset_exists and not snapshot_in_progress\n"
        "    def should_stream(self): return False\n"
        "    def should_snapshot_on_data_error(self): return True\n"
    )
    bring(tmp_path, monkeypatch, "chosen", code)
    mine = decider("custom", custom_name="chosen")
    assert isinstance(mine, Custom)
    assert type(mine.plugin).__module__ == "chosen_modes"
    assert decisions(mine) == {"a later start reads", "a lost position is given up"}
    assert not mine.should_snapshot_data(offset_exists=True, snapshot_in_progress=True)


@pytest.mark.parametrize(("name", "said"), [("nobodys", "no package brings"), ("", "is required")])
def test_a_name_that_leads_nowhere_is_a_problem_of_its_option(name: str, said: str) -> None:
    """Told with whatever else is wrong, before an engine is made."""
    with pytest.raises(ConfigurationError) as refusal:
        decider("custom", custom_name=name)
    (problem,) = refusal.value.problems
    assert problem.option == "snapshot.mode.custom.name"
    assert said in str(problem)


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        (
            "halfway",
            "class Mine:\n    def should_stream(self): return True\n",
            "it needs should_snapshot_data",
        ),
        ("broken", "class Mine:\n    def __init__(self): raise OSError('no disk')\n", "OSError: no disk"),
        ("absent", "", "could not be made: AttributeError"),
    ],
)
def test_a_mode_that_is_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str, said: str
) -> None:
    """Before anything is started: whose it is, and what is wrong with it."""
    bring(tmp_path, monkeypatch, name, code)
    with pytest.raises(ValueError, match=f"{name}_modes:Mine.*{said}"):
        custom(name)


def test_an_unknown_mode_is_told_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt name is answered with the names that exist."""
    bring(tmp_path, monkeypatch, "weekly", "class Mine: ...\n")
    with pytest.raises(ValueError, match=r"no package brings a snapshot mode 'wekly'.*there are: .*weekly"):
        custom("wekly")


def test_a_mode_without_the_newer_decisions_works_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three decisions are enough: it is called as its entry point is, makes no tables beforehand, reads everything,
    and nobody tells it of an end."""
    bring(tmp_path, monkeypatch, "old", DECIDES)
    old = custom("old")
    assert old.name() == "old"
    assert decisions(old) == {"a first start reads", "a later start reads", "changes stream"}
    assert old.snapshot_query("shop.orders") == EVERYTHING
    old.snapshot_completed()
    old.snapshot_aborted()


DECIDES = """
class Mine:
    def should_snapshot_data(self, offset_exists, snapshot_in_progress): return True
    def should_stream(self): return True
    def should_snapshot_on_data_error(self): return False
"""
WHOLE = (
    DECIDES
    + """
    def __init__(self): self.said, self.asked = [], []
    def name(self): return "whole-one"
    def should_snapshot_schema(self, offset_exists, snapshot_in_progress):
        return not offset_exists and snapshot_in_progress
    def should_snapshot_on_schema_error(self): return True
    def snapshot_query(self, collection):
        self.asked.append(collection)
        return {"shop.orders": '{"total": 1}', "shop.people": None}.get(collection, 7)
    def snapshot_completed(self): self.said.append("completed")
    def snapshot_aborted(self): self.said.append("aborted")
"""
)


def test_a_mode_has_all_decisions_of_debeziums_interface(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name, by which it is found too; the schema switches; a query for each collection, asked once; its hooks."""
    bring(tmp_path, monkeypatch, "whole", WHOLE)
    mine = decider("custom", custom_name="whole-one")
    assert isinstance(mine, Custom)
    assert mine.name() == "whole-one"
    assert mine.should_snapshot_schema(offset_exists=False, snapshot_in_progress=True)
    assert not mine.should_snapshot_schema(offset_exists=True, snapshot_in_progress=True)
    assert mine.should_snapshot_on_schema_error()
    assert [mine.snapshot_query(c) for c in ("shop.orders", "shop.people", "shop.orders")] == [
        '{"total": 1}',
        None,
        '{"total": 1}',
    ]
    assert mine.plugin.asked == ["shop.orders", "shop.people"]
    mine.snapshot_completed()
    mine.snapshot_aborted()
    assert mine.plugin.said == ["completed", "aborted"]
    with pytest.raises(ConfigurationError, match=r"whole-one gave a int as the query of shop\.items"):
        mine.snapshot_query("shop.items")


def test_a_decision_that_fails_is_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says whose class, which decision, and what it raised."""
    bring(tmp_path, monkeypatch, "failing", DECIDES.replace("return True", "return {}['x']"))
    with pytest.raises(DefiniteError, match="mode failing failed in should_stream: KeyError: 'x'") as failed:
        custom("failing").should_stream()
    assert failed.value.next_step == "correct failing_modes.Mine"


def test_a_mode_that_is_read_again_where_a_table_is_altered() -> None:
    """The switch does what ``engine.table.altered=repair`` does."""
    named = {"snapshot.mode": "configuration_based", "snapshot.mode.configuration.based.start.stream": "true"}
    switch = {"snapshot.mode.configuration.based.snapshot.on.schema.error": "true"}
    assert not engine_config(Settings.from_options({**LEAST, **named}, {})).repairs_tables
    assert engine_config(Settings.from_options({**LEAST, **named, **switch}, {})).repairs_tables

"""What signals do before the first batch has come: all of it is durable, and nothing is done twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from signals.actions import (
    ExecuteSnapshot,
    Log,
    PauseSnapshot,
    PauseStream,
    Restart,
    ResumeSnapshot,
    ResumeStream,
    StopSnapshot,
)
from snapshotter.core.rules.signal_batch import Affected
from snapshotter.core.values.memory import ROOM
from snapshotter.core.values.progress import Progress
from snapshotter.core.values.requests import SnapshotRequest, Wanted
from snapshotter.intake.signal_handler import COMMANDS_AT_ONCE, ROOM_OF_COMMANDS
from snapshotter.reading.catalogue import IdReused, digest_of
from snapshotter.reporting.answers import DryRun
from snapshotter.reporting.estimates import ReadingSpeed
from snapshotter.reporting.outcomes import SignalOutcome
from snapshotter.state.journal import Journal
from snapshotter.state.progress_store import ProgressStore
from snapshotter.state.storage import MemoryStorage, StorageError
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from tests.support.handling import Handling

ORDERS, OLD = Namespace("shop", "orders"), Namespace("shop", "orders.old")
REQUEST = ExecuteSnapshot("q1", ("shop.orders.*",))


@dataclass
class Around:
    """An engine that has not begun: it keeps a journal, and says what it refuses."""

    storage: MemoryStorage = field(default_factory=MemoryStorage)
    refused: dict[str, str] = field(default_factory=dict)
    client: Any = None
    config: Any = None
    speed: ReadingSpeed = field(default_factory=ReadingSpeed)
    outcomes: list[SignalOutcome] = field(default_factory=list)
    names: list[Namespace] | None = None

    def __post_init__(self) -> None:
        self.looked = 0
        self.config = SimpleNamespace(requests_max=1_000, allow_code=False)
        self.journal, self.store = Journal(self.storage), ProgressStore(self.storage)
        wanted = Wanted(ORDERS), Wanted(OLD)
        self.journal.add(SnapshotRequest("q1", wanted, digest=digest_of(REQUEST)))

    def captured(self) -> list[Namespace]:
        assert self.names is not None, "nobody asks for the catalogue: the request is known"
        self.looked += 1
        return self.names

    def refuse(self, signal_id: str, why: str) -> None:
        self.refused[signal_id] = why

    def report(self, outcome: SignalOutcome) -> None:
        self.outcomes.append(outcome)


@pytest.fixture
def around() -> Around:
    return Around()


@pytest.fixture
def handling(around: Around) -> Handling:
    return Handling(around)


def states(around: Around) -> list[tuple[bool, list[str]]]:
    """As the next start finds it."""
    waiting = Journal(around.storage).waiting(Progress())
    return [(request.paused, [str(task.state) for task in request.tasks]) for request in waiting]


def test_pause_resume_and_stop(around: Around, handling: Handling) -> None:
    """On requests that wait; a stop names them by patterns, and quotes stand around names with dots."""
    handling.take(PauseSnapshot("p"))
    assert states(around) == [(True, ["waiting", "waiting"])]
    handling.take(ResumeSnapshot("r"))
    handling.take(PauseSnapshot("p"))
    assert states(around) == [(False, ["waiting", "waiting"])]
    handling.take(StopSnapshot("nothing", ("shop.people",)))
    handling.take(StopSnapshot("s", ('shop."orders.old"',)))
    assert states(around) == [(False, ["waiting", "stopped"])]
    handling.take(StopSnapshot("all"))
    assert states(around) == [(False, ["stopped", "stopped"])]
    assert around.refused == {}


def test_the_stream_is_paused_durably_and_once(around: Around, handling: Handling) -> None:
    """The newest word counts, whoever starts the engine next; delivered again, an older one does not."""
    handling.take(PauseStream("p"))
    assert Journal(around.storage).controls.stream_paused
    handling.take(ResumeStream("r"))
    handling.take(PauseStream("p"))
    assert not Journal(around.storage).controls.stream_paused
    assert [(o.id, o.kind, o.again) for o in around.outcomes] == [
        ("p", "pause-stream", False),
        ("r", "resume-stream", False),
        ("p", "pause-stream", True),
    ]
    handling.take(ResumeStream("r2"), PauseStream("p2"))
    assert Journal(around.storage).controls.stream_paused
    assert states(around) == [(False, ["waiting", "waiting"])]


def test_a_restart_is_asked_for_once_it_is_durable(around: Around, handling: Handling) -> None:
    """Delivered again, as after a crash, it restarts nothing."""
    asked = handling.handler.restart_asked
    handling.take(Restart("again"))
    assert asked.is_set()
    asked.clear()
    handling.take(Restart("again"))
    assert not asked.is_set()


def test_another_signal_under_the_id_of_a_pause_is_refused(around: Around, handling: Handling) -> None:
    """It says something else, and nothing is changed."""
    handling.take(PauseStream("p"))
    handling.take(ResumeStream("p"))
    assert Journal(around.storage).controls.stream_paused
    assert "another signal with this id" in around.refused["p"]


def test_commands_about_named_requests(around: Around, handling: Handling) -> None:
    """The others are left alone; one that nobody knows is said, in the command's one line, and does no harm."""
    around.journal.add(SnapshotRequest("q2", (Wanted(ORDERS),)))
    waiting, stopped = ["waiting", "waiting"], ["stopped", "waiting"]
    with capture_logs() as logs:
        handling.take(PauseSnapshot("p1", ("q1", "nobody")))
    assert [(line["log_level"], line["unknown"], line["requests"]) for line in logs] == [
        ("warning", ["nobody"], ["q1"])
    ]
    assert around.outcomes == [SignalOutcome("p1", "pause-snapshot", Affected(("q1",), 1), ("nobody",))]
    assert states(around) == [(True, waiting), (False, ["waiting"])]
    handling.take(PauseSnapshot("p2"))
    handling.take(ResumeSnapshot("r", ("q2",)))
    assert states(around) == [(True, waiting), (False, ["waiting"])]
    handling.take(StopSnapshot("s", ("shop.orders",), requests=("q1",)))
    assert states(around) == [(True, stopped), (False, ["waiting"])]
    handling.take(PauseSnapshot("p1", ("q2",)))
    assert "says something else" in around.refused["p1"]


def test_an_id_means_one_thing(around: Around, handling: Handling) -> None:
    """Whatever took it, and whatever comes under it: refused, and said; the same again is not."""
    handling.take(REQUEST)
    handling.take(PauseSnapshot("p"))
    assert around.refused == {}
    handling.take(ExecuteSnapshot("q1", ("shop.people",)))
    handling.take(ExecuteSnapshot("p", ("shop.people",)))
    handling.take(ResumeSnapshot("p"))
    handling.take(PauseSnapshot("q1"))
    assert {i: "says something else" in why for i, why in around.refused.items()} == {"q1": True, "p": True}
    assert states(around) == [(True, ["waiting", "waiting"])]
    with pytest.raises(IdReused, match="'q1'"):
        handling.accept(ExecuteSnapshot("q1", ("shop.people",)))


def test_a_request_that_has_ended_is_remembered(around: Around, handling: Handling) -> None:
    """By the journal, when nobody else knows it: here the progress has forgotten it already."""
    (request,) = around.journal.waiting(Progress())
    for task in request.tasks:
        request = request.with_task(task.stopped())
    around.journal.forget(Progress(requests=(request,)))
    handling.take(REQUEST)
    handling.take(ExecuteSnapshot("q1", ("shop.people",)))
    assert list(around.refused) == ["q1"]
    assert around.journal.requests == ()


def test_a_message_for_the_log(handling: Handling, around: Around) -> None:
    """With the position where it says so; once, however often it comes, and what else comes under its id is refused."""
    around.store.save(Progress(batch_id=3, position=ClusterTime(5, 1)))
    with capture_logs() as logs:
        handling.take(Log("l", "we are at {}"))
        handling.take(Log("l", "we are at {}"))
        handling.take(Log("l", "we are elsewhere"))
    assert [line["event"] for line in logs] == [f"we are at {ClusterTime(5, 1)}"]
    assert list(around.refused) == ["l"]


def orders(name: str) -> ExecuteSnapshot:
    return ExecuteSnapshot(name, ("shop.orders",))


def written(around: Around) -> list[str]:
    """Watches which files are written."""
    names: list[str] = []
    write = around.storage.write_text

    def write_text(name: str, text: str) -> None:
        names.append(name)
        write(name, text)

    around.storage.write_text = write_text  # type: ignore[method-assign]
    return names


def test_signals_that_come_together_are_durable_at_once(around: Around, handling: Handling) -> None:
    """One write and one look at the catalogue, however many there are; a stop in their midst reaches what came before
    it, and nothing that came after. A repetition is known, and the wrong ones hide none of the others."""
    around.names = [ORDERS]
    names = written(around)
    early, late = [[orders(f"{when}-{n}") for n in range(20)] for when in ("early", "late")]
    handling.take(
        *early, orders("early-0"), orders("early-0"), StopSnapshot("s"), *late, PauseSnapshot("early-1")
    )
    assert (names, around.looked) == (["journal.json"], 1)
    assert states(around) == [
        (False, ["stopped", "stopped"]),
        *[(False, ["stopped"])] * 20,
        *[(False, ["waiting"])] * 20,
    ]
    assert list(around.refused) == ["early-1"]
    assert around.outcomes == [
        SignalOutcome("s", "stop-snapshot", Affected(("q1", *(a.id for a in early)), 21))
    ]


def test_all_of_a_delivery_is_taken_or_nothing(around: Around, handling: Handling) -> None:
    """The write fails: what was to be told is not, and the same signals once more lead to the same."""
    around.names = [ORDERS]
    together = orders("q2"), StopSnapshot("s"), orders("q3")

    def broken(name: str, text: str) -> None:
        raise StorageError("the disk is full")

    write, around.storage.write_text = around.storage.write_text, broken  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        handling.take(*together)
    assert around.outcomes == []
    around.storage.write_text = write  # type: ignore[method-assign]
    for _ in range(2):
        handling.take(*together)
    assert [state for _, state in states(around)] == [["stopped", "stopped"], ["stopped"], ["waiting"]]
    assert [(o.affected, o.again) for o in around.outcomes] == [
        (Affected(("q1", "q2"), 2), False),
        (Affected(), True),
    ]


def test_no_more_requests_wait_than_are_allowed(around: Around, handling: Handling) -> None:
    """Beyond that they are refused by the option's name, until some have ended. A request that would fill the state by
    itself is refused, too."""
    around.names = [ORDERS]
    around.config.requests_max = 3
    handling.take(
        *(orders(f"r{n}") for n in range(4)), StopSnapshot("s", requests=("q1",)), orders("r4"), orders("r5")
    )
    assert {name: "engine.requests.max" in why for name, why in around.refused.items()} == dict.fromkeys(
        ("r2", "r3", "r5"), True
    )
    around.config.requests_max = 9
    huge = tuple(f'"{n}{"x" * 900}"' for n in range(10_000))
    handling.take(ExecuteSnapshot("huge", ("shop.orders",), keys=huge))
    assert "characters of state" in around.refused["huge"]


def test_a_dry_run_is_estimated_at_the_speed_that_was_measured(
    around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the newest one that the status knows when the question comes; at none before there is one."""
    around.names, around.client = [ORDERS], object()

    def estimate(request: SnapshotRequest, client: object, speed: float | None) -> DryRun:
        assert client is around.client
        return DryRun(id=request.id, answered_at=datetime.now(UTC), rows_per_second=speed)

    monkeypatch.setattr("snapshotter.intake.signal_handler.estimate", estimate)
    handling, found = Handling(around), []
    for speed in (None, 2_000.0, 500.0):
        around.speed.newest = speed
        found.append(handling.dry_run(ExecuteSnapshot("d", ("shop.orders",), dry_run=True)).rows_per_second)
    assert found == [None, 2_000.0, 500.0]


def test_commands_have_a_limit(around: Around, handling: Handling) -> None:
    """All of one delivery must be remembered, for a crash delivers them again."""
    handling.take(*(PauseSnapshot(f"p{n}") for n in range(COMMANDS_AT_ONCE + 1)))
    assert list(around.refused) == [f"p{COMMANDS_AT_ONCE}"]
    assert len(around.journal.controls.taken) == COMMANDS_AT_ONCE
    assert {o.affected for o in around.outcomes} == {Affected(("q1",), 1)}


def test_where_all_that_is_remembered_is_young_more_is_refused(around: Around, handling: Handling) -> None:
    """Rather than an id forgotten before its time: that signal could be handled twice. What is known is known still."""
    around.names = [ORDERS]
    moment = around.journal.moment()
    full = {f"x{n}": "" for n in range(ROOM - 2)}  # one request waits
    around.journal.decide(around.journal.controls.remembering(full, moment))
    handling.take(PauseSnapshot("p"), ResumeSnapshot("r"), orders("q2"), Log("l", "hello"))
    assert {
        name: "engine.signals.remember.ms" in why for name, why in around.refused.items()
    } == dict.fromkeys(("r", "q2", "l"), True)
    around.refused.clear()
    handling.take(PauseSnapshot("p"), REQUEST)
    assert around.refused == {}
    assert states(around) == [(True, ["waiting", "waiting"])]


def test_what_is_under_way_can_be_stopped_when_no_request_is_remembered_any_more(
    around: Around, handling: Handling
) -> None:
    """Of all that can be remembered, a part is for commands alone."""
    around.names = [ORDERS]
    full = {f"x{n}": "" for n in range(ROOM - 2 - ROOM_OF_COMMANDS)}  # one request waits
    around.journal.decide(around.journal.controls.remembering(full, around.journal.moment()))
    handling.take(orders("q2"))
    assert around.refused == {}
    handling.take(orders("q3"), Log("l", "hello"), StopSnapshot("s"))
    assert set(around.refused) == {"q3", "l"}
    assert [outcome.id for outcome in around.outcomes] == ["s"]

"""What signals do before the first batch has come: all of it is durable, and nothing is done twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from signals.actions import ExecuteSnapshot, Log, PauseSnapshot, ResumeSnapshot, StopSnapshot
from snapshotter.catalogue import IdReused, digest_of
from snapshotter.core.progress import Progress
from snapshotter.core.requests import SnapshotRequest, Wanted
from snapshotter.obedience import Obedience, Obeying
from snapshotter.progress_store import Journal, ProgressStore
from snapshotter.storage import MemoryStorage
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

ORDERS, OLD = Namespace("shop", "orders"), Namespace("shop", "orders.old")
REQUEST = ExecuteSnapshot("q1", ("shop.orders.*",))


@dataclass
class Around:
    """An engine that has not begun: it keeps a journal, and says what it refuses."""

    storage: MemoryStorage = field(default_factory=MemoryStorage)
    refused: dict[str, str] = field(default_factory=dict)
    run_state: None = None
    client: Any = None

    def __post_init__(self) -> None:
        self.journal, self.store = Journal(self.storage), ProgressStore(self.storage)
        wanted = Wanted(ORDERS), Wanted(OLD)
        self.journal.add(SnapshotRequest("q1", wanted, digest=digest_of(REQUEST)))

    def captured(self) -> list[Namespace]:
        raise AssertionError("nobody asks for the catalogue: the request is known")

    def refuse(self, signal_id: str, why: str) -> None:
        self.refused[signal_id] = why


@pytest.fixture
def around() -> Around:
    return Around()


@pytest.fixture
def obedience(around: Around) -> Obedience:
    return Obedience(cast(Obeying, around))


def states(around: Around) -> list[tuple[bool, list[str]]]:
    """As the next start finds it."""
    waiting = Journal(around.storage).waiting(Progress())
    return [(request.paused, [str(task.state) for task in request.tasks]) for request in waiting]


def test_pause_resume_and_stop(around: Around, obedience: Obedience) -> None:
    """On requests that wait; a stop names them by patterns, and quotes stand around names with dots."""
    obedience.obey(PauseSnapshot("p"))
    assert states(around) == [(True, ["waiting", "waiting"])]
    obedience.obey(ResumeSnapshot("r"))
    obedience.obey(PauseSnapshot("p"))
    assert states(around) == [(False, ["waiting", "waiting"])]
    obedience.obey(StopSnapshot("nothing", ("shop.people",)))
    obedience.obey(StopSnapshot("s", ('shop."orders.old"',)))
    assert states(around) == [(False, ["waiting", "stopped"])]
    obedience.obey(StopSnapshot("all"))
    assert states(around) == [(False, ["stopped", "stopped"])]
    assert around.refused == {}


def test_commands_about_named_requests(around: Around, obedience: Obedience) -> None:
    """The others are left alone; one that nobody knows is said, and does no harm."""
    around.journal.add(SnapshotRequest("q2", (Wanted(ORDERS),)))
    waiting, stopped = ["waiting", "waiting"], ["stopped", "waiting"]
    with capture_logs() as logs:
        obedience.obey(PauseSnapshot("p1", ("q1", "nobody")))
    assert [line.get("unknown") for line in logs] == [["nobody"], None]
    assert states(around) == [(True, waiting), (False, ["waiting"])]
    obedience.obey(PauseSnapshot("p2"))
    obedience.obey(ResumeSnapshot("r", ("q2",)))
    assert states(around) == [(True, waiting), (False, ["waiting"])]
    obedience.obey(StopSnapshot("s", ("shop.orders",), requests=("q1",)))
    assert states(around) == [(True, stopped), (False, ["waiting"])]
    obedience.obey(PauseSnapshot("p1", ("q2",)))
    assert "says something else" in around.refused["p1"]


def test_an_id_means_one_thing(around: Around, obedience: Obedience) -> None:
    """Whatever took it, and whatever comes under it: refused, and said; the same again is not."""
    obedience.obey(REQUEST)
    obedience.obey(PauseSnapshot("p"))
    assert around.refused == {}
    obedience.obey(ExecuteSnapshot("q1", ("shop.people",)))
    obedience.obey(ExecuteSnapshot("p", ("shop.people",)))
    obedience.obey(ResumeSnapshot("p"))
    obedience.obey(PauseSnapshot("q1"))
    assert {i: "says something else" in why for i, why in around.refused.items()} == {"q1": True, "p": True}
    assert states(around) == [(True, ["waiting", "waiting"])]
    with pytest.raises(IdReused, match="'q1'"):
        obedience.accept(ExecuteSnapshot("q1", ("shop.people",)))


def test_a_request_that_has_ended_is_remembered(around: Around, obedience: Obedience) -> None:
    """By the progress, once the journal has let go of it."""
    (request,) = around.journal.waiting(Progress())
    for task in request.tasks:
        request = request.with_task(task.stopped())
    around.store.save(Progress(batch_id=3, position=ClusterTime(5, 1), requests=(request,)))
    around.journal.forget(Progress(requests=(request,)))
    obedience.obey(REQUEST)
    obedience.obey(ExecuteSnapshot("q1", ("shop.people",)))
    assert list(around.refused) == ["q1"]
    assert around.journal.requests == ()


def test_a_message_for_the_log(obedience: Obedience, around: Around) -> None:
    """With the position where it says so."""
    around.store.save(Progress(batch_id=3, position=ClusterTime(5, 1)))
    with capture_logs() as logs:
        obedience.obey(Log("l", "we are at {}"))
    assert [line["event"] for line in logs] == [f"we are at {ClusterTime(5, 1)}"]

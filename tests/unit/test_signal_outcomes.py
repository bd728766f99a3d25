"""What became of signals, where operators look: each once, the newest of them."""

from __future__ import annotations

from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from snapshotter.core.rules.signal_batch import Affected
from snapshotter.reporting.outcomes import SignalOutcome
from snapshotter.reporting.signal_outcomes import SignalOutcomes
from snapshotter.reporting.status import EngineState, Status
from snapshotter.reporting.status_collection import StatusCollection


@pytest.fixture
def outcomes() -> SignalOutcomes:
    """Without a status collection."""
    return SignalOutcomes(StatusCollection(cast(Any, None), None, "shop", lambda: "one"))


def test_a_refusal_is_logged_once(outcomes: SignalOutcomes) -> None:
    """A batch that is repeated shows the signal again; another reason is news."""
    with capture_logs() as logs:
        for why in ("no such type", "no such type", "no such collection"):
            outcomes.refuse("typo", why)
    assert [line["why"] for line in logs] == [
        "signal 'typo': no such type",
        "signal 'typo': no such collection",
    ]


def test_the_newest_commands_are_in_the_status(outcomes: SignalOutcomes) -> None:
    """With what they met; one that was handled before keeps what was said then."""
    met = Affected(("q1",), 1)
    outcomes.report(SignalOutcome("p", "pause-snapshot", met, ("nobody",)))
    outcomes.report(SignalOutcome("p", "pause-snapshot", again=True))
    outcomes.report(SignalOutcome("before", "log", again=True))
    status = outcomes.told(Status(name="shop", state=EngineState.RUNNING))
    told = status.command("p")
    assert told is not None
    assert (told.type, told.requests, told.met, told.unknown) == ("pause-snapshot", ("q1",), 1, ("nobody",))
    assert status.command("before") is not None
    assert Status.from_json(status.to_json()) == status
    for number in range(150):
        outcomes.report(SignalOutcome(f"l{number}", "log"))
    newest = outcomes.told(status).commands
    assert (len(newest), newest[-1].id, newest[0].id) == (100, "l149", "l50")

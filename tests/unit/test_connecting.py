"""A MongoDB that is away at the start: what is waited for, how often, and what ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from pymongo.errors import ConfigurationError as DriverConfigurationError
from pymongo.errors import OperationFailure, ServerSelectionTimeoutError

from snapshotter.configuration.patience import Reconnects
from snapshotter.engine.connecting import reach
from snapshotter.errors import EXIT_OK, DefiniteError, GaveUp, Stopped, exit_code
from streaming.mongo.errors import as_source_error

QUICK = Reconnects(attempts=3, initial_ms=1, most_ms=2)
AWAY = as_source_error(ServerSelectionTimeoutError("h:1: refused"), "cannot reach mongodb://me:pw@h:1/")


def answering(*answers: Exception | None) -> Callable[[], None]:
    """A server that answers so, one attempt after another."""
    left = iter(answers)

    def check() -> None:
        if (error := next(left)) is not None:
            raise error

    return check


def test_it_is_waited_for() -> None:
    """Each attempt is said: which one it is, of how many, after which pause, at what time, and why; no password."""
    said: list[str] = []
    reach(answering(AWAY, AWAY, None), QUICK, threading.Event(), said.append)
    assert len(said) == 2
    assert "attempt 1 of 3 in 0.001 s, at " in said[0]
    assert "attempt 2 of 3 in 0.002 s" in said[1]
    assert "refused" in said[0]
    assert "pw" not in said[0]


def test_a_server_that_is_there_is_not_waited_for() -> None:
    """Nothing is said."""
    said: list[str] = []
    reach(answering(None), QUICK, threading.Event(), said.append)
    assert said == []


def test_it_is_given_up_after_so_many_attempts() -> None:
    """With the option's name and what to do; another start may help."""
    with pytest.raises(
        GaveUp, match=r"gave up after 3 attempts to reconnect \(connect\.max\.attempts\)"
    ) as ended:
        reach(answering(*[AWAY] * 4), QUICK, threading.Event(), lambda text: None)
    assert exit_code(ended.value) == 4
    assert "mongodb.connection.string" in (ended.value.next_step or "")


@pytest.mark.parametrize(
    "error",
    [
        OperationFailure("Authentication failed.", 18),
        OperationFailure("not authorized on shop", 13),
        DriverConfigurationError("no such option"),
        DefiniteError("the user lacks find", condition="source-denied"),
        ValueError("a defect"),
    ],
    ids=repr,
)
def test_what_waiting_does_not_cure_is_raised_at_once(error: Exception) -> None:
    """Credentials, privileges, options."""
    said: list[str] = []
    with pytest.raises(type(error)):
        reach(answering(error), QUICK, threading.Event(), said.append)
    assert said == []


def test_a_stop_ends_the_wait() -> None:
    """At once, and as what it is: no failure."""
    stop = threading.Event()
    hours = Reconnects(attempts=3, initial_ms=3_600_000, most_ms=3_600_000)
    with pytest.raises(Stopped) as ended:
        reach(answering(AWAY), hours, stop, lambda text: stop.set())
    assert exit_code(ended.value) == EXIT_OK

"""Properties of how errors are diagnosed: whatever comes has one condition, a class and a next step."""

from __future__ import annotations

import builtins
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymongo import errors as driver

from snapshotter import diagnosis
from snapshotter.diagnosis import condition_of_text, diagnosis_of
from snapshotter.engine.auto_restart import may_restart
from snapshotter.errors import (
    EXIT_CONFIGURATION,
    EXIT_DEFINITE,
    EXIT_GAVE_UP,
    EXIT_INTERRUPTED,
    describe,
)
from snapshotter.failure_classes import CONDITIONS, UNEXPECTED, FailureClass
from snapshotter.failures import _CLASSES, Fault, Link
from streaming.mongo.server_codes import CODES, Kind

EVERY_CODE = {EXIT_CONFIGURATION, EXIT_DEFINITE, EXIT_GAVE_UP, EXIT_INTERRUPTED}
known = sorted({*_CLASSES, *diagnosis._TELLING_CLASSES, *diagnosis._GENERAL_CLASSES})
words = st.one_of(
    st.text(max_size=80),
    st.sampled_from(
        ["No space left on device", "503 Slow Down", "java.io.IOException: x", "ExecutorLostFailure"]
    ),
)
links = st.builds(
    Link,
    source=st.one_of(st.none(), st.sampled_from(Kind)),
    classes=st.lists(st.one_of(st.sampled_from(known), st.text(max_size=8)), max_size=3).map(tuple),
    words=words,
)
of_python = [
    kind for kind in vars(builtins).values() if isinstance(kind, type) and issubclass(kind, Exception)
]
of_the_driver = [
    kind for kind in vars(driver).values() if isinstance(kind, type) and issubclass(kind, driver.PyMongoError)
]


ARGUMENTS: tuple[tuple[Any, ...], ...] = (
    ("x",),
    ({"writeErrors": []},),
    ("x", [ValueError("y")]),
    ("utf-8", b"", 0, 1, "x"),
    ("utf-8", "", 0, 1, "x"),
    ("", 0, 1, "x"),
    ({}, False),
    (ValueError("x"), []),
)


def made(kind: type[Exception]) -> Exception:
    """One of this class, with the first arguments that it takes."""
    for arguments in ARGUMENTS:
        with suppress(TypeError, AttributeError):
            return kind(*arguments)
    raise AssertionError(f"say in ARGUMENTS how {kind} is made")


@given(st.lists(links, max_size=4))
def test_every_chain_has_one_condition(chain: list[Link]) -> None:
    """Total, and the same each time; its class is one of the eight, and its next step says something."""
    found = diagnosis_of(chain)
    assert found == diagnosis_of(list(chain))
    assert found.condition is CONDITIONS[found.condition.name]
    assert found.failure in FailureClass
    assert len(found.condition.next_step.split()) > 3


@given(st.lists(links, max_size=4))
def test_a_restart_is_never_for_what_it_cannot_cure(chain: list[Link]) -> None:
    """Not for options, credentials, privileges, a lost position, nor for anything definite."""
    found = diagnosis_of(chain)
    if may_restart(found):
        assert found.failure not in (
            FailureClass.CONFIGURATION,
            FailureClass.PERMISSION,
            FailureClass.POSITION_LOST,
        )
        assert found.fault not in (Fault.DEFINITE, Fault.SESSION_LOST)


@given(st.text())
def test_any_text_is_described(text: str) -> None:
    """An error of unknown kind with any message has a class, a next step and an exit code; nothing is raised."""
    found = describe(RuntimeError(text))
    assert found.failure in FailureClass
    assert found.next_step
    assert found.exit_code in EVERY_CODE
    assert condition_of_text(text).name in CONDITIONS


@pytest.mark.parametrize("kind", of_python, ids=lambda kind: kind.__name__)
def test_every_error_of_python_has_a_class_and_a_next_step(kind: type[Exception]) -> None:
    """Whatever it is that Python can raise."""
    found = describe(made(kind))
    assert found.failure in FailureClass
    assert found.next_step
    assert found.exit_code in EVERY_CODE


@pytest.mark.parametrize("kind", of_the_driver, ids=lambda kind: kind.__name__)
def test_every_error_of_the_driver_has_a_class_and_a_next_step(kind: type[Exception]) -> None:
    """Whatever it is that MongoDB's driver can raise."""
    found = describe(made(kind))
    assert found.failure in FailureClass
    assert found.next_step


@pytest.mark.parametrize("code", sorted(CODES))
def test_no_code_of_the_server_that_is_known_is_unexpected(code: int) -> None:
    """Each is one of the states that a person can do something about."""
    assert describe(driver.OperationFailure("x", code)).condition not in UNEXPECTED


@pytest.mark.parametrize("name", sorted(name for name, fault in _CLASSES.items() if fault.may_pass))
def test_no_class_that_may_pass_is_unexpected(name: str) -> None:
    """What is worth another attempt has a name of its own."""
    assert diagnosis_of([Link(classes=(name,))]).expected


def test_every_condition_can_be_met() -> None:
    """No state that nothing leads to, and no table that leads to a state that there is not."""
    led_to = {
        *diagnosis._AT_SOURCE.values(),
        *diagnosis._TELLING_CLASSES.values(),
        *diagnosis._GENERAL_CLASSES.values(),
        *diagnosis._BY_FAULT.values(),
        *(condition for _, condition in diagnosis._WORDS),
    }
    assert led_to <= set(CONDITIONS)
    assert set(CONDITIONS) - led_to == {"stream-paused"}  # which the engine names itself

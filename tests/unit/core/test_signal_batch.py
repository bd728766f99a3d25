"""`core.rules.signal_batch`: signals that come together lead to what they would have led to one by one."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from snapshotter.core.machine import Machine
from snapshotter.core.rules.signal_batch import AFFECTED_SHOWN, Affected, SignalBatch
from snapshotter.core.values import inputs as inp
from snapshotter.core.values.commands import Command, Pause, Resume, Stop
from snapshotter.core.values.controls import Controls
from snapshotter.core.values.effects import SaveControls
from snapshotter.core.values.limits import Limits
from snapshotter.core.values.progress import Progress, RequestProgress
from snapshotter.core.values.requests import SnapshotRequest
from tests.support.taken import taken

from .some import ITEMS, ORDERS, bound, request

NAMES = ("q1", "q2", "q3", "q4")
RUNNING = RequestProgress.accepted(request("q1", ORDERS, ITEMS))
RUNNING = RUNNING.with_task(
    RUNNING.tasks[0].opened(bound("k9"), 9, ordered_keys=True).begun(table_empty=False)
)
FAILED = RequestProgress.accepted(request("q2", ORDERS))
FAILED = FAILED.with_task(FAILED.tasks[0].failed("reset"))
EXISTING = (RUNNING, FAILED)

some_requests = st.none() | st.frozensets(st.sampled_from(NAMES), min_size=1)
commands = st.one_of(
    st.builds(Pause, st.just(""), some_requests),
    st.builds(Resume, st.just(""), some_requests),
    st.builds(
        Stop,
        st.just(""),
        some_requests,
        st.none() | st.frozensets(st.sampled_from([ORDERS, ITEMS])),
    ),
)
signals = st.lists(commands | st.builds(request, st.sampled_from(NAMES[2:]), st.just(ORDERS)), max_size=12)


def named(said: Sequence[object]) -> list[SnapshotRequest | Command]:
    """Each command under an id of its own, each request id once: the rest is known before anything is taken."""
    found: list[SnapshotRequest | Command] = []
    for number, signal in enumerate(said):
        if isinstance(signal, SnapshotRequest):
            if signal.id not in {s.id for s in found}:
                found.append(signal)
        else:
            assert isinstance(signal, (Pause, Resume, Stop))
            found.append(type(signal)(f"c{number}", *[getattr(signal, n) for n in signal.__slots__[1:]]))
    return found


def machine() -> Machine:
    return Machine("a", Progress(1, requests=EXISTING), Limits(), in_stream=True)


def one_by_one(said: Sequence[SnapshotRequest | Command]) -> Machine:
    """By the plain rule of each."""
    it = machine()
    for signal in said:
        if isinstance(signal, SnapshotRequest):
            it.step(inp.SignalsTaken((signal,), it.controls))
        else:
            controls = it.controls.deciding(signal, it.progress.requests)
            it.step(inp.SignalsTaken((), controls.remembering({signal.id: signal.digest})))
    return it


@given(signals)
def test_together_is_as_one_by_one(several: list[object]) -> None:
    """In the machine, and for a start that finds it all in the journal; the commands are remembered in their order."""
    said = named(several)
    expected, told = one_by_one(said), taken(machine(), *said)
    it = machine()
    effects = it.step(told)
    assert it.progress == expected.progress
    assert list(told.controls.taken.items()) == list(expected.controls.taken.items())
    assert (SaveControls(told.controls) in effects) == (told.controls != Controls())
    again = Machine("b", Progress(1, requests=EXISTING), Limits(), in_stream=True, controls=told.controls)
    again.step(told)
    assert again.progress == expected.progress


@given(signals)
def test_what_a_command_met_is_what_it_changed(several: list[object]) -> None:
    """Judged by the states before and after it, one by one."""
    said = named(several)
    batch = SignalBatch(EXISTING, Controls())
    for number, signal in enumerate(said):
        if isinstance(signal, SnapshotRequest):
            batch.accept(signal)
            continue
        before = {r.id: r for r in one_by_one(said[:number]).progress.requests}
        after = one_by_one(said[: number + 1]).progress.requests
        changed = {r.id for r in after if before[r.id] != r}
        affected = set(batch.apply(signal).requests)
        paused = {r.id for r in before.values() if isinstance(signal, Pause) and r.paused}
        assert changed <= affected <= changed | paused


def test_ids_that_nobody_has() -> None:
    """Are said of the command that names them, in order."""
    batch = SignalBatch(EXISTING, Controls())
    assert batch.unknown(Stop("s", frozenset({"q9", "q1", "q8"}))) == ("q8", "q9")
    assert batch.unknown(Stop("s")) == ()


def test_a_repeated_command_costs_nothing() -> None:
    """A thousand stops in a row are a thousand ids to remember, and one stop; each pause affected what the first one
    did."""
    batch = SignalBatch(EXISTING, Controls())
    affected = {batch.apply(Pause(f"p{n}")) for n in range(1_000)}
    assert affected == {Affected(("q1",), 1)}
    assert [batch.apply(Stop(f"s{n}")).count for n in range(3)] == [1, 0, 0]
    assert (batch.open, batch.names, batch.commands) == (0, frozenset(), 1_003)


def test_of_very_many_some_are_named() -> None:
    """All are affected and counted."""
    many = [RequestProgress.accepted(request(f"q{n}", ORDERS)) for n in range(2 * AFFECTED_SHOWN)]
    affected = SignalBatch(many, Controls()).apply(Stop("s"))
    assert (len(affected.requests), affected.count) == (AFFECTED_SHOWN, 2 * AFFECTED_SHOWN)

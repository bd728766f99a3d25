"""What the engine may rely on, whichever channel a signal comes by: each promise of `signals.channel`, by all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from signals.channel import SignalChannel
from signals.errors import SignalError
from tests.support.signal_channels import (
    CustomRig,
    FileRig,
    InboxRig,
    InProcessRig,
    KafkaRig,
    Rig,
    ack_all,
    log,
    numbers,
    polled,
)


@pytest.fixture(params=["inbox", "file", "kafka", "custom", "in-process"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    match request.param:
        case "inbox":
            return InboxRig()
        case "file":
            return FileRig(tmp_path)
        case "kafka":
            return KafkaRig(request.getfixturevalue("kafka"), request.getfixturevalue("topic"))
        case "custom":
            return CustomRig()
        case _:
            return InProcessRig()


class Starts:
    """Starts of an engine: each has the channel opened anew; those before are as good as dead."""

    def __init__(self, rig: Rig, stack: ExitStack) -> None:
        self._rig, self._stack = rig, stack

    def next(self) -> SignalChannel:
        return self._stack.enter_context(closing(self._rig.open()))


@pytest.fixture
def starts(rig: Rig) -> Iterator[Starts]:
    with ExitStack() as stack:
        yield Starts(rig, stack)


def test_signals_come_in_the_order_they_were_sent(rig: Rig, starts: Starts) -> None:
    """Each as it was asked for, with its id, under a name of its own, and from the channel that it names."""
    sent = [log(number) for number in (3, 4, 5, 6)]
    rig.send(*sent)
    channel = starts.next()
    found = polled(channel, 4)
    assert [item.action for item in found] == sent
    assert [item.id for item in found] == [action.id for action in sent]
    assert len({item.name for item in found}) == 4
    assert {item.channel for item in found} == {channel.name}
    assert channel.health() is None


def test_a_signal_is_shown_until_it_is_acknowledged(rig: Rig, starts: Starts) -> None:
    """Polling alone takes nothing; what was acknowledged does not come back, twice over is fine, and a later signal
    comes alone."""
    rig.send(log(1), log(2))
    channel = starts.next()
    first, second = polled(channel, 2)
    assert channel.poll() == [first, second]
    channel.ack(first.name)
    channel.ack(first.name)
    assert channel.poll() == [second]
    channel.ack(second.name)
    assert channel.poll() == []
    rig.send(log(3))
    assert numbers(polled(channel)) == [3]


def test_what_is_not_acknowledged_comes_again_after_a_restart(rig: Rig, starts: Starts) -> None:
    """Under the same names and ids, and in the same order, so that it can be recognised."""
    rig.send(log(1), log(2), log(3))
    found = polled(starts.next(), 3)
    assert polled(starts.next(), 3) == found


def test_what_is_acknowledged_does_not_come_again(rig: Rig, starts: Starts) -> None:
    """Over two restarts, with signals sent before, between and after: each exactly once."""
    seen: list[int] = []
    for start in range(3):
        rig.send(log(2 * start))
        channel = starts.next()
        found = polled(channel)
        ack_all(channel, found)
        rig.send(log(2 * start + 1))  # while the engine is down, or just not looking
        seen += numbers(found)
    seen += numbers(polled(starts.next()))
    assert seen == [0, 1, 2, 3, 4, 5]


def test_acknowledged_out_of_order(rig: Rig, starts: Starts) -> None:
    """A signal whose outcome is still open is not forgotten because a later one is done."""
    rig.send(log(1), log(2), log(3))
    channel = starts.next()
    first, second, third = polled(channel, 3)
    channel.ack(second.name)
    assert channel.poll() == [first, third]
    again = starts.next()
    assert numbers(polled(again, 2))[0] == 1
    ack_all(again, again.poll())
    rig.send(log(4))
    assert numbers(polled(starts.next())) == [4]


def test_what_is_no_signal_hides_no_other(rig: Rig, starts: Starts) -> None:
    """It comes with an error that says why, can be acknowledged, and then does not come again."""
    rig.send(log(1))
    wrong = rig.send_nonsense()
    rig.send(log(2))
    channel = starts.next()
    found = polled(channel, 2 + wrong)
    assert numbers(found) == [1, 2]
    errors = [item.error for item in found if item.action is None]
    assert len(errors) == wrong
    assert all(isinstance(error, SignalError) and str(error) for error in errors)
    ack_all(channel, found)
    rig.send(log(3))
    assert numbers(polled(starts.next())) == [3]


def test_a_thousand_signals_at_once(rig: Rig, starts: Starts) -> None:
    """All come, in order, once; however many a poll shows."""
    rig.send(*map(log, range(1_000)))
    channel, seen = starts.next(), list[int]()
    while len(seen) < 1_000:
        found = polled(channel)
        seen += numbers(found)
        ack_all(channel, found)
    assert seen == list(range(1_000))
    rig.send(log(1_000))
    assert numbers(polled(starts.next())) == [1_000]


def test_a_closed_channel_may_be_closed_again(rig: Rig, starts: Starts) -> None:
    """Closing forgets nothing."""
    rig.send(log(1))
    channel = starts.next()
    polled(channel)
    channel.close()
    channel.close()
    assert numbers(polled(starts.next())) == [1]

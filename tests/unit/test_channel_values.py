"""What all channels share: reading a signal's text, how far a position may move, and the queue of a program."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signals.actions import PauseSnapshot
from signals.channel import Received, received_text
from signals.channels.deliveries import Deliveries
from signals.channels.process_channel import InProcessChannel
from signals.errors import SignalError
from tests.support.signal_channels import log, numbers


def read(text: bytes) -> Received:
    return received_text("kafka", "t/0/7", text, "the message t/0/7")


@pytest.mark.parametrize("given_id", ["", '"id": null, ', '"_id": null, '])
def test_without_an_id_the_delivery_is_the_id(given_id: str) -> None:
    """Kafka allows it, and its topic, partition and offset tell one signal from another."""
    assert read(f'{{{given_id}"type": "pause-snapshot"}}'.encode()).action == PauseSnapshot("t/0/7")


def test_three_fields_by_position_stay_three() -> None:
    """A signal whose fields are called otherwise is read by position, as from the collection."""
    assert read(b'{"a": "x", "b": "pause-snapshot", "c": {}}').action == PauseSnapshot("x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "the message t/0/7 is not JSON"),
        (b"\xc3(", "is not UTF-8"),
        (b"[1]", "must hold a JSON object, got [1]"),
        (b'{"type": "log", "type": "log"}', "the key 'type' is given twice in one document"),
        (b'{"id": "x", "type": "log", "data": {"message": NaN}}', "NaN is no number in JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b"1" * 5_000, "is not JSON"),
        (b'{"id": "\\ud800", "type": "log"}', "text that is not Unicode"),
        (b'{"id": " x ", "data": {}}', "an id, a type, and data"),
    ],
)
def test_what_is_no_signal_says_why(text: bytes, said: str) -> None:
    """The message names the delivery, or the signal, and shows what was found."""
    received = read(text)
    assert received.action is None
    assert said in str(received.error)
    assert len(str(received.error)) < 500


def test_more_than_a_signal_may_have_is_not_parsed() -> None:
    """Its length is enough to refuse it."""
    received = read(b'{"type": "%s"}' % (b"x" * 4_000_000))
    assert "the message t/0/7 is too large" in str(received.error)


def test_a_refusal_bears_the_senders_id() -> None:
    """Where one can be read; otherwise the delivery's name."""
    assert read(b'{"id": " mine ", "type": "no-such"}').id == "mine"
    assert read(b'{"id": 5, "type": "no-such"}').id == "t/0/7"
    assert read(b"{").id == "t/0/7"


@given(
    st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_any_bytes_are_a_signal_or_an_error(text: bytes) -> None:
    """Nothing is raised."""
    received = read(text)
    assert (received.action is None) == isinstance(received.error, SignalError)


@given(st.lists(st.booleans(), max_size=12), st.randoms(use_true_random=False))
def test_a_position_never_passes_an_open_delivery(shown: list[bool], random: object) -> None:
    """Acknowledged in any order, with foreign messages between: behind the longest closed run at the front."""
    deliveries = Deliveries(0)
    for place, is_ours in enumerate(shown):
        if is_ours:
            deliveries.show(Received("c", str(place), "x", None), place + 1)
        else:
            deliveries.pass_over(place + 1)
    left = [place for place, is_ours in enumerate(shown) if is_ours]
    order = left.copy()
    random.shuffle(order)  # type: ignore[attr-defined]
    for place in order:
        before = deliveries.position
        assert deliveries.position == min(left)
        moved = deliveries.ack((str(place),))
        left.remove(place)
        assert moved == (deliveries.position != before)
        assert [int(item.name) for item in deliveries.open()] == left
        assert len(deliveries) == len(left)
    assert deliveries.position == len(shown)


def test_a_million_foreign_messages_are_kept_as_one() -> None:
    """A topic that is shared with others costs no memory."""
    deliveries = Deliveries(0)
    deliveries.show(Received("c", "0", "x", None), 1)
    for place in range(1, 10_000):
        deliveries.pass_over(place + 1)
    assert len(deliveries._entries) == 2
    deliveries.ack(("0",))
    assert deliveries.position == 10_000


def test_threads_may_send_while_the_engine_polls() -> None:
    """Eight threads, two hundred signals each: all come, each thread's in its order, none twice."""
    channel, seen = InProcessChannel(), list[int]()

    def send(thread: int) -> None:
        for number in range(200):
            channel.send(log(1_000 * thread + number))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or channel.poll():
        found = channel.poll()
        seen += numbers(found)
        channel.ack(*(item.name for item in found))
    assert sorted(seen) == sorted(1_000 * thread + number for thread in range(8) for number in range(200))
    for thread in range(8):
        assert [n for n in seen if n // 1_000 == thread] == list(range(1_000 * thread, 1_000 * thread + 200))


def test_ids_of_two_programs_differ() -> None:
    """A signal sent without an id is not taken for one of the program's last run."""
    first, second = InProcessChannel(), InProcessChannel()
    document = {"type": "pause-snapshot"}
    assert first.send_document(document) != second.send_document(document)

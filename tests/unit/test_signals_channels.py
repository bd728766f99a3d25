"""The inbox folder, and decoding what the signal collection's stream delivers."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import bson
import pytest
from bson import json_util
from bson.errors import BSONError

from signals.actions import Condition, ExecuteSnapshot, PauseSnapshot
from signals.channels.inbox_channel import InboxChannel
from signals.channels.source_channel import decode, id_of
from signals.errors import DuplicateSignal, MalformedSignal, SignalError
from snapshotter.state.storage import MemoryStorage
from tests.support.bson_documents import document as bson_document
from tests.support.bson_documents import text

AWARE = json_util.JSONOptions(tz_aware=True)
ORDERS = ExecuteSnapshot("orders again", ("shop.orders",))


def test_a_signal_stays_in_the_inbox_until_it_is_acknowledged() -> None:
    """Poll shows it every time; ack removes it, and only it."""
    inbox = InboxChannel(MemoryStorage(), now_ms=lambda: 5)
    inbox.send(ORDERS)
    assert [r.action for r in inbox.poll()] == [ORDERS]
    (received,) = inbox.poll()
    assert received.sent_at_ms == 5
    inbox.ack(received.name)
    inbox.ack(received.name)
    assert inbox.poll() == []


def test_signals_are_polled_in_the_order_they_were_sent() -> None:
    """By the senders' clocks, whatever the ids are; those of one sender also where its clock stands still."""
    files = MemoryStorage()
    for signal_id, at in (("a", 3), ("b", 1), ("c", 2)):
        InboxChannel(files, now_ms=lambda at=at: at).send(PauseSnapshot(signal_id))  # type: ignore[misc]
    assert [r.id for r in InboxChannel(files).poll()] == ["b", "c", "a"]
    inbox = InboxChannel(MemoryStorage(), now_ms=lambda: 5)
    for signal_id in ("c", "b", "a"):
        inbox.send(PauseSnapshot(signal_id))
    assert [r.id for r in inbox.poll()] == ["c", "b", "a"]


def test_an_id_waits_once() -> None:
    """The second of two signals with one id is refused, and the first is untouched."""
    inbox = InboxChannel(MemoryStorage())
    inbox.send(ORDERS)
    with pytest.raises(DuplicateSignal, match="orders again"):
        inbox.send(PauseSnapshot(ORDERS.id))
    assert [r.action for r in inbox.poll()] == [ORDERS]


@pytest.mark.parametrize("signal_id", ["../../etc/x", ".hidden", "a b", "ü/%", "."])
def test_any_id_is_a_safe_file_name(signal_id: str) -> None:
    """Ids come back as they were, and no file leaves the folder."""
    files = MemoryStorage()
    inbox = InboxChannel(files)
    inbox.send(PauseSnapshot(signal_id))
    assert [r.action for r in inbox.poll()] == [PauseSnapshot(signal_id)]
    assert len(files.list_names("inbox")) == 1


def test_a_bad_file_hides_no_other() -> None:
    """What cannot be read comes with its error and name, so that it can be reported and acknowledged."""
    files = MemoryStorage()
    inbox = InboxChannel(files)
    files.write_text("inbox/bad.json", "{")
    files.write_text("inbox/list.json", "[]")
    files.write_text("inbox/notes.txt", "not a signal")
    files.write_text("inbox/plain.json", json.dumps({"type": "pause-snapshot"}))
    bad, listed, plain = inbox.poll()
    assert isinstance(bad.error, MalformedSignal)
    assert "'bad.json' is not JSON" in str(bad.error)
    assert "JSON object, got []" in str(listed.error)
    assert plain.action == PauseSnapshot("plain")
    for received in (bad, listed, plain):
        inbox.ack(received.name)
    assert inbox.poll() == []


def test_a_raw_document_becomes_plain_values() -> None:
    """An ObjectId for an id, a sub-document for data, BSON types in a filter: nothing is lost on the way."""
    signal_id = bson.ObjectId()
    since = datetime(2024, 1, 2, tzinfo=UTC)
    query = {"at": {"$gte": since}, "n": bson.Int64(5)}
    data = {
        "data-collections": ["shop.orders"],
        "additional-conditions": [{"data-collection": "shop.orders", "filter": query}],
    }
    raw = decode(bson.encode({"_id": signal_id, "type": "execute-snapshot", "data": data}))
    assert raw.id == str(signal_id)
    action = raw.parse()
    assert action == ExecuteSnapshot(
        str(signal_id), ("shop.orders",), additional_conditions=(Condition("shop.orders", _filter(action)),)
    )
    assert json_util.loads(_filter(action), json_options=AWARE) == query


def _filter(action: object) -> str:
    assert isinstance(action, ExecuteSnapshot)
    return action.additional_conditions[0].filter


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"_id": 5, "type": "pause-snapshot"}, ("5", "pause-snapshot", None)),
        ({"_id": "x", "type": "log", "data": '{"message": "m"}'}, ("x", "log", '{"message": "m"}')),
        ({"_id": {"k": 1}, "type": "log", "data": ""}, ('{"k": {"$numberInt": "1"}}', "log", "")),
        ({"_id": "x", "a": "log", "b": {"m": "é"}}, ("x", "log", '{"m": "é"}')),
    ],
)
def test_ids_and_data_of_other_types(
    document: dict[str, object], expected: tuple[str, str, str | None]
) -> None:
    """Ids are text; data is JSON text as it was written, or the Extended JSON of a document."""
    assert decode(bson.encode(document)) == expected


def test_a_raw_document_of_another_shape_is_refused() -> None:
    """The stream of the signal collection may carry anything."""
    with pytest.raises(MalformedSignal, match="type must be a string, got 5"):
        decode(bson.encode({"_id": "x", "type": 5, "data": {}}))
    with pytest.raises(MalformedSignal, match="an id, a type, and data"):
        decode(bson.encode({"_id": "x", "value": 5}))


@pytest.mark.parametrize("levels", [200, 400, 600, 900, 2_000, 20_000])
@pytest.mark.parametrize("field", ["_id", "type", "data"])
def test_a_raw_document_of_any_depth_is_refused(field: str, levels: int) -> None:
    """With one of the two errors that the engine expects, a short reason, and an id; also where neither the driver nor
    JSON could go as deep."""
    value = (0x0A, b"")
    for _ in range(levels):
        value = (0x03, bson_document([(b"a", value)]))
    fields = {"_id": (0x02, text(b"s1")), "type": (0x02, text(b"pause-snapshot"))} | {field: value}
    raw = bson_document([(name.encode(), found) for name, found in fields.items()])
    with pytest.raises((SignalError, BSONError)) as refused:
        decode(raw).parse()
    assert 0 < len(str(refused.value)) < 2_500
    assert id_of(raw)


def test_the_id_of_a_document_with_text_that_is_none() -> None:
    """It is refused under the id that it has, for whoever waits for it."""
    raw = bson.encode({"_id": "s1", "type": "text"}).replace(b"text", b"t\xffxt")
    with pytest.raises(BSONError):
        decode(raw)
    assert id_of(raw) == "s1"

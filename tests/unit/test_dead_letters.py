"""What cannot be processed as a value: sorted out of many, why, and what of its bytes may be kept."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from typing import Any

import bson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshotter.reading.chunk_reader import _decoded
from streaming.bson.elements import MalformedBson
from streaming.bson.raw_fields import UnkeyableId
from streaming.decode.dead_letters import (
    DEAD,
    DeadLetter,
    Where,
    behind,
    dead_letter,
    id_in,
    key_in,
    reason,
    sort_out,
)
from streaming.decode.keys import MissingId
from streaming.decode.streamed_rows import Failed, decode_latest
from streaming.fields.document_rules import DocumentRules, document_rules
from streaming.fields.rules import FieldRules
from streaming.layouts.columns.layout import COLUMNS
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.source.change_events import RowBuilder
from streaming.source.newest_events import AllEvents, Events, NewestEvents
from streaming.source.places import Places
from streaming.source.raw_events import DAMAGED, Event, parse_event

PEOPLE = Namespace("shop", "people")
OPTIONS = {
    "field.renames": "shop.people.name:called",
    "field.exclude.list": "shop.people.mail",
    "engine.field.hash.list": "shop.people.phone",
    "engine.field.hash.salt": "a secret of sixteen",
}
SECRET = "planted"


def rules(**options: str) -> DocumentRules | None:
    return document_rules(FieldRules.parse(options or OPTIONS), PEOPLE)


def truncated(document: dict[str, Any], by: int = 3) -> bytes:
    """Its last field runs past its end."""
    raw = bytearray(bson.encode(document))
    struct.pack_into("<i", raw, 0, len(raw) - by)
    return bytes(raw[: -by - 1]) + b"\0"


@given(st.lists(st.booleans(), max_size=40))
def test_those_that_fail_are_sorted_out(fails: list[bool]) -> None:
    """Exactly these, each with its own error; what is made of the others is in their order, in as few parts as the
    failures allow."""

    def attempt(begin: int, end: int) -> list[int]:
        if wrong := [place for place in range(begin, end) if fails[place]]:
            raise ValueError(wrong[0])
        return list(range(begin, end))

    made, failed = sort_out(len(fails), attempt)
    assert [(place, error.args[0]) for place, error in failed] == [(n, n) for n, f in enumerate(fails) if f]
    assert [place for part in made for place in part] == [n for n, f in enumerate(fails) if not f]
    if not any(fails):
        assert len(made) == 1


def test_what_is_of_all_documents_is_raised() -> None:
    """A view's documents have no id: none of them is to blame, and nothing is sorted out."""

    def attempt(begin: int, end: int) -> None:
        raise MissingId("a view")

    with pytest.raises(MissingId, match="a view"):
        sort_out(2, attempt)


def test_an_error_that_none_of_them_has_alone_is_raised_where_there_is_none() -> None:
    """There is nothing to divide."""

    def attempt(begin: int, end: int) -> None:
        raise ValueError("of nothing")

    with pytest.raises(ValueError, match="of nothing"):
        sort_out(0, attempt)


def test_bytes_are_kept_behind_the_rules() -> None:
    """Without what is left out, hashed, under the names of MongoDB; where that cannot be carried out they are withheld,
    with their length and digest. Without rules they are kept as they are."""
    document = {"_id": 1, "name": "a", "called": "b", "mail": SECRET, "phone": SECRET}
    kept = behind(rules(), bson.encode(document))
    assert kept is not None
    found = bson.decode(kept)
    assert (found["name"], found["called"], len(found["phone"])) == ("a", "b", 64)
    assert "mail" not in found
    cut = truncated(document)
    letter = dead_letter(Where.READ, MalformedBson("cut"), cut, rules())
    assert (letter.raw, letter.size, letter.sha256) == (None, len(cut), hashlib.sha256(cut).hexdigest())
    assert dead_letter(Where.READ, MalformedBson("cut"), cut, None).raw == cut
    only_renames = rules(**{"field.renames": "shop.people.name:called"})
    assert dead_letter(Where.READ, MalformedBson("cut"), cut, only_renames).raw == cut
    assert dead_letter(Where.STREAM, MalformedBson("cut"), cut, None, known=False).raw is None


def test_a_letter_survives_as_text() -> None:
    """With its bytes and its id, or without."""
    for raw, id_ in ((b"\xff\0", bson.encode({"_id": 1})), (None, None)):
        letter = DeadLetter(Where.READ, 'why "not"', raw, 2, "digest", id_)
        assert letter.to_text().startswith(DEAD)
        assert DeadLetter.from_text(letter.to_text()) == letter


def test_a_reason_shows_no_value() -> None:
    """Of errors that show bytes, only what stands before them; of others' errors only the class."""
    assert SECRET.encode().hex() not in reason(UnkeyableId.of("cut", SECRET.encode()))
    assert reason(UnkeyableId.of("cut", b"x")) == "not a well-formed BSON id: cut"
    assert reason(RuntimeError(SECRET)) == "unexpected RuntimeError"
    assert reason(MalformedBson("at byte 7")) == "at byte 7"


def test_the_id_is_found_before_the_damage() -> None:
    """And the key with it; of a document that is damaged before its id neither is known."""
    cut = truncated({"_id": 7, "a": "x"})
    assert id_in(cut) == bson.encode({"_id": 7})
    assert key_in(cut, ()) == key_in(bson.encode({"_id": 7}), ())
    assert (id_in(b"\x05\0\0\0"), key_in(b"\x05\0\0\0", ())) == (None, None)
    assert (id_in(bson.encode({"a": 1})), key_in(bson.encode({"a": 1}), ())) == (None, None)


def event(operation: str, document: dict[str, Any] | None, *, seconds: int = 1, **more: Any) -> bytes:
    """As the server sends it."""
    return bson.encode(
        {
            "_id": {"_data": "00"},
            "operationType": operation,
            "clusterTime": bson.Timestamp(seconds, 1),
            **({} if document is None else {"fullDocument": document}),
            "ns": {"db": "shop", "coll": "people"},
            "documentKey": {"_id": 1},
            **more,
        }
    )


def rows_of(*events: bytes, latest: bool = True) -> list[dict[str, Any]]:
    """The rows of these events, as an engine has them made."""
    builder = RowBuilder(Places(lambda _: True, rules=lambda _: rules()), wide=False, raises=False)
    numbered = builder.numbered(parse_event(raw) for raw in events)
    newest = NewestEvents(lambda one: one[0] == DAMAGED or builder.stands_alone(one), None)
    kept: Events = newest if latest else AllEvents(None)
    made = [batch for part in (*kept.add(numbered), *kept.rest()) for batch in builder.add(part)]
    found = [row for batch in (*made, *builder.rest()) for row in batch.to_pylist()]
    trailer = builder.trailer(ClusterTime(9, 1), None).to_pylist()[0]
    assert json.loads(trailer["trailer"])["events"] == len(events)
    return sorted(found, key=lambda row: row["ord"])


def test_an_event_that_fails_hides_nothing_of_its_document() -> None:
    """The newest event that lands something leaves beside it, though only the newest are asked for."""
    met = {"_id": 1, "name": "a", "called": "b", "mail": SECRET}
    dead, first, last = rows_of(event("replace", met), event("replace", {"_id": 1}), event("replace", met))
    assert [row["kind"] for row in (dead, first, last)] == ["dead", "event", "dead"]
    assert (first["op"], dead["op"], dead["operation_type"], dead["db"]) == ("u", None, "replace", "shop")
    assert dead["_key"] == first["_key"]
    assert set(bson.decode(dead["document"])) == {"_id", "name", "called"}
    letter = DeadLetter.from_text(dead["trailer"])
    assert (letter.where, letter.raw, letter.size) == (Where.STREAM, None, len(dead["document"]))
    assert "becomes 'called'" in letter.error


def damaged(raw: bytes, field: bytes) -> bytes:
    """An event whose field, a document, says that it is longer than the event."""
    at = raw.index(b"\x03" + field + b"\0") + len(field) + 2
    return raw[:at] + struct.pack("<i", 1 << 20) + raw[at + 4 :]


@pytest.mark.parametrize("field", [b"fullDocument", b"documentKey"])
def test_an_event_that_cannot_be_cut_is_a_dead_row(field: bytes) -> None:
    """Its time and token stand before the damage; where nobody can tell of which collection it is, no byte of it is
    kept. Its neighbours are rows as ever."""
    broken = damaged(event("insert", {"_id": 1, "mail": SECRET}), field)
    parsed: Event = parse_event(broken)
    assert (parsed[0], parsed[1]) == (DAMAGED, ClusterTime(1, 1).to_int())
    first, dead, last = rows_of(event("insert", {"_id": 1}), broken, event("delete", None), latest=False)
    assert [row["kind"] for row in (first, dead, last)] == ["event", "dead", "event"]
    assert (dead["operation_type"], dead["document"], dead["_key"]) == ("insert", None, None)
    assert dead["collection"] == (None if field == b"fullDocument" else "people")
    letter = DeadLetter.from_text(dead["trailer"])
    assert (letter.size, letter.sha256) == (len(broken), hashlib.sha256(broken).hexdigest())
    assert SECRET not in str(dead)
    assert base64.b64encode(SECRET.encode()).decode() not in str(dead)


def test_what_is_no_change_event_is_raised() -> None:
    """Without a time or a token nobody could go on behind it."""
    with pytest.raises(bson.errors.InvalidBSON, match="a change event without"):
        parse_event(bson.encode({"_id": 1}))
    with pytest.raises(bson.errors.InvalidBSON, match="a change event without"):
        parse_event(damaged(bson.encode({"a": {}, "clusterTime": bson.Timestamp(1, 1)}), b"a"))


def batch_of(*documents: bytes | None) -> pa.RecordBatch:
    """Events of two documents by turns, in this order."""
    count = len(documents)
    return pa.RecordBatch.from_pydict(
        {
            "_key": [f"k{place % 2}" for place in range(count)],
            "op": ["d" if one is None else "u" for one in documents],
            "document": pa.array(documents, pa.binary()),
            "cluster_time": pa.array([place << 32 for place in range(count)], pa.int64()),
            "wall_time": pa.nulls(count, pa.timestamp("us", "UTC")),
            "ord": pa.array(range(count), pa.int64()),
        }
    )


def test_an_event_before_one_that_fails_is_the_latest() -> None:
    """Once the one that failed is left out: in the same partition, whatever its neighbours are."""
    good, cut = bson.encode({"_id": 1, "v": 1}), truncated({"_id": 1, "v": 2, "s": "x"})
    cut = struct.pack("<i", len(cut)) + cut[4:]
    batch = batch_of(good, good, cut, None, cut, good)
    without: frozenset[int] = frozenset()
    plan = COLUMNS.observe(good)
    for _ in range(3):
        made = [
            row for part in decode_latest(COLUMNS, plan, without)(iter([batch])) for row in part.to_pylist()
        ]
        texts = [row["_trailer"] for row in made if row["_trailer"]]
        failed = [Failed.from_text(text) for text in texts if text.startswith(DEAD)]
        without |= {one.ord for one in failed}
    assert without == {2, 4}
    assert all(one.error for one in failed)
    landed = {row["_key"]: row["_cluster_time"] >> 32 for row in made if row["_trailer"] is None}
    assert landed == {"k0": 0, "k1": 5}


def test_a_reply_is_divided_among_its_documents() -> None:
    """One that is damaged leaves the others of the reply as they were, in their order."""
    documents = [bson.encode({"_id": n, "v": n}) for n in range(20)]
    documents[7] = truncated({"_id": 7, "v": 7, "s": "x"})
    raw = b"".join(documents)
    plan = COLUMNS.observe(documents[0])
    parts, failed = _decoded(raw, COLUMNS.decoder(plan), None)
    assert [bytes(one) for one, _ in failed] == [documents[7]]
    assert [v for part, _ in parts for v in part.batch.column("v").to_pylist()] == [
        n for n in range(20) if n != 7
    ]

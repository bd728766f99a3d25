"""Rules about fields on a real server: what changes, lookups and reads bring under them, and what leaves MongoDB.

What Debezium's `FieldExcludeListIT` and `FieldRenamesIT` try is tried here case by case.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
from typing import Any

import bson
import pyarrow as pa
import pytest
from bson.raw_bson import RawBSONDocument
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient

from snapshotter.core.values.chunks import KeyRange
from snapshotter.reading import chunk_reader
from snapshotter.reading.catalogue import sample_plan
from snapshotter.reading.chunk_reader import ReadJob, SubRange, partition_reader
from streaming.bson.elements import ARRAY, DOCUMENT, elements
from streaming.canonical.documents import canonical_document
from streaming.decode.dead_letters import DEAD, DeadLetter
from streaming.fields import server
from streaming.fields.document_rules import DocumentRules, document_rules
from streaming.fields.rules import EXCLUDE, HASH, RENAMES, SALT, FieldRules
from streaming.layouts.columns.layout import COLUMNS
from streaming.mongo.errors import ConfigurationError
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime
from streaming.source.change_cursor import ChangeRange
from streaming.source.change_options import ChangeOptions
from streaming.source.raw_events import Event
from tests.support.bson_documents import documents
from tests.support.changes import now, read_since
from tests.support.field_cases import Case
from tests.support.field_cases_excluded import EXCLUDED
from tests.support.field_cases_renamed import RENAMED
from tests.support.field_rules import C1, SECRET, field_rules

Client = MongoClient[dict[str, Any]]
CASES = [*((EXCLUDE, case) for case in EXCLUDED), *((RENAMES, case) for case in RENAMED)]
PRE_IMAGES = "change_streams_update_full_with_pre_image"


@pytest.fixture
def start(mongo_uri: str, database: str) -> ClusterTime:
    """A position before anything that the test does."""
    return now(mongo_uri)


def chunk(uri: str, namespace: Namespace, rules: FieldRules) -> tuple[list[bytes], list[str]]:
    """A collection as chunk reads bring it: the canonical content of each row; and why documents have none."""
    found = document_rules(rules, namespace)
    plan = sample_plan(COLUMNS, MongoClient(uri), rules, namespace)
    part = SubRange(0, KeyRange(None, None), now(uri))
    job = ReadJob(uri, namespace, None, COLUMNS, plan, (part,), None, fields=found)
    table = pa.Table.from_batches(
        list(partition_reader(job)(iter([pa.RecordBatch.from_pydict({"id": [0]})])))
    )
    rows = table.filter(pa.compute.is_null(table["_trailer"])).combine_chunks().to_batches()
    texts = [text for text in table["_trailer"].drop_null().to_pylist() if text.startswith(DEAD)]
    failed = [DeadLetter.from_text(text).error for text in texts]
    return [content for batch in rows for content in COLUMNS.documents(plan, batch)], failed


def one(case: Case, database: str, option: str) -> dict[str, str]:
    """The options of a case, whose collection is called c1, or with dashes."""
    return {"database.include.list": database, option: case.rules.replace("C", "c1")}


@pytest.mark.parametrize(("option", "case"), CASES, ids=str)
def test_debeziums_cases(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime, option: str, case: Case
) -> None:
    """What a change tells under the rules, and what a read brings; the document before it, too, where it is asked
    for. Where two fields meet under one name, an error names both."""
    images = {"enabled": True}
    collection = mongo_client[database].create_collection("c1", changeStreamPreAndPostImages=images)
    options = {name.replace(".", "__"): value for name, value in one(case, database, option).items()}
    rules = FieldRules.parse(one(case, database, option))
    collection.insert_one({"_id": 1, **case.before})
    if case.change is not None:
        collection.update_one({"_id": 1}, case.change)
    namespace = Namespace(database, "c1")
    if case.error:
        with pytest.raises(ConfigurationError, match=f"becomes '{case.error}'"):
            read_since(mongo_uri, start, **options)
        landed, (why,) = chunk(mongo_uri, namespace, rules)
        assert landed == []
        assert f"becomes '{case.error}'" in why
        return
    after = {"_id": 1, **case.after}
    row = read_since(mongo_uri, start, **options)[-1]
    assert list(row["document"].items()) == list(after.items())
    if case.change is not None:
        told = row["update_description"]
        assert told["updatedFields"] == case.updated
        assert sorted(told["removedFields"]) == sorted(case.removed or [])
        with_image = read_since(mongo_uri, start, **options, capture__mode=PRE_IMAGES)[-1]
        mine = document_rules(rules, namespace)
        before = bson.encode({"_id": 1, **case.before})
        assert with_image["before"] == bson.decode(before if mine is None else mine.document(before))
    assert read_since(mongo_uri, start, **options, columns="state")[-1]["document"] == after
    assert chunk(mongo_uri, namespace, rules) == ([canonical_document(bson.encode(after))], [])


def test_a_read_that_fails_ends_its_cursor(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, though the error is still held: what Python collects later, in the midst of anything, might wait for a
    lock that its own thread holds."""
    mongo_client[database]["c1"].insert_one({"_id": 1, "a": 1, "b": 2})
    renames = {"database.include.list": database, RENAMES: "*.c1.a:b"}
    with pytest.raises(ConfigurationError, match="becomes 'b'") as raised:
        read_since(mongo_uri, start, **{name.replace(".", "__"): value for name, value in renames.items()})
    monkeypatch.setattr(chunk_reader, "_decoded", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError) as failed:
        chunk(mongo_uri, Namespace(database, "c1"), FieldRules.parse(renames))
    left = [thread.name for thread in threading.enumerate()]
    assert [name for name in left if name.startswith(("change-stream", "chunk-fetch"))] == []
    assert raised.tb is not None
    assert failed.tb is not None


@pytest.mark.parametrize("option", [EXCLUDE, RENAMES])
def test_a_delete_has_nothing_to_rule(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime, option: str
) -> None:
    """Neither of the two events, the delete, nor what follows from it: a row that goes."""
    mongo_client[database]["c1"].insert_one({"_id": 1})
    mongo_client[database]["c1"].delete_one({"_id": 1})
    new = ":new" if option == RENAMES else ""
    options = {
        option.replace(".", "__"): f"*.c1.name{new},*.c1.active{new}",
        "database__include__list": database,
    }
    if new:
        options[option.replace(".", "__")] = "*.c1.name:new_name,*.c1.active:new_active"
    row = read_since(mongo_uri, start, **options)[-1]
    assert (row["op"], row["document_key"], row["document"], row["before"]) == ("d", {"_id": 1}, None, None)


def events(uri: str, start: ClusterTime, **options: str) -> list[Event]:
    """Events as they leave the server, before anything is done to them here."""
    named = {
        "mongodb.connection.string": uri,
        **{name.replace("__", "."): value for name, value in options.items()},
    }
    found = ChangeOptions.parse(named)
    return [event for events in ChangeRange(uri, found.stream, start, now(uri)) for event in events]


def test_what_is_left_out_never_leaves_the_server(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """Neither in documents of any operation, looked up or stored, nor in what an update tells by plain and by dotted
    keys, nor in chunks. The same field of another collection does, and so do signals."""
    secret = "top-secret"
    images = {"enabled": True}
    people = mongo_client[database].create_collection("people", changeStreamPreAndPostImages=images)
    people.insert_one({"_id": 1, "mail": secret, "cards": [{"no": secret, "of": 1}, [{"no": secret}]]})
    changed = {"mail": secret + "2", "cards.0.no": secret, "x": 1, "in": {"mail": secret}}
    people.update_one({"_id": 1}, {"$set": changed})
    people.update_one({"_id": 1}, {"$set": {"cards": [{"no": secret}]}, "$unset": {"mail": 1}})
    people.replace_one({"_id": 1}, {"mail": secret, "y": [secret[:3]]})
    people.delete_one({"_id": 1})
    people.insert_one({"_id": 2, "mail": secret, "cards": [[[{"no": secret}]]]})
    mongo_client[database]["others"].insert_one({"_id": 1, "mail": "to be seen"})
    mongo_client[database]["signals"].insert_one({"_id": "s", "mail": "a signal"})
    lists = f"{database}.PEOPLE.mail,*.people.cards.no,*.people.in.mail,{database}.sig*.mail"
    options = {
        "database__include__list": database,
        "field__exclude__list": lists,
        "signal__data__collection": f"{database}.signals",
        "capture__mode": PRE_IMAGES,
    }
    for more in ({}, {"columns": "state"}, {"capture__mode__full__update__type": "post_image"}):
        found = events(mongo_uri, start, **options, **more)
        assert [event[0] for event in found].count(b"update") == 2
        for event in found:
            for value in event[3].values():
                assert secret.encode() not in value
        assert b"to be seen" in found[-2][3][b"fullDocument"]
        assert b"a signal" in found[-1][3][b"fullDocument"]
    namespace = Namespace(database, "people")
    rules = FieldRules.parse({EXCLUDE: lists}).of(namespace)
    assert rules is not None
    raws = b"".join(people.find_raw_batches({}, server.projection(rules)))
    assert secret.encode() not in raws
    assert DocumentRules(rules).documents(raws) == raws


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(raws=st.lists(documents(), min_size=1, max_size=4), rules=field_rules(kinds=(EXCLUDE,)))
def test_the_server_leaves_out_what_is_left_out_here(
    mongo_client: Client, database: str, raws: list[bytes], rules: FieldRules
) -> None:
    """A projection and the stages of a pipeline make of a document, byte for byte, what the rules make of it."""
    mine = rules.of(C1)
    assert mine is not None
    ready = DocumentRules(mine)
    plain = [raw for raw in raws if server_takes(raw)]
    unique = {bson.decode(raw, bson.CodecOptions(document_class=RawBSONDocument)).raw: raw for raw in plain}
    collection = mongo_client[database]["drawn"]
    collection.drop()
    stored = list(unique.values())
    if not stored:
        return
    collection.insert_many([{"_id": n, "d": RawBSONDocument(raw)} for n, raw in enumerate(stored)])
    whole = [
        {"$sort": {"_id": 1}},
        {"$replaceWith": {"ns": {"db": "DBa", "coll": "c1"}, "fullDocument": "$d"}},
    ]
    shape = bson.CodecOptions(document_class=RawBSONDocument)
    raw_collection = collection.with_options(shape)
    staged = [
        bytes(found["fullDocument"].raw)
        for found in raw_collection.aggregate([*whole, *server.stages(rules)])
    ]
    assert staged == [ready.document(raw) for raw in stored]
    projected = list(raw_collection.aggregate([*whole[:1], {"$replaceWith": "$d"}, *projecting(mine)]))
    assert [bytes(found.raw) for found in projected] == [ready.document(raw) for raw in stored]


def projecting(rules: Any) -> list[dict[str, Any]]:
    return [{"$project": server.projection(rules)}]


def server_takes(raw: bytes) -> bool:
    """Whether a server lets an aggregation have this as a document of its own: not with a field twice."""
    try:
        bson.decode(raw)
    except (bson.errors.InvalidBSON, OverflowError):
        return False
    return not _twice(raw)


def _twice(raw: bytes) -> bool:
    found = list(elements(raw, 0))
    if len({name for _, name, _, _ in found}) < len(found):
        return True
    return any(_twice(raw[start:end]) for tag, _, start, end in found if tag in (DOCUMENT, ARRAY))


def test_hashes_and_new_names_together(
    mongo_uri: str, mongo_client: Client, database: str, start: ClusterTime
) -> None:
    """A hash is the one that others find by the same salt, in documents, in what updates tell, and in reads."""
    people = mongo_client[database]["people"]
    people.insert_one({"_id": 1, "mail": "a@x.org", "ids": [7, "7", None, [8]], "who": {"mail": "b"}})
    people.update_one({"_id": 1}, {"$set": {"ids.0": 9, "who.mail": "c", "mail": "d"}})
    options = {
        "database__include__list": database,
        HASH.replace(".", "__"): f"{database}.people.mail,{database}.people.ids,{database}.people.who",
        SALT.replace(".", "__"): SECRET,
        RENAMES.replace(".", "__"): f"{database}.people.mail:mail_hash",
    }

    def digits(text: str) -> str:
        return hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()

    insert, update = read_since(mongo_uri, start, **options)
    assert insert["document"]["mail_hash"] == digits("d") or insert["document"]["mail_hash"] == digits(
        "a@x.org"
    )
    assert insert["document"]["ids"][:3] == [digits("7"), digits("7"), None]
    assert insert["document"]["ids"][3] == [digits("8")]
    assert len(insert["document"]["who"]) == 64
    assert update["document"]["mail_hash"] == digits("d")
    assert update["update_description"]["updatedFields"] == {"mail_hash": digits("d"), "ids.0": digits("9")}
    rules = FieldRules.parse({name.replace("__", "."): value for name, value in options.items()})
    found, _ = chunk(mongo_uri, Namespace(database, "people"), rules)
    raw = bson.encode(update["document"])
    assert found == [canonical_document(raw)]

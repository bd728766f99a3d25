"""What goes wrong at a real MongoDB arrives with its class, and says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from snapshotter.testing.mongod_binary import find_mongod
from snapshotter.testing.mongod_node import MongoNode, NodeOptions
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from streaming.mongo import deployment as mongo
from streaming.mongo.errors import (
    AccessDeniedError,
    ConfigurationError,
    EventTooLargeError,
    PositionLostError,
    SourceError,
    TransientError,
    classify,
)
from streaming.mongo.server_codes import Kind
from streaming.positions import ClusterTime
from tests.support.changes import brief, now, read, reader
from tests.support.oplogs import forget, short_oplog

Client = MongoClient[dict[str, Any]]


def test_an_unreachable_address_names_the_option_and_the_address_but_no_secret() -> None:
    """Nobody answers: it may come back, so it is transient."""
    source = reader("mongodb://me:hidden@127.0.0.1:1/?serverSelectionTimeoutMS=200")
    with pytest.raises(TransientError, match=r"127\.0\.0\.1:1 \(mongodb\.connection\.string\)") as caught:
        source.initialOffset()
    assert "hidden" not in str(caught.value)
    assert classify(str(caught.value)).kind is Kind.TRANSIENT


def test_an_address_that_is_none() -> None:
    """Not even tried; the password is not shown."""
    with pytest.raises(ConfigurationError, match=r"mongodb\.connection\.string='http://\*\*\*@host'"):
        reader("http://me:hidden@host").initialOffset()


def test_a_standalone_server_is_refused() -> None:
    """It has no change stream; the message says what to do."""
    expected = pytest.raises(ConfigurationError, match=r"standalone server.*--replSet")
    with start_mongodb(standalone=True) as standalone, expected:
        reader(standalone.uri).initialOffset()


def test_a_replica_set_without_a_configuration_is_refused(tmp_path: Path) -> None:
    """A fresh server with --replSet, before rs.initiate()."""
    binary = find_mongod()
    if binary is None:
        pytest.skip("no mongod of our own to start")
    node = MongoNode(tmp_path / "node", NodeOptions(binary=binary, replica_set="fresh"))
    node.start()
    try:
        with pytest.raises(ConfigurationError, match=r"not been initiated.*rs\.initiate"):
            reader(f"mongodb://{node.address}/?directConnection=true").initialOffset()
    finally:
        node.stop()


@pytest.mark.parametrize("how", ["drop", "rename"])
def test_a_collection_that_goes_under_a_cursor(mongo_client: Client, database: str, how: str) -> None:
    """A chunk is read while somebody drops or renames its collection: reading again meets what is there then."""
    items = mongo_client[database]["items"]
    items.insert_many([{"_id": n} for n in range(10)])
    cursor = items.find(batch_size=2)
    next(cursor)
    items.drop() if how == "drop" else items.rename("others")
    with pytest.raises(OperationFailure) as caught:
        list(cursor)
    assert classify(caught.value).retriable


def test_missing_rights_and_wrong_passwords() -> None:
    """Neither is tried again; without rights on local.oplog.rs the oldest position is found another way."""
    with start_mongodb(auth=True) as guarded:
        admin = guarded.client()
        streams = {"resource": {"db": "", "collection": ""}, "actions": ["changeStream", "find"]}
        admin["admin"].command("createRole", "streams", privileges=[streams], roles=[])
        for name, roles in (("nobody", []), ("streamer", ["streams"])):
            admin["admin"].command("createUser", name, pwd="secret", roles=roles)
        address = guarded.uri.rpartition("@")[2]

        with pytest.raises(AccessDeniedError, match=r"mongodb\.connection\.string") as caught:
            reader(f"mongodb://nobody:wrong@{address}").initialOffset()
        assert classify(str(caught.value)).code == 18

        start = now(f"mongodb://streamer:secret@{address}")
        admin["shop"]["orders"].insert_one({"_id": 1})
        end = now(f"mongodb://streamer:secret@{address}")
        with pytest.raises(AccessDeniedError, match="not authorized") as caught:
            read(reader(f"mongodb://nobody:secret@{address}"), start, end)
        assert classify(str(caught.value)).code == 13

        source = reader(f"mongodb://streamer:secret@{address}", start__position="oldest")
        assert brief(read(source, start, end)) == [("insert", 1)]
        assert mongo.oldest_time(mongo.connect(f"mongodb://streamer:secret@{address}")) < start


@pytest.fixture(scope="module")
def forgetful() -> Iterator[MongoDeployment]:
    """A replica set that has forgotten its first changes."""
    with short_oplog() as deployment:
        forget(deployment)
        yield deployment


def test_a_position_that_the_oplog_has_lost(forgetful: MongoDeployment) -> None:
    """Recognised in the text that reaches the driver; the message names both causes, and the ways out."""
    with pytest.raises(PositionLostError) as caught:
        read(reader(forgetful.uri), ClusterTime(1_700_000_000, 1), now(forgetful.uri))
    text = str(caught.value)
    for part in (
        "1700000000.1",
        "stood still",
        "quiet",
        "engine.position.lost",
        "replSetResizeOplog",
    ):
        assert part in text
    found = classify(f"org.apache.spark.SparkException: Traceback\n{text}\n\tat org.apache.spark")
    assert (found.kind, found.code) == (Kind.POSITION_LOST, 286)


def test_a_token_that_the_oplog_has_lost(forgetful: MongoDeployment) -> None:
    """Found out when the position is resolved, before anything is read."""
    source = reader(forgetful.uri, start__resume__token='{"_data": "826553F100000000012B0229296E04"}')
    with pytest.raises(PositionLostError, match="behind the resume token"):
        source.latestOffset(source.initialOffset(), source.getDefaultReadLimit())


def test_the_oldest_position_with_and_without_access_to_the_oplog(forgetful: MongoDeployment) -> None:
    """Found by opening change streams, it is at most a second later than the first oplog entry."""
    client = mongo.connect(forgetful.uri)
    before = mongo.oldest_time(client)
    tried = mongo._oldest_by_trial(client)
    after = mongo.oldest_time(client)  # the server may have cut off some more meanwhile
    assert before.t <= tried.t <= after.t + 1


@pytest.fixture(scope="module")
def failing() -> Iterator[MongoDeployment]:
    """A replica set whose commands can be made to fail."""
    with start_mongodb(set_parameters={"enableTestCommands": 1}) as deployment:
        yield deployment


def impatient(deployment: MongoDeployment) -> str:
    """The driver asks again after half a second: a failure that was made up changes no server's state."""
    return f"{deployment.uri}&heartbeatFrequencyMS=500"


def fail(client: Client, times: int | str, **data: Any) -> None:
    mode = {"times": times} if isinstance(times, int) else times
    client["admin"].command("configureFailPoint", "failCommand", mode=mode, data=data)


@pytest.mark.parametrize(
    "failure",
    [
        {"errorCode": 11600},  # interrupted at shutdown
        {"errorCode": 43},  # cursor not found
        {"closeConnection": True},
    ],
    ids=["interrupted", "cursor-not-found", "connection-closed"],
)
def test_a_cursor_that_breaks_off_is_continued(failing: MongoDeployment, failure: dict[str, Any]) -> None:
    """In the middle of a batch, twice: no event is lost, none doubled, and the order stays."""
    client = failing.client()
    client["shop"]["orders"].drop()
    start = now(failing.uri)
    client["shop"]["orders"].insert_many([{"_id": number} for number in range(10_000)])
    end = now(failing.uri)
    fail(client, 2, failCommands=["getMore"], **failure)
    rows = read(reader(impatient(failing), collection__include__list=r"shop\.orders"), start, end)
    fail(client, "off")
    assert [row["document_key"]["_id"] for row in rows] == list(range(10_000))


def test_a_server_that_stays_away_is_given_up(failing: MongoDeployment) -> None:
    """After some attempts the error leaves as a transient one: the engine decides how long to go on."""
    client = failing.client()
    start = now(failing.uri)
    client["shop"]["orders"].insert_one({})
    end = now(failing.uri)
    fail(client, "alwaysOn", failCommands=["aggregate"], errorCode=11600)
    try:
        with pytest.raises(TransientError, match="broke off"):
            read(reader(impatient(failing)), start, end)
    finally:
        fail(client, "off")


def test_an_event_above_16_megabytes(mongo_uri: str, mongo_client: Client, database: str) -> None:
    """The server can't send it, an update and the document after it; the class says so, for the option that decides
    what to do about it. Where documents are looked up they come by themselves, and nothing is too large."""
    start = now(mongo_uri)
    items = mongo_client[database].create_collection("items", changeStreamPreAndPostImages={"enabled": True})
    items.insert_one({"_id": 1, "text": "x"})
    items.update_one({"_id": 1}, {"$set": {"text": "x" * 9_000_000}})
    images = {"capture__mode__full__update__type": "post_image"}
    with pytest.raises(EventTooLargeError):
        read(reader(mongo_uri, database__include__list=database, **images), start, now(mongo_uri))
    _, update = read(reader(mongo_uri, database__include__list=database), start, now(mongo_uri))
    assert len(update["document"]["text"]) == 9_000_000


def test_a_bad_expression_of_the_server_is_a_configuration_error(
    mongo_uri: str, mongo_client: Client, database: str
) -> None:
    """Python accepts one of any length, the server does not: said in its words, not read as a lost position."""
    start = now(mongo_uri)
    mongo_client[database]["items"].insert_one({})
    source = reader(mongo_uri, database__include__list="a" * 40_000)
    with pytest.raises(SourceError) as caught:
        read(source, start, now(mongo_uri))
    assert caught.value.found.kind is Kind.CONFIGURATION

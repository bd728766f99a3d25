"""One way to reach MongoDB: clients, what kind of deployment it is, and its cluster times.

Clients are shared: ``connect`` hands out one per process, address and options, so that a Spark worker that
is used again finds its connections open. Nobody closes them.

The *majority time* is the end of what may be streamed: the latest operation that no failover can take back.
Through mongos there is none; there it is the latest cluster time that the router knows of, which is safe,
because a reader through mongos waits until every shard has passed its end (see ``change_cursor``).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from typing import Any, Literal

from bson.timestamp import Timestamp
from pymongo import MongoClient, ReadPreference
from pymongo.errors import OperationFailure, PyMongoError

from streaming.mongo import tls_faults
from streaming.mongo.certificates import IDENTITY, with_files
from streaming.mongo.connection_watch import Connection, ConnectionWatch
from streaming.mongo.errors import (
    AccessDeniedError,
    ConfigurationError,
    DefiniteError,
    ErrorClass,
    EventTooLargeError,
    PositionLostError,
    SourceError,
    TransientError,
    UnexpectedError,
    as_source_error,
    classify,
)
from streaming.mongo.server_codes import Kind
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

__all__ = [
    "AccessDeniedError",
    "ConfigurationError",
    "DefiniteError",
    "DeploymentKind",
    "ErrorClass",
    "EventTooLargeError",
    "Kind",
    "PositionLostError",
    "SourceError",
    "TransientError",
    "UnexpectedError",
    "as_source_error",
    "average_document_bytes",
    "count_within",
    "check_deployment",
    "classify",
    "connect",
    "connection_of",
    "deployment_id",
    "majority_time",
    "new_client",
    "newest_time",
    "oldest_time",
    "redacted",
    "wire_version",
]

CONNECTION_OPTION = "mongodb.connection.string"
WIRE_VERSION_5_0 = 13
WIRE_VERSION_5_1 = 14
WIRE_VERSION_6_0 = 17

DeploymentKind = Literal["replica_set", "sharded"]
RawClient = MongoClient[dict[str, Any]]

_clients: dict[tuple[int, str, str], RawClient] = {}
_watches: dict[int, ConnectionWatch] = {}
"""By the identity of the clients: two of one address are equal, and these live as long as the process."""
_clients_lock = threading.Lock()


def connect(uri: str, **options: Any) -> RawClient:
    """The client of this process for an address; ``options`` are MongoClient's. Shared: do not close it.

    Connects lazily. Raises ConfigurationError for an address that is not one.
    """
    key = (os.getpid(), uri, repr(sorted(options.items())))
    with _clients_lock:
        if key not in _clients:
            watch = ConnectionWatch()
            client = _clients[key] = _made(_Shared, uri, {**options, "event_listeners": [watch]})
            _watches[id(client)] = watch
        return _clients[key]


class _Shared(MongoClient[dict[str, Any]]):
    """Ends with the process. Closing it then would wait for servers that are gone, to end sessions there."""

    def __del__(self) -> None:
        """The driver's reminder to close a client is no news here, and would follow the last line of the output."""


def connection_of(client: RawClient) -> Connection:
    """How the connection of a client that ``connect`` gave has fared since it was made. Asks no server."""
    return _watches[id(client)].seen


def new_client(uri: str, **options: Any) -> RawClient:
    """A client of one's own, to be closed. Errors as for ``connect``."""
    return _made(MongoClient, uri, options)


def _made(kind: type[RawClient], uri: str, options: dict[str, Any]) -> RawClient:
    given = uri.lower()  # keywords would override what the address says
    if "appname=" not in given:
        options.setdefault("appname", "snapshotter")
    if "retryreads=" not in given:
        options.setdefault("retryReads", True)
    try:
        return kind(with_files(uri), **options)
    except (PyMongoError, ValueError) as error:
        text = f"{CONNECTION_OPTION}={redacted(uri)!r} is not an address of MongoDB: {error}"
        raise ConfigurationError(text) from error


_SECRET_OPTIONS = re.compile(
    rf"\b({IDENTITY}|tlsCertificateKeyFilePassword|AWS_SESSION_TOKEN|proxyPassword)([=:])[^&]*", re.IGNORECASE
)


def redacted(uri: str) -> str:
    """The address without user, password and other secrets, fit for messages."""
    return _SECRET_OPTIONS.sub(r"\1\2***", re.sub(r"//[^/]*@", "//***@", uri))


def check_deployment(client: RawClient) -> DeploymentKind:
    """What kind of deployment answers.

    Raises ConfigurationError for a standalone server, a replica set that has not been initiated, and servers
    before 5.0, and where TLS is why nobody answers (`tls_faults`); TransientError if nobody answers for another reason;
    AccessDeniedError for credentials that are refused.
    """
    try:
        hello = client.admin.command("hello")
    except PyMongoError as error:
        if why := tls_faults.found_by(client):
            raise ConfigurationError(f"cannot reach {_named(client)}: {why}") from error
        raise as_source_error(error, f"cannot reach {_named(client)}") from error
    version = int(hello.get("maxWireVersion", 0))
    if version < WIRE_VERSION_5_0:
        raise ConfigurationError(
            f"{_named(client)} is older than 5.0 (its wire version is {version},"
            f" 5.0 has {WIRE_VERSION_5_0}). Upgrade the server."
        )
    if hello.get("msg") == "isdbgrid":
        return "sharded"
    if "setName" in hello:
        return "replica_set"
    if hello.get("isreplicaset"):
        raise ConfigurationError(
            f"{_named(client)} is a replica set that has not been initiated. Run rs.initiate()."
        )
    raise ConfigurationError(
        f"{_named(client)} is a standalone server, and has no change stream."
        " Start it with --replSet and run rs.initiate(): a replica set of one node is enough."
    )


def wire_version(client: RawClient) -> int:
    return int(client.admin.command("hello").get("maxWireVersion", 0))


def count_within(most: int, bytes_max: int, average: int) -> int:
    """How many documents of ``average`` bytes (0: that is not known) have no more than ``bytes_max`` in all: at least
    one, and ``most`` at the most."""
    return min(most, max(1, bytes_max // average)) if average else most


def average_document_bytes(client: RawClient, namespace: Namespace) -> int:
    """The average size of the collection's documents. It only helps to plan, so it is 0 where it is not known (an empty
    collection, a view, no right to ask)."""
    try:
        stats = client[namespace.database].command("collStats", namespace.collection)
    except OperationFailure:
        return 0
    return int(stats.get("avgObjSize", 0))


def majority_time(client: RawClient) -> ClusterTime:
    """The end of what may be streamed now. See the module's text; raises the driver's errors."""
    hello = client.admin.command("hello")
    if "lastWrite" in hello and "majorityOpTime" in hello["lastWrite"]:
        return _time(hello["lastWrite"]["majorityOpTime"]["ts"])
    if hello.get("msg") != "isdbgrid":
        raise ConfigurationError(f"{_named(client)} names no majority-committed time: not a replica set?")
    gossip = hello.get("$clusterTime")
    return _time(gossip["clusterTime"] if gossip else hello["operationTime"])


def newest_time(client: RawClient) -> ClusterTime:
    """The newest change that the source has, whether a majority has it or not; through mongos as `majority_time`."""
    hello = client.admin.command("hello")
    if "lastWrite" in hello:
        return _time(hello["lastWrite"]["opTime"]["ts"])
    return majority_time(client)


def deployment_id(client: RawClient) -> dict[str, str]:
    """What tells this deployment from others, by name, as far as the user may ask: the replica set's name and its
    ``replicaSetId``, or a sharded cluster's ``clusterId``."""
    if client.is_mongos:
        return _permitted(
            "clusterId",
            lambda: (client.config["version"].find_one({}, {"clusterId": 1}) or {}).get("clusterId"),
        )
    named = {"setName": str(client.admin.command("hello")["setName"])}
    of_config = _permitted(
        "replicaSetId", lambda: _set_id(client.admin.command("replSetGetConfig").get("config"))
    )
    return {
        **named,
        **(
            of_config
            or _permitted("replicaSetId", lambda: _set_id(client.local["system.replset"].find_one()))
        ),
    }


def _set_id(config: Any) -> Any:
    return ((config or {}).get("settings") or {}).get("replicaSetId")


def _permitted(name: str, ask: Callable[[], Any]) -> dict[str, str]:
    try:
        found = ask()
    except OperationFailure as error:
        if classify(error).kind is not Kind.PERMISSION:
            raise
        return {}
    return {} if found is None else {name: str(found)}


def oplog_has(client: RawClient, time: ClusterTime) -> bool | None:
    """Whether the primary's oplog has an entry of that very time. None where it cannot be told: through mongos, without
    ``find`` on ``local.oplog.rs``, where the oplog begins later, and where it has not come as far."""
    if client.is_mongos:
        return None
    oplog = client.get_database("local", read_preference=ReadPreference.PRIMARY)["oplog.rs"]
    wanted = {"ts": 1}
    try:
        found = oplog.find_one({"ts": {"$gte": Timestamp(time.t, time.i)}}, wanted, sort=[("$natural", 1)])
        if found is None or _time(found["ts"]) == time:
            return None if found is None else True
        # Asked afterwards: it began no later before.
        first = oplog.find_one({}, wanted, sort=[("$natural", 1)])
    except OperationFailure as error:
        if classify(error).kind is not Kind.PERMISSION:
            raise
        return None
    return None if first is None or _time(first["ts"]) > time else False


def oldest_time(client: RawClient) -> ClusterTime:
    """The earliest time from which a change stream can be opened now.

    Reads the first oplog entry, which needs ``find`` on ``local.oplog.rs``; without that right, and through
    mongos, where no oplog can be seen, it is found by opening change streams (about 30), to the second.
    """
    if not client.is_mongos:
        try:
            first = client.local["oplog.rs"].find_one(sort=[("$natural", 1)], projection={"ts": 1})
            if first is not None:
                return _time(first["ts"])
        except OperationFailure as error:
            if classify(error).kind is not Kind.PERMISSION:
                raise
    return _oldest_by_trial(client)


def _oldest_by_trial(client: RawClient) -> ClusterTime:
    too_old, open_able = 0, majority_time(client).t
    while open_able - too_old > 1:  # no stream opens at ``too_old``, one opens at ``open_able``
        middle = (too_old + open_able) // 2
        if _can_open(client, Timestamp(middle, 0)):
            open_able = middle
        else:
            too_old = middle
    return ClusterTime(open_able, 0)


def _can_open(client: RawClient, start: Timestamp) -> bool:
    stage = {"$changeStream": {"allChangesForCluster": True, "startAtOperationTime": start}}
    try:
        # With batchSize 0 the server would not look at the oplog yet.
        reply = client.admin.command({"aggregate": 1, "pipeline": [stage], "cursor": {"batchSize": 1}})
    except OperationFailure as error:
        if classify(error).kind is Kind.POSITION_LOST:
            return False
        raise
    client.admin.command({"killCursors": "$cmd.aggregate", "cursors": [reply["cursor"]["id"]]})
    return True


def _time(stamp: Timestamp) -> ClusterTime:
    return ClusterTime(stamp.time, stamp.inc)


def _named(client: RawClient) -> str:
    seeds = client.topology_description.server_descriptions()
    address = ",".join(f"{host}:{port}" for host, port in sorted(seeds))
    return f"MongoDB at {address or '(no address)'} ({CONNECTION_OPTION})"

"""A real MongoDB for tests and the demo: one node or three, up when `start_mongodb` returns, gone afterwards.

    with start_mongodb(nodes=3) as mongo:
        mongo.client()["shop"]["orders"].insert_one({})
        mongo.step_down()

Where it comes from is in `mongod_binary`; how it is cleaned up, also after SIGKILL, in `processes`.

Invariants:
- what `start_mongodb` returns is a writable primary, and every other node is a secondary (or it has raised,
  and left nothing running);
- every wait has a condition and a deadline; a server that died while we waited is reported with its own
  last lines;
- only 127.0.0.1 is listened on.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pymongo
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure, PyMongoError

from snapshotter.testing import mongod_binary, processes
from snapshotter.testing.mongod_binary import MongoUnavailableError, given_uri
from snapshotter.testing.mongod_node import MongoNode, NodeOptions
from snapshotter.testing.processes import wait_until

if TYPE_CHECKING:
    from snapshotter.testing.certificates import ServerTls

__all__ = ["MongoDeployment", "MongoNode", "MongoUnavailableError", "start_mongodb"]

Client = MongoClient[dict[str, Any]]
REPLICA_SET = "rs-snapshotter"
ADMIN = "admin"
# ProtocolError, AuthenticationFailed: a log-in that began before the account was there, and one without it.
_NO_ACCOUNT = (17, 18)
_EXCEEDED_TIME_LIMIT = 262
_GOODBYE_SECONDS = 1.0


class MongoDeployment:
    """A running MongoDB; clients connect to `uri`. `nodes` is empty when it was given by address or runs in a
    container: then it can be used, and stepped down, but no process of it can be killed. `folder` has the data of all
    nodes, and `stop` removes it."""

    def __init__(self, uri: str, nodes: Sequence[MongoNode] = (), *, folder: Path | None = None) -> None:
        self.uri = uri
        self.tls: ServerTls | None = None
        self.nodes = list(nodes)
        self._folder = folder
        self._clients: list[Client] = []
        self._on_stop = contextlib.ExitStack()

    def client(self, **options: Any) -> Client:
        """A new client; it is closed with the deployment if its user did not."""
        client: Client = MongoClient(self.uri, **{"serverSelectionTimeoutMS": 20_000, **options})
        self._clients.append(client)
        return client

    def primary_address(self) -> str:
        """`host:port` of the primary, waiting through an election."""
        with contextlib.closing(_admin(self.uri)) as client:
            return wait_until(lambda: _primary(client), "a primary")

    def step_down(self, seconds: int = 10) -> str:
        """Make the primary step down for `seconds`; returns the address of the next, once it accepts writes.

        A single node becomes primary again itself.
        """
        with contextlib.closing(_admin(self.uri)) as client:
            old = wait_until(lambda: _primary(client), "a primary")
            # A single node has nobody to hand over to: it must be forced, and becomes primary again itself.
            alone = len(client.admin.command("hello")["hosts"]) == 1
            command = {"replSetStepDown": seconds, "force": alone}
            if not alone:
                command["secondaryCatchUpPeriodSecs"] = max(1, seconds // 2)
            wait_until(lambda: _stepped_down(client, command), f"{old} to step down")

            def successor() -> str | None:
                new = _primary(client)
                return new if alone or new != old else None

            return wait_until(successor, "a new primary")

    def kill(self, node: int | str | MongoNode) -> MongoNode:
        """End a node as a crash would; by index, by address, or itself."""
        found = self.node(node)
        found.kill()
        return found

    def restart(self, node: int | str | MongoNode) -> MongoNode:
        """Start a node again, on its old port and data, and wait until the set has it back."""
        found = self.node(node)
        if found.alive:
            found.stop()
        found.start()
        self._wait_ready()
        return found

    def freeze(self, node: int | str | MongoNode) -> None:
        """Stop a node's clock (SIGSTOP): it keeps its connections and answers nothing, until `thaw`."""
        self.node(node).signal(signal.SIGSTOP)

    def thaw(self, node: int | str | MongoNode) -> None:
        self.node(node).signal(signal.SIGCONT)

    def node(self, which: int | str | MongoNode) -> MongoNode:
        if isinstance(which, MongoNode):
            return which
        if not self.nodes:
            raise MongoUnavailableError(
                "this MongoDB was not started here, so none of its processes can be touched"
            )
        if isinstance(which, int):
            return self.nodes[which]
        for node in self.nodes:
            if node.address == which:
                return node
        raise KeyError(f"no node at {which}; there are {', '.join(node.address for node in self.nodes)}")

    @property
    def bare_uri(self) -> str:
        """The address without anybody's name and password, and without TLS: whoever connects adds his own."""
        hosts = ",".join(node.address for node in self.nodes)
        return f"mongodb://{hosts}/?replicaSet={REPLICA_SET}"

    def add_user(
        self,
        name: str,
        privileges: Sequence[Mapping[str, Any]] = (),
        *,
        database: str = ADMIN,
        password: str | None = None,
        mechanism: str | None = None,
    ) -> None:
        """Make the user ``name`` of ``database``, who has exactly these ``privileges`` (as in MongoDB's createRole),
        and a ``password`` unless it is one of ``$external``, whose certificate says who it is. ``mechanism``: the only
        one by which a password may be given."""
        client = self.client()
        role = f"{name} {secrets.token_hex(4)}"
        client.admin.command("createRole", role, privileges=list(privileges), roles=[])
        how: dict[str, Any] = {} if password is None else {"pwd": password}
        if mechanism is not None:
            how["mechanisms"] = [mechanism]
        client[database].command("createUser", name, roles=[{"role": role, "db": ADMIN}], **how)

    def direct(self, address: str) -> str:
        """The address of one node alone."""
        tls = f"&{self.tls.options()}" if self.tls else ""
        return f"mongodb://{address}/?directConnection=true{tls}"

    def stop(self) -> None:
        """End everything and remove its folder; may be called again."""
        for client in self._clients:
            with pymongo.timeout(_GOODBYE_SECONDS):  # it tells a primary, and a set without one is waited for
                client.close()
        self._clients.clear()
        for node in self.nodes:
            node.kill()  # its data is thrown away: nothing to flush
        if self._folder is not None:
            processes.remove_folder(self._folder)
        self._on_stop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_ready(self) -> None:
        with contextlib.closing(_admin(self.direct(self.primary_address()))) as primary:
            term = primary.admin.command("hello")["lastWrite"]["opTime"]["t"]
        for node in self.nodes:
            if node.alive:
                wait_until(
                    partial(_serves, self.direct(node.address), term),
                    f"{node.address} to be primary or secondary",
                )


def start_mongodb(
    nodes: int = 1,
    *,
    oplog_size_mb: int | None = None,
    extra_args: Sequence[str] = (),
    set_parameters: Mapping[str, Any] | None = None,
    auth: bool = False,
    standalone: bool = False,
    cache_gb: float = 0.5,
    tls: ServerTls | None = None,
) -> MongoDeployment:
    """Find or start a MongoDB and return it ready for writes. Use as a context manager, or call `stop()`.

    Everything asked beyond a plain single node (several nodes, `auth`, `standalone`, `tls`, an oplog size,
    parameters) needs a server of our own, so it is never the one given by address. `set_parameters` goes to
    `--setParameter`: for instance `{"enableTestCommands": 1}` for fail points,
    `{"periodicNoopIntervalSecs": 1}` for a quicker idle clock. `oplog_size_mb` and `cache_gb` are those of
    each node; `extra_args` end its command line. With `auth`, `uri` carries an administrator with role `root`,
    and with `tls` the certificates to connect.
    Raises MongoUnavailableError, ServerStartError.
    """
    special = extra_args or set_parameters or auth or standalone or tls or oplog_size_mb is not None
    plain = nodes == 1 and not special
    if plain and (uri := given_uri()):
        return _given(uri)
    binary = mongod_binary.find_mongod()
    if binary is None:
        docker = mongod_binary.docker_answers()
        if plain and docker:
            return _container()
        raise mongod_binary.nothing_found(docker=docker)
    folder = processes.temporary_folder("mongodb")
    options = NodeOptions(
        binary=binary,
        replica_set=None if standalone else REPLICA_SET,
        oplog_size_mb=oplog_size_mb,
        cache_gb=cache_gb,
        extra_args=(*extra_args, *(tls.arguments() if tls else ())),
        set_parameters=dict(set_parameters or {}),
        key_file=_key_file(folder) if auth else None,
    )
    deployment = MongoDeployment(
        "", [MongoNode(folder / f"node{n}", options) for n in range(nodes)], folder=folder
    )
    try:
        for node in deployment.nodes:
            node.start()
        _initiate(deployment, standalone=standalone, auth=auth)
        if tls:
            _speak_tls(deployment, tls)
    except BaseException:
        deployment.stop()
        raise
    return deployment


def _initiate(deployment: MongoDeployment, *, standalone: bool, auth: bool) -> None:
    addresses = [node.address for node in deployment.nodes]
    if standalone:
        deployment.uri = f"mongodb://{addresses[0]}/?directConnection=true"
        return
    with contextlib.closing(_admin(f"mongodb://{addresses[0]}/?directConnection=true")) as client:
        client.admin.command("replSetInitiate", replica_set_config(addresses))
    deployment.uri = f"mongodb://{','.join(addresses)}/?replicaSet={REPLICA_SET}"
    if auth:
        # Without any user, mongod accepts the creation of the first one from its own machine.
        password = secrets.token_hex(8)
        with contextlib.closing(_admin(deployment.uri)) as client:
            wait_until(lambda: _primary(client), "a primary")
            client.admin.command("createUser", ADMIN, pwd=password, roles=["root"])
        deployment.uri = (
            f"mongodb://{ADMIN}:{password}@{','.join(addresses)}/?replicaSet={REPLICA_SET}&authSource=admin"
        )
    deployment._wait_ready()


def _speak_tls(deployment: MongoDeployment, tls: ServerTls) -> None:
    """From now on ``deployment`` is reached by TLS; its set was made without, while a node takes both."""
    plain, deployment.tls = deployment.uri, tls
    separator = "&" if "?" in plain else "?"
    deployment.uri = f"{plain}{separator}{tls.options()}"
    if not tls.required:
        return
    _, at, rest = plain.removeprefix("mongodb://").rpartition("@")
    account = plain.removeprefix("mongodb://").removesuffix(rest) if at else ""
    source = "&authSource=admin" if account else ""
    for node in deployment.nodes:
        uri = f"mongodb://{account}{node.address}/?directConnection=true{source}"
        wait_until(partial(_require_tls, uri), f"the account on {node.address}", seconds=30)


def _require_tls(uri: str) -> bool:
    """False where the account has not reached this node yet."""
    with contextlib.closing(_admin(uri)) as client:
        try:
            client.admin.command("setParameter", 1, tlsMode="requireTLS")
        except OperationFailure as error:
            if error.code not in _NO_ACCOUNT:
                raise
            return False
    return True


def replica_set_config(addresses: Sequence[str]) -> dict[str, Any]:
    """Heartbeats and timeouts such that a lost primary is replaced in about two seconds."""
    return {
        "_id": REPLICA_SET,
        "members": [{"_id": n, "host": address} for n, address in enumerate(addresses)],
        "settings": {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500},
    }


def _admin(uri: str) -> Client:
    return MongoClient(uri, serverSelectionTimeoutMS=2_000, connectTimeoutMS=5_000)


def _primary(client: Client) -> str | None:
    """The address of a primary that accepts writes, or None during an election."""
    try:
        reply = client.admin.command("hello")
    except PyMongoError:  # no primary yet, or it is just stepping down: the caller waits, with a deadline
        return None
    return str(reply["me"]) if reply.get("isWritablePrimary") else None


def _stepped_down(client: Client, command: dict[str, Any]) -> bool:
    try:
        client.admin.command(command)
    except AutoReconnect:  # it hung up on us while stepping down
        return True
    except OperationFailure as error:
        if error.code == _EXCEEDED_TIME_LIMIT:  # no secondary had caught up in time: ask again
            return False
        raise
    return True


def _serves(uri: str, term: int) -> bool:
    """Whether the node at ``uri`` itself says that it serves reads, and has applied something of the primary's term.

    A primary that was killed comes back as a secondary for a moment, before it rolls back what only it had.
    """
    with contextlib.closing(_admin(uri)) as client:
        try:
            reply = client.admin.command("hello")
        except PyMongoError:  # still starting: the caller waits, with a deadline
            return False
    serves = reply.get("isWritablePrimary") or reply.get("secondary")
    return bool(serves) and reply["lastWrite"]["opTime"]["t"] >= term


def _given(uri: str) -> MongoDeployment:
    variable = mongod_binary.URI_VARIABLE
    try:
        with contextlib.closing(_admin(uri)) as client:
            reply = client.admin.command("hello")
    except PyMongoError as error:
        raise MongoUnavailableError(f"the MongoDB in {variable} does not answer: {error}") from error
    if "setName" not in reply and reply.get("msg") != "isdbgrid":
        raise MongoUnavailableError(
            f"the MongoDB in {variable} is a standalone server, which has no change streams; "
            "start it with --replSet, or unset the variable"
        )
    return MongoDeployment(uri)


def _container() -> MongoDeployment:
    from testcontainers.core.container import DockerContainer

    container = (
        DockerContainer(mongod_binary.CONTAINER_IMAGE)
        .with_command(f"--replSet {REPLICA_SET} --bind_ip_all --quiet")
        .with_exposed_ports(27017)
    )
    container.start()
    address = f"{container.get_container_host_ip()}:{container.get_exposed_port(27017)}"
    # The set knows its node by the address inside the container, so clients must not discover it.
    deployment = MongoDeployment(f"mongodb://{address}/?directConnection=true")
    deployment._on_stop.callback(container.stop)
    try:
        with contextlib.closing(_admin(deployment.uri)) as client:
            wait_until(lambda: _pings(client), f"the container's MongoDB at {address}")
            client.admin.command("replSetInitiate", replica_set_config(["127.0.0.1:27017"]))
            wait_until(lambda: _primary(client), "a primary")
    except BaseException:
        deployment.stop()
        raise
    return deployment


def _pings(client: Client) -> bool:
    try:
        return bool(client.admin.command("ping")["ok"])
    except PyMongoError:  # not listening yet: the caller waits, with a deadline
        return False


def _key_file(folder: Path) -> Path:
    path = folder / "keyfile"
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(128))
    return path

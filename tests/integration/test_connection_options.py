"""``mongodb.*`` as a server, and the driver, see it: whom one connects as, over what, and how long one waits."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient, monitoring
from pymongo.errors import NetworkTimeout, OperationFailure, ServerSelectionTimeoutError

from snapshotter.configuration.settings import Settings
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from streaming.mongo.deployment import new_client

Client = MongoClient[dict[str, Any]]
OPENSSL = shutil.which("openssl")
SECONDS = 180.0


class Heartbeats(monitoring.ServerHeartbeatListener):
    """The driver's looks at servers: when they begin, and how long those last that fail."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.vain: list[float] = []
        self.three, self.one_in_vain = threading.Event(), threading.Event()

    def started(self, event: monitoring.ServerHeartbeatStartedEvent) -> None:
        self.begun.append(time.monotonic())
        if len(self.begun) >= 3:
            self.three.set()

    def succeeded(self, event: monitoring.ServerHeartbeatSucceededEvent) -> None:
        """Nothing to note."""

    def failed(self, event: monitoring.ServerHeartbeatFailedEvent) -> None:
        self.vain.append(event.duration)
        self.one_in_vain.set()


def connected(address: str, listener: Heartbeats | None = None, **options: object) -> Client:
    """A client as the engine's own are, from options with ``__`` for dots."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    least = {"name": "x", "delta.warehouse": "/lake", "mongodb.connection.string": address}
    uri = Settings.from_options({**least, **named}, {}).connection_uri()
    return new_client(uri, **({} if listener is None else {"event_listeners": [listener]}))


@pytest.fixture(scope="module")
def guarded() -> Iterator[MongoDeployment]:
    with start_mongodb(auth=True) as deployment:
        yield deployment


def test_one_connects_as_the_user_of_the_database_that_holds_it(guarded: MongoDeployment) -> None:
    """``mongodb.user``, ``mongodb.password``, and ``mongodb.authsource``: the same name may mean somebody else in
    another database, or nobody."""
    guarded.client()["shop"].command("createUser", "reader", pwd="s3cret p@ss", roles=["read"])
    # Without the administrator and his database, for what an address says itself goes first.
    address = f"mongodb://{guarded.uri.rpartition('@')[2].replace('&authSource=admin', '')}"
    account = {"mongodb__user": "reader", "mongodb__password": "s3cret p@ss"}
    with connected(address, **account, mongodb__authsource="shop") as client:
        who = client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"]
        assert who == [{"user": "reader", "db": "shop"}]
    with connected(address, **account) as client, pytest.raises(OperationFailure, match="Authentication"):
        client.admin.command("connectionStatus")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A server's certificate for a name that is not this host's, signed by itself, with its key."""
    if OPENSSL is None:
        pytest.skip("no openssl that could make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    key, signed, both = (folder / name for name in ("key.pem", "cert.pem", "both.pem"))
    made = [OPENSSL, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=elsewhere"]
    names = ["-addext", "subjectAltName=DNS:elsewhere.example"]
    subprocess.run([*made, *names, "-keyout", key, "-out", signed], check=True, capture_output=True)
    both.write_text(key.read_text() + signed.read_text())
    return both


def test_one_connects_over_tls(certificate: Path) -> None:
    """``mongodb.ssl.enabled`` for a server that takes nothing else, and ``mongodb.ssl.invalid.hostname.allowed`` for
    one whose certificate is another host's."""
    tls = (
        "--tlsMode",
        "preferTLS",
        "--tlsCertificateKeyFile",
        str(certificate),
        "--tlsCAFile",
        str(certificate),
    )
    tls = (*tls, "--tlsAllowConnectionsWithoutCertificates")
    with start_mongodb(extra_args=tls) as deployment:
        deployment.client().admin.command("setParameter", 1, tlsMode="requireTLS")
        address = f"mongodb://{deployment.nodes[0].address}/?directConnection=true&tlsCAFile={certificate}"
        quick: dict[str, object] = {"mongodb__server__selection__timeout__ms": 2_000}
        with connected(address, **quick) as client, pytest.raises(ServerSelectionTimeoutError):
            client.admin.command("ping")
        quick["mongodb__ssl__enabled"] = "true"
        with connected(address, **quick) as client, pytest.raises(ServerSelectionTimeoutError, match="verif"):
            client.admin.command("ping")
        with connected(address, **quick, mongodb__ssl__invalid__hostname__allowed="true") as client:
            assert client.admin.command("ping")["ok"] == 1


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"mongodb://127.0.0.1:{server.getsockname()[1]}/"


def test_how_long_one_waits_for_a_connection(silent: str) -> None:
    """``mongodb.connect.timeout.ms``: one look at a server that does not answer lasts no longer (ten seconds
    otherwise), and ``mongodb.server.selection.timeout.ms`` is how long one waits for a server that does (30)."""
    looks = Heartbeats()
    began = time.monotonic()
    waits: dict[str, object] = {
        "mongodb__connect__timeout__ms": 150,
        "mongodb__server__selection__timeout__ms": 900,
    }
    with connected(silent, looks, **waits) as client:
        with pytest.raises(ServerSelectionTimeoutError):
            client.admin.command("ping")
        assert 0.9 <= time.monotonic() - began < 9
        assert looks.one_in_vain.wait(SECONDS)
    assert 0.1 < looks.vain[0] < 5


def test_how_often_one_looks(mongo_uri: str) -> None:
    """``mongodb.heartbeat.frequency.ms``: three looks take no twenty seconds, as they do otherwise."""
    looks = Heartbeats()
    with connected(mongo_uri, looks, mongodb__heartbeat__frequency__ms=500) as client:
        client.admin.command("ping")
        assert looks.three.wait(SECONDS)
    assert looks.begun[2] - looks.begun[0] < 9


def test_how_long_one_waits_for_an_answer(mongo_uri: str, database: str) -> None:
    """``mongodb.socket.timeout.ms``: a query that takes longer is given up; by itself none is."""
    slow = {"$where": "sleep(1500) || true"}
    with connected(mongo_uri) as client:
        client[database]["items"].insert_one({"_id": 1})
        assert client[database]["items"].find_one(slow) == {"_id": 1}
    with (
        connected(mongo_uri, mongodb__socket__timeout__ms=200) as client,
        pytest.raises(NetworkTimeout),
    ):
        client[database]["items"].find_one(slow)

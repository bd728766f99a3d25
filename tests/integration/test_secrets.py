"""Secrets stay where they belong: an engine that has a password, a key store and credentials in its address shows none
of them, wherever one looks."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pyarrow.parquet as parquet
import pytest
from cryptography.hazmat.primitives import serialization

from snapshotter.testing.certificates import HERE, Authority, ServerTls
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from streaming.mongo.certificates import IDENTITY
from tests.support.engine_process import EngineProcess

ADDRESS_WORD, STORE_WORD, TRUST_WORD, UNUSED_WORD = "addr3ss-pw", "st0re-pw", "tru5t-pw", "unus3d-pw"
NAME = "custodian"
_PARQUET = b"PAR1"
PRIVILEGES = [
    {"resource": {"db": "", "collection": ""}, "actions": ["find", "changeStream", "listCollections"]},
    {"resource": {"db": "shop", "collection": "signals"}, "actions": ["insert", "remove"]},
    {"resource": {"db": "shop", "collection": "signals_status"}, "actions": ["find", "insert", "update"]},
]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[MongoDeployment]:
    papers = ServerTls(authority, authority.issue("server", hosts=HERE), wants_certificate=True)
    with start_mongodb(auth=True, tls=papers) as mongo:
        client = mongo.client()
        client["shop"]["orders"].insert_many([{"_id": n, "total": n} for n in range(50)])
        client["shop"].create_collection("signals")
        mongo.add_user(NAME, PRIVILEGES, password=ADDRESS_WORD)
        yield mongo


def started(server: MongoDeployment, authority: Authority, folder: Path) -> tuple[EngineProcess, list[bytes]]:
    """An engine that has all there is of secrets, tells and writes down whatever it can; and these secrets."""
    own = authority.issue("client", unit="clients")
    trust = authority.issue("trusted", unit="clients").pkcs12(TRUST_WORD)
    hosts = server.bare_uri.removeprefix("mongodb://")
    events = folder / "events"
    events.mkdir()
    options = {
        "name": "discreet",
        "mongodb.connection.string": f"mongodb://{NAME}:{ADDRESS_WORD}@{hosts}&authSource=admin",
        "mongodb.password": UNUSED_WORD,
        "mongodb.user": "nobody",
        "mongodb.ssl.enabled": "true",
        "mongodb.ssl.keystore": str(own.pkcs12(STORE_WORD)),
        "mongodb.ssl.keystore.password": STORE_WORD,
        "mongodb.ssl.truststore": str(trust),
        "mongodb.ssl.truststore.password": TRUST_WORD,
        "database.include.list": "shop",
        "signal.data.collection": "shop.signals",
        "notification.enabled.channels": "log,delta",
        "errors.max.retries": "1",
        "retriable.restart.connector.wait.ms": "100",
        "mongodb.server.selection.timeout.ms": "3000",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.maxMetadataStringLength": "100000",
    }
    engine = EngineProcess(folder, options)
    key = own.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    lines = key.splitlines()[1:-1]
    words = [word.encode() for word in (ADDRESS_WORD, STORE_WORD, TRUST_WORD, UNUSED_WORD)]
    return engine, [*words, *lines, f"{IDENTITY}=eJ".encode()]


def processes(engine: EngineProcess) -> list[psutil.Process]:
    """The engine, its JVM, the daemon of its Python workers, and these; not the guardian, who is the tests' own."""
    main = engine._main()
    return [main, *main.children(recursive=True)]


def shown_by(running: list[psutil.Process]) -> Mapping[str, bytes]:
    """What everybody on the machine sees of these processes, and what their own user sees besides."""
    found: dict[str, bytes] = {}
    for process in running:
        for what in ("cmdline", "environ"):
            path = Path(f"/proc/{process.pid}/{what}")
            try:
                found[f"{what} of {process.name()} {process.pid}"] = path.read_bytes()
            except (FileNotFoundError, ProcessLookupError, psutil.NoSuchProcess):
                continue  # a worker that has just ended
    return found


def written(folder: Path, but: frozenset[Path]) -> Iterator[tuple[str, bytes]]:
    """Every file as it is, and of Parquet what is packed in it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path not in but:
            content = path.read_bytes()
            if content.startswith(_PARQUET):
                table = parquet.read_table(path)
                content += f"{table.schema} {table.schema.metadata} {table.to_pylist()}".encode()
            yield str(path.relative_to(folder)), content


def leaks(secrets: list[bytes], found: Mapping[str, bytes]) -> list[str]:
    """Where a secret is, as itself or as base64 of itself."""
    hidden = {secret: [secret, *_in_base64(secret)] for secret in secrets}
    return [
        f"{name}: {secret.decode()}"
        for name, content in found.items()
        for secret, forms in hidden.items()
        if any(form in content for form in forms)
    ]


def _in_base64(secret: bytes) -> list[bytes]:
    """What base64 of a longer text has of it, at each of the three places where it may begin."""
    return [base64.b64encode(b"x" * shift + secret)[4 if shift else 0 : -4] for shift in range(3)]


def test_the_search_finds_what_is_there() -> None:
    """As itself, and within a longer text in base64, wherever it begins in it."""
    word = ADDRESS_WORD.encode()
    for begin in ("", "a", "ab", "abc"):
        content = base64.b64encode(f"{begin}{ADDRESS_WORD} and more".encode())
        assert leaks([word], {"here": content}) == [f"here: {ADDRESS_WORD}"], begin
    assert leaks([word], {"here": b"<" + word + b">", "there": b"nothing"}) == [f"here: {ADDRESS_WORD}"]


@pytest.mark.slow
def test_no_secret_is_shown_anywhere(server: MongoDeployment, authority: Authority, tmp_path: Path) -> None:
    """Password, passwords of both stores, the private key, the credentials of the address: searched in every file that
    an engine writes (tables, state, checkpoint, its log, Spark's event log with the plans), and in the command lines
    and environments of its processes; through a load, changes, a refused signal, and an end by an error at MongoDB."""
    engine, secrets = started(server, authority, tmp_path)
    engine.start()
    client = server.client()
    engine.until(
        "the first load", lambda: ((r := engine.request("initial")) is not None and r.state.ended) or None
    )
    client["shop"]["orders"].update_one({"_id": 1}, {"$set": {"total": -1}})
    client["shop"]["signals"].insert_one(
        {
            "_id": "bad",
            "type": "execute-snapshot",
            "data": {"data-collections": ["shop.none"], "reply": f"mongodb://me:{ADDRESS_WORD}@h/"},
        }
    )
    client["shop"]["signals"].insert_one(
        {"_id": "again", "type": "execute-snapshot", "data": {"data-collections": ["shop.orders"]}}
    )
    engine.until(
        "the second load", lambda: ((r := engine.request("again")) is not None and r.state.ended) or None
    )
    seen = dict(shown_by(processes(engine)))
    assert any("java" in name for name in seen)
    assert sum("python" in name for name in seen) >= 4, sorted(seen)
    client["admin"].command("dropUser", NAME)
    assert engine.wait() == 3, engine.log.read_text()
    files = dict(written(tmp_path, frozenset({engine.file, *tmp_path.glob("*.json")})))
    assert any(name.startswith("events/") for name in files), "Spark wrote no event log"
    assert any(b"MicroBatchScan" in files[name] for name in files if name.startswith("events/")), "no plan"
    assert leaks(secrets, seen) == []
    assert leaks(secrets, files) == []
    log = engine.log.read_text()
    assert "not authorized" in log.lower() or "authentication" in log.lower(), log[-2000:]
    assert json.loads((engine.state / "status.json").read_text())["state"] == "failed"

"""TLS and authentication at a real server: what connects, and what each way to fail says.

No failure touches anything: the command ends before it starts Spark, with the option to set.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pymongo import MongoClient
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from snapshotter.cli.app import app
from snapshotter.configuration.settings import Settings
from snapshotter.testing.certificates import HERE, Authority, Issued, ServerTls
from snapshotter.testing.mongodb import MongoDeployment, start_mongodb
from streaming.mongo.deployment import new_client
from tests.support.engines import SECONDS, Lab
from tests.support.tls_servers import handshakes

STORE = "store-secret"
READS = [{"resource": {"db": "", "collection": ""}, "actions": ["find", "changeStream", "listCollections"]}]


@dataclass(frozen=True)
class Papers:
    """Certificates of one private authority."""

    authority: Authority
    server: Issued
    client: Issued

    def trust(self) -> dict[str, str]:
        """The options by which one trusts this authority."""
        store = self.server.pkcs12(STORE)
        return {"mongodb.ssl.truststore": str(store), "mongodb.ssl.truststore.password": STORE}

    def own(self, one: Issued | None = None) -> dict[str, str]:
        """The options by which one has a certificate of one's own."""
        store = (one or self.client).pkcs12(STORE)
        return {"mongodb.ssl.keystore": str(store), "mongodb.ssl.keystore.password": STORE}


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    authority = Authority.new(tmp_path_factory.mktemp("papers"))
    return Papers(authority, authority.issue("server", hosts=HERE), authority.issue("client", unit="clients"))


@pytest.fixture(scope="module")
def server(papers: Papers) -> Iterator[MongoDeployment]:
    """With access control, and TLS for everybody; a client needs no certificate."""
    mechanisms = {"authenticationMechanisms": "SCRAM-SHA-1,SCRAM-SHA-256,MONGODB-X509"}
    with start_mongodb(
        auth=True, set_parameters=mechanisms, tls=ServerTls(papers.authority, papers.server)
    ) as mongo:
        mongo.client()["shop"]["orders"].insert_many([{"_id": n} for n in range(20)])
        yield mongo


def options(address: str, **named: str) -> dict[str, str]:
    """The least that an engine needs, with TLS."""
    least = {"name": "shop", "delta.warehouse": "/nowhere", "mongodb.connection.string": address}
    return {**least, "mongodb.ssl.enabled": "true", **named}


def who(given: dict[str, str]) -> list[dict[str, str]]:
    """Whom the server takes somebody for who connects with these options, as an engine does."""
    with new_client(Settings.from_options(given, {}).connection_uri()) as client:
        users: list[dict[str, str]] = client.admin.command("connectionStatus")["authInfo"][
            "authenticatedUsers"
        ]
        return users


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
def test_passwords_by_each_mechanism(mechanism: str, server: MongoDeployment, papers: Papers) -> None:
    """A user who may use one mechanism alone, over TLS with a private authority: as the driver chooses it, and by
    ``authMechanism``."""
    name = mechanism.lower()
    server.add_user(name, READS, password="pä$$:w/rd", mechanism=mechanism)
    account = {"mongodb.user": name, "mongodb.password": "pä$$:w/rd", **papers.trust()}
    assert who(options(server.bare_uri, **account)) == [{"user": name, "db": "admin"}]
    chosen = f"{server.bare_uri}&authMechanism={mechanism}"
    assert who(options(chosen, **account)) == [{"user": name, "db": "admin"}]


@pytest.mark.slow
def test_an_engine_with_a_certificate_of_its_own(
    server: MongoDeployment, papers: Papers, tmp_path: Path, spark: SparkSession
) -> None:
    """X.509 and both stores, through a whole engine: its driver, the readers of chunks and those of the stream, which
    are other processes, connect by the certificates that the options name."""
    server.add_user(papers.client.subject, READS, database="$external")
    named = {
        **options(f"{server.bare_uri}&authMechanism=MONGODB-X509", **papers.trust(), **papers.own()),
        "database.include.list": "shop",
    }
    named.pop("delta.warehouse")
    assert who(options(named["mongodb.connection.string"], **named)) == [
        {"user": papers.client.subject, "db": "$external"}
    ]
    lab = Lab(server.uri, server.client(), "shop", tmp_path, spark, dict(named)).with_options("cluster_time")
    lab.options.pop("name")
    with lab.running() as engine:
        assert engine.wait("initial", SECONDS).tasks[0].rows == 20
        lab.collection("orders").update_one({"_id": 3}, {"$set": {"paid": True}})
        engine.catch_up(SECONDS)
        assert engine.verify("shop.orders").equal
    lab.assert_equal("orders")


def test_three_nodes_speak_tls_among_themselves(papers: Papers) -> None:
    """A set of the tests' own survives its primary's stepping down, and is reached by both stores."""
    tls = ServerTls(papers.authority, papers.server, wants_certificate=True)
    with start_mongodb(nodes=3, auth=True, tls=tls) as mongo:
        mongo.step_down()
        mongo.add_user("reader", READS, password="word")
        account = {"mongodb.user": "reader", "mongodb.password": "word"}
        given = options(mongo.bare_uri, **account, **papers.trust(), **papers.own())
        assert who(given) == [{"user": "reader", "db": "admin"}]


def failed(folder: Path, given: dict[str, str]) -> tuple[int, str]:
    """``snapshotter run --once``, which has to end before it touches anything: exit code and messages."""
    path = folder / "shop.json"
    warehouse = {"delta.warehouse": str(folder / "lake")}
    quick = {"mongodb.server.selection.timeout.ms": "1500"}
    path.write_text(json.dumps({**given, **warehouse, **quick}), encoding="utf-8")
    result = CliRunner().invoke(app, ["run", "--once", "-c", str(path)])
    assert not (folder / "lake").exists(), "something was written"
    assert "Traceback" not in result.stderr
    assert STORE not in result.stderr
    return result.exit_code, " ".join(result.stderr.split())


def test_an_authority_that_nobody_knows(server: MongoDeployment, papers: Papers, tmp_path: Path) -> None:
    """Without a trust store, and with one that has another authority of the same name."""
    other = Authority.new(tmp_path)
    wrong = replace(papers, server=other.issue("server", hosts=HERE)).trust()
    for trusted in ({}, wrong):
        code, said = failed(tmp_path, options(server.bare_uri, **trusted))
        assert code == 2, said
        assert "the authority that has signed the server's certificate is not known here" in said
        assert "mongodb.ssl.truststore" in said


def test_a_certificate_for_another_host(papers: Papers, tmp_path: Path) -> None:
    """It is refused, unless ``mongodb.ssl.invalid.hostname.allowed`` lets it pass."""
    elsewhere = papers.authority.issue("elsewhere", hosts=("elsewhere.example",))
    with start_mongodb(tls=ServerTls(papers.authority, elsewhere)) as mongo:
        given = options(mongo.bare_uri, **papers.trust())
        code, said = failed(tmp_path, given)
        assert code == 2, said
        assert "the server's certificate is for another host" in said
        assert "mongodb.ssl.invalid.hostname.allowed = true" in said
        assert who({**given, "mongodb.ssl.invalid.hostname.allowed": "true"}) == []


def test_a_server_whose_certificate_has_expired(papers: Papers, tmp_path: Path) -> None:
    """No option accepts it: it has to be renewed."""
    ended = datetime.now(UTC) - timedelta(hours=1)
    expired = papers.authority.issue("expired", hosts=HERE, valid=(ended - timedelta(days=9), ended))
    with handshakes(expired) as address:
        code, said = failed(
            tmp_path, options(f"mongodb://{address}/?directConnection=true", **papers.trust())
        )
    assert code == 2, said
    assert "the server's certificate has expired: renew it there" in said


def test_no_tls_where_it_is_required(server: MongoDeployment, papers: Papers, tmp_path: Path) -> None:
    """The server hangs up and says nothing; it is asked by TLS then, so that the message is no guess."""
    code, said = failed(tmp_path, options(server.bare_uri, **{"mongodb.ssl.enabled": "false"}))
    assert code == 2, said
    assert "the server takes connections by TLS only: set mongodb.ssl.enabled = true" in said


def test_tls_where_there_is_none(mongo_uri: str, papers: Papers, tmp_path: Path) -> None:
    """The other way round: the server answers without TLS."""
    code, said = failed(tmp_path, options(mongo_uri, **papers.trust()))
    assert code == 2, said
    assert "the server does not speak TLS: leave mongodb.ssl.enabled out" in said


def test_a_certificate_where_one_is_required(papers: Papers, tmp_path: Path) -> None:
    """None, or one of an authority that the server does not know, names the key store; the right one connects. Without
    TLS at all both options are named."""
    stranger = Authority.new(tmp_path, "strangers").issue("client", unit="clients")
    with start_mongodb(tls=ServerTls(papers.authority, papers.server, wants_certificate=True)) as mongo:
        given = options(mongo.bare_uri, **papers.trust())
        code, said = failed(tmp_path, given)
        assert code == 2, said
        assert "the server wants a client certificate, and we have none: set mongodb.ssl.keystore" in said
        code, said = failed(tmp_path, {**given, **papers.own(stranger)})
        assert code == 2, said
        assert "certificate" in said
        assert "set mongodb.ssl.keystore to a store with a certificate that it accepts" in said
        code, said = failed(tmp_path, {**given, "mongodb.ssl.enabled": "false"})
        assert code == 2, said
        assert "by TLS, with a client certificate: set mongodb.ssl.enabled = true, and set" in said
        assert who({**given, **papers.own()}) == []


def test_a_certificate_of_nobody(server: MongoDeployment, papers: Papers, tmp_path: Path) -> None:
    """The server knows its authority, but no user of that name: credentials that are refused, exit 3."""
    nobody = papers.authority.issue("nobody", unit="clients")
    address = f"{server.bare_uri}&authMechanism=MONGODB-X509"
    code, said = failed(tmp_path, options(address, **papers.trust(), **papers.own(nobody)))
    assert code == 3, said
    assert "CN=nobody" in said or "Authentication failed" in said


def test_a_wrong_password_over_tls(server: MongoDeployment, papers: Papers, tmp_path: Path) -> None:
    """Exit 3, and the options of the credentials: TLS is not to blame."""
    user, password = {"mongodb.user": "somebody"}, {"mongodb.password": "guessed"}
    code, said = failed(tmp_path, options(server.bare_uri, **papers.trust(), **user, **password))
    assert code == 3, said
    assert "mongodb.password" in said
    assert "guessed" not in said


def test_files_of_pem_in_the_connection_string(server: MongoDeployment, papers: Papers) -> None:
    """The driver's own options go on working, and go first."""
    files = f"tlsCAFile={quote(str(papers.authority.path))}&tlsCertificateKeyFile={quote(str(papers.client.path))}"
    client: MongoClient[Any]
    with MongoClient(f"{server.bare_uri}&tls=true&{files}") as client:
        assert client.admin.command("ping")["ok"] == 1
    assert who(options(f"{server.bare_uri}&{files}")) == []

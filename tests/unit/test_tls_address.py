"""Addresses with certificates: what ``mongodb.ssl.*`` makes of one, and what a process makes of that."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from snapshotter.configuration.settings import Settings
from snapshotter.errors import MASK, ConfigurationError, redact
from snapshotter.testing.certificates import Authority, Issued
from streaming.mongo.certificates import AUTHORITIES, IDENTITY, with_certificates, with_files
from streaming.mongo.deployment import redacted
from tests.unit.test_settings import LEAST, made

PEM = "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Issued:
    return Authority.new(tmp_path_factory.mktemp("stores")).issue("client", unit="clients")


def path_in(uri: str, option: str) -> Path:
    (found,) = [
        part.partition("=")[2] for part in uri.split("?")[1].split("&") if part.startswith(f"{option}=")
    ]
    return Path(found)


def test_an_address_brings_certificates_to_a_process() -> None:
    """They become files of this process, readable by its user alone, and the same ones however often one asks."""
    uri = with_certificates("mongodb://h/?w=1", authorities=PEM, identity=PEM * 2)
    assert uri.startswith(f"mongodb://h/?w=1&{AUTHORITIES}=")
    opened = with_files(uri)
    trusted, ours = path_in(opened, "tlsCAFile"), path_in(opened, "tlsCertificateKeyFile")
    assert (trusted.read_text(), ours.read_text()) == (PEM, PEM * 2)
    assert stat.S_IMODE(ours.stat().st_mode) == 0o600
    assert with_files(uri) == opened
    assert with_certificates("mongodb://h/") == with_files("mongodb://h/") == "mongodb://h/"


def test_where_files_cannot_be_in_memory() -> None:
    """Then they lie in a folder that nobody else may look into, and are gone once the process has ended."""
    program = (
        "import os, pathlib, stat\n"
        "if hasattr(os, 'memfd_create'): del os.memfd_create\n"
        "from streaming.mongo.certificates import *\n"
        f"uri = with_files(with_certificates('mongodb://h/', identity={PEM!r}))\n"
        "path = pathlib.Path(uri.partition('tlsCertificateKeyFile=')[2])\n"
        "modes = [oct(stat.S_IMODE(p.stat().st_mode)) for p in (path, path.parent)]\n"
        "print(path, *modes, len(path.read_text()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    path, file_mode, folder_mode, size = done.stdout.split()
    assert (file_mode, folder_mode, size) == ("0o600", "0o700", str(len(PEM)))
    assert not Path(path).parent.exists()


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no files in memory")
def test_a_forked_process_has_its_own() -> None:
    """Workers of Spark are forked: the files of the process they come from are theirs too."""
    uri = with_certificates("mongodb://h/", identity=PEM)
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.write(write, path_in(with_files(uri), "tlsCertificateKeyFile").read_bytes())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        assert pipe.read().decode() == PEM
    os.waitpid(child, 0)


def test_no_message_shows_the_private_key() -> None:
    """An address that brings it is masked as one with a password is."""
    uri = with_certificates("mongodb://me:hush@h/?tlsCertificateKeyFilePassword=hush", identity=PEM)
    for text in (redact(f"cannot reach {uri}: no"), redacted(uri)):
        assert "hush" not in text
        assert f"{IDENTITY}={MASK}" in text


def test_stores_are_part_of_the_address(own: Issued) -> None:
    """``mongodb.ssl.keystore`` and ``mongodb.ssl.truststore``, with TLS."""
    store = str(own.pkcs12("secret1"))
    options = {
        "mongodb_ssl_keystore": store,
        "mongodb_ssl_keystore_password": "secret1",
        "mongodb_ssl_keystore_type": "pkcs12",
        "mongodb_ssl_truststore": store,
        "mongodb_ssl_truststore_password": "secret1",
        "mongodb_ssl_truststore_type": "JKS",
    }
    settings = made(mongodb_ssl_enabled="true", **options)
    opened = with_files(settings.connection_uri())
    assert path_in(opened, "tlsCertificateKeyFile").read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert path_in(opened, "tlsCAFile").read_text().count("BEGIN CERTIFICATE") == 2
    assert "tls=true" in opened
    assert settings.warnings == ()
    masked = settings.masked()
    assert masked["mongodb.ssl.keystore.password"] == masked["mongodb.ssl.truststore.password"] == MASK
    assert masked["mongodb.ssl.keystore"] == store
    without = made(**options)
    assert [warning.partition(" has no effect")[0] for warning in without.warnings] == [
        "mongodb.ssl.keystore",
        "mongodb.ssl.truststore",
    ]
    assert without.connection_uri() == made().connection_uri()


def test_the_connection_string_goes_first(own: Issued) -> None:
    """Files that it names itself are used, and which option is left out for that is said."""
    uri = f"mongodb://h/?tls=true&tlsCAFile={own.path}&tlsCertificateKeyFile={own.path}"
    store = str(own.pkcs12("secret1"))
    options = {"mongodb_ssl_keystore": store, "mongodb_ssl_truststore": store}
    settings = made(mongodb_connection_string=uri, **options)
    assert IDENTITY not in settings.connection_uri()
    assert AUTHORITIES not in settings.connection_uri()
    assert ["names another file" in warning for warning in settings.warnings] == [True, True]


@pytest.mark.parametrize(
    "scheme", ["mongodb+srv://h.example", "mongodb://h/?tls=true", "mongodb://h/?ssl=true"]
)
def test_tls_by_the_connection_string(scheme: str, own: Issued) -> None:
    """Where the connection string asks for TLS, the options about it count as with ``mongodb.ssl.enabled``."""
    settings = made(
        mongodb_connection_string=scheme,
        mongodb_ssl_invalid_hostname_allowed="true",
        mongodb_ssl_keystore=str(own.pkcs12("secret1")),
        mongodb_ssl_keystore_password="secret1",
    )
    assert settings.warnings == ()
    assert "tlsAllowInvalidHostnames=true" in settings.connection_uri()
    assert IDENTITY in settings.connection_uri()


def test_a_store_that_cannot_be_used_ends_the_start(tmp_path: Path) -> None:
    """Exit 2, with the option and the file."""
    settings = made(mongodb_ssl_enabled="true", mongodb_ssl_keystore=str(tmp_path / "none.jks"))
    with pytest.raises(ConfigurationError, match=r"mongodb\.ssl\.keystore = .*none\.jks: cannot be read"):
        settings.connection_uri()
    assert (
        "mongodb.ssl.keystore.password has no effect" in made(mongodb_ssl_keystore_password="x").warnings[0]
    )


@pytest.mark.parametrize("option", ["mongodb.ssl.keystore.type", "mongodb.ssl.truststore.type"])
def test_a_type_of_stores_is_one_of_two(option: str) -> None:
    """PKCS12 or JKS, in letters of any size; another one is refused before a file is looked at."""
    for known in ("PKCS12", "jks"):
        assert Settings.from_options({**LEAST, option: known}, {}).masked()[option] == known.upper()
    with pytest.raises(ConfigurationError, match="= PEM: must be one of PKCS12, JKS") as caught:
        Settings.from_options({**LEAST, option: "PEM"}, {})
    assert option in caught.value.message


def test_who_proves_himself_by_a_certificate_has_no_database_of_his_own() -> None:
    """With X.509 users are those of ``$external``, whatever ``mongodb.authsource`` is by default."""
    uri = "mongodb://h/?authMechanism=MONGODB-X509"
    settings = made(mongodb_connection_string=uri, mongodb_user="CN=me")
    assert "mongodb://CN%3Dme@h/" in settings.connection_uri()
    assert "authSource=%24external" in settings.connection_uri()


@pytest.mark.parametrize(
    "given", ["com.example.AwsIamProvider", "DefaultMongoDbAuthProvider2", "io.debezium.Other"]
)
def test_credentials_of_a_class_of_javas(given: str) -> None:
    """It cannot run here: refused, with what to do instead. Debezium's own one asks for nothing more."""
    with pytest.raises(ConfigurationError) as caught:
        made(mongodb_authentication_class=given)
    assert f"mongodb.authentication.class = {given}" in caught.value.message
    assert "mongodb.user" in caught.value.message
    for default in ("io.debezium.connector.mongodb.connection.DefaultMongoDbAuthProvider", ""):
        options = {**LEAST, "mongodb.authentication.class": default}
        assert Settings.from_options(options, {}).warnings == ()

"""Key stores of Java's as PEM: both forms, with what can be wrong with them, which names the option."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import NoEncryption, load_pem_private_key, pkcs12

from snapshotter.configuration.key_stores import Store, authorities, identity
from snapshotter.errors import ConfigurationError
from snapshotter.testing.certificates import Authority, Issued

PASSWORD = "pässword 1"
KEYTOOL = shutil.which("keytool")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="module")
def own(authority: Authority) -> Issued:
    return authority.issue("client", unit="clients")


def keytool(*arguments: str | Path) -> None:
    """Java's own tool, which is there wherever Spark can run. The passwords of these stores are no secrets."""
    if KEYTOOL is None:
        pytest.skip("no keytool that could make a store")
    passwords = ["-J-Dfile.encoding=UTF-8", "-J-Dsun.jnu.encoding=UTF-8", "-noprompt"]
    subprocess.run([KEYTOOL, *map(str, arguments), *passwords], check=True, capture_output=True, timeout=120)


def java_identity(own: Issued, folder: Path, kind: str) -> Path:
    """The key and chain of ``own`` in a store that Java has written."""
    path = folder / f"own.{kind}"
    source = ["-srckeystore", own.pkcs12("secret1"), "-srcstoretype", "PKCS12", "-srcstorepass", "secret1"]
    words = ["-deststorepass", "secret2", "-destkeypass", "secret2"]
    keytool(
        "-importkeystore", *source, "-srcalias", "own", "-destkeystore", path, "-deststoretype", kind, *words
    )
    return path


def java_trust(authority: Authority, folder: Path, kind: str) -> Path:
    """The certificate of the authority in a store that Java has written."""
    path = folder / f"trust.{kind}"
    store = ["-keystore", path, "-storetype", kind, "-storepass", "secret2"]
    keytool("-importcert", "-alias", "root", "-file", authority.path, *store)
    return path


def identities(pem: str) -> tuple[bytes, list[x509.Certificate]]:
    key = load_pem_private_key(pem.encode(), None)
    return key.private_numbers().private_value, x509.load_pem_x509_certificates(pem.encode())


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_what_java_writes_is_read(kind: str, authority: Authority, own: Issued, tmp_path: Path) -> None:
    """A key with its chain, its own certificate first, and the certificates that are trusted; the type is seen by the
    file's content."""
    store = java_identity(own, tmp_path, kind)
    number, chain = identities(identity(Store("mongodb.ssl.keystore", str(store), "secret2")))
    assert number == own.key.private_numbers().private_value
    assert chain == [own.certificate, authority.certificate]
    trust = Store("mongodb.ssl.truststore", str(java_trust(authority, tmp_path, kind)), "secret2")
    assert x509.load_pem_x509_certificates(authorities(trust).encode()) == [authority.certificate]


def test_a_trust_store_of_java_needs_no_password(authority: Authority, tmp_path: Path) -> None:
    """Its certificates are in the open: the password only says whether somebody has changed them."""
    trust = Store("mongodb.ssl.truststore", str(java_trust(authority, tmp_path, "JKS")), None)
    assert x509.load_pem_x509_certificates(authorities(trust).encode()) == [authority.certificate]


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_password_that_is_wrong_or_not_there(
    kind: str, own: Issued, authority: Authority, tmp_path: Path
) -> None:
    """The option of the store and that of its password are named, the password itself is not shown."""
    path = java_identity(own, tmp_path, kind)
    for password in ("hush hush", None):
        with pytest.raises(ConfigurationError) as caught:
            identity(Store("mongodb.ssl.keystore", str(path), password))
        assert f"mongodb.ssl.keystore = {path}" in caught.value.message
        assert "mongodb.ssl.keystore.password" in caught.value.message
        assert "hush" not in caught.value.message
    with pytest.raises(ConfigurationError, match=r"mongodb\.ssl\.truststore\.password"):
        authorities(Store("mongodb.ssl.truststore", str(path), "hush hush"))


def test_pkcs12_of_another_tool(authority: Authority, own: Issued) -> None:
    """With letters in the password that are not ASCII."""
    number, chain = identities(identity(Store("mongodb.ssl.keystore", str(own.pkcs12(PASSWORD)), PASSWORD)))
    assert number == own.key.private_numbers().private_value
    assert chain[0] == own.certificate
    assert set(chain) == {own.certificate, authority.certificate}


def test_what_is_no_use(authority: Authority, own: Issued, tmp_path: Path) -> None:
    """A file that is not there, one that is no store, one without a key, one without certificates, a damaged one."""
    trust = java_trust(authority, tmp_path, "JKS")
    whole = java_identity(own, tmp_path, "JKS").read_bytes()
    cut, text = tmp_path / "cut.jks", tmp_path / "text.jks"
    cut.write_bytes(whole[:60])
    text.write_text("no store")
    for path, password, said in (
        (tmp_path / "nowhere.p12", "x", "cannot be read: No such file"),
        (text, "x", "no store of the type PKCS12 or JKS"),
        (trust, "secret2", "has no private key"),
        (cut, "secret2", "password is another one, or the file is damaged"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            identity(Store("mongodb.ssl.keystore", str(path), password))
    with pytest.raises(ConfigurationError, match="the file is damaged"):
        authorities(Store("mongodb.ssl.truststore", str(cut), None))
    bare = tmp_path / "bare.p12"
    bare.write_bytes(pkcs12.serialize_key_and_certificates(None, own.key, None, None, NoEncryption()))
    with pytest.raises(ConfigurationError, match="no certificate in it"):
        authorities(Store("mongodb.ssl.truststore", str(bare), None))


def test_several_private_keys(authority: Authority, own: Issued, tmp_path: Path) -> None:
    """Nothing says which of them to use, so none is."""
    path = java_identity(own, tmp_path, "JKS")
    store = ["-keystore", path, "-storetype", "JKS", "-storepass", "secret2", "-keypass", "secret2"]
    keytool("-genkeypair", "-alias", "another", "-keyalg", "RSA", "-dname", "CN=another", *store)
    with pytest.raises(ConfigurationError, match="2 private keys"):
        identity(Store("mongodb.ssl.keystore", str(path), "secret2"))


def test_an_own_certificate_that_has_expired(authority: Authority) -> None:
    """It is refused with its name and day, before a server refuses it without."""
    ended = datetime.now(UTC) - timedelta(days=3)
    old = authority.issue("old", unit="clients", valid=(ended - timedelta(days=1), ended))
    with pytest.raises(ConfigurationError, match=f"CN=old.*has expired on {ended:%Y-%m-%d}"):
        identity(Store("mongodb.ssl.keystore", str(old.pkcs12(PASSWORD)), PASSWORD))

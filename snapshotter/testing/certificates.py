"""Certificates for tests of TLS: a private authority, and what it signs for servers and for clients.

    authority = Authority.new(folder)
    server = authority.issue("server", hosts=("127.0.0.1", "localhost"))
    with start_mongodb(tls=ServerTls(authority, server)) as mongo: ...

Everything is a file of PEM in a folder that the caller removes. Keys are of an elliptic curve, since a test makes many.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_ORGANISATION = "snapshotter tests"
HERE = ("127.0.0.1", "localhost")


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its key: in one file of PEM, and as they are."""

    path: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    issuer: x509.Certificate

    @property
    def subject(self) -> str:
        """As MongoDB names a user of ``$external``."""
        return self.certificate.subject.rfc4514_string()

    def pkcs12(self, password: str) -> Path:
        """Key and chain as a PKCS12 store beside the file."""
        protection = serialization.BestAvailableEncryption(password.encode())
        path = self.path.with_suffix(".p12")
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                b"own", self.key, self.certificate, [self.issuer], protection
            )
        )
        return path


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority of one test. ``path`` is its certificate alone."""

    folder: Path
    path: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls, folder: Path, name: str = "authority") -> Authority:
        """An authority of this name, which begins the names of its files."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name, "authorities")
        builder = _builder(subject, subject, key.public_key(), _usually())
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        certificate = builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())
        path = folder / f"{name}.pem"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return cls(folder, path, key, certificate)

    def issue(
        self,
        name: str,
        *,
        hosts: Sequence[str] = (),
        unit: str = "servers",
        valid: tuple[datetime, datetime] | None = None,
    ) -> Issued:
        """A certificate for ``name``, which it carries as its common name. ``hosts``: names and addresses that it is
        good for. ``unit``: the organisational unit (MongoDB takes for a node of its own whoever has organisation and
        unit of a server). ``valid``: from when until when; None is a few days around now."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name, unit)
        builder = _builder(subject, self.certificate.subject, key.public_key(), valid or _usually())
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(purposes, critical=False)
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self.key, hashes.SHA256())
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        path = self.folder / f"{name}.pem"
        path.touch(mode=0o600)
        path.write_bytes(secret + certificate.public_bytes(serialization.Encoding.PEM))
        return Issued(path, key, certificate, self.certificate)


@dataclass(frozen=True, slots=True)
class ServerTls:
    """How a MongoDB of a test speaks TLS: whom it trusts, and the certificate of its nodes. ``wants_certificate``: it
    refuses clients without one. ``required``: it takes no connection without TLS."""

    authority: Authority
    server: Issued
    wants_certificate: bool = False
    required: bool = True

    def arguments(self) -> tuple[str, ...]:
        """Of a node's command line. TLS is required only once the deployment is up (`start_mongodb`)."""
        files = ("--tlsCertificateKeyFile", str(self.server.path), "--tlsCAFile", str(self.authority.path))
        without = () if self.wants_certificate else ("--tlsAllowConnectionsWithoutCertificates",)
        return ("--tlsMode", "preferTLS", *files, *without)

    def options(self) -> str:
        """Of an address that reaches such a server, whatever host its certificate is for and if it has expired."""
        own = f"tlsCAFile={self.authority.path}&tlsCertificateKeyFile={self.server.path}"
        return f"tls=true&{own}&tlsAllowInvalidCertificates=true"


def _named(name: str, unit: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANISATION),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, unit),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _usually() -> tuple[datetime, datetime]:
    now = datetime.now(UTC)
    return now - timedelta(days=1), now + timedelta(days=2)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    valid: tuple[datetime, datetime],
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public_key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(valid[0]).not_valid_after(valid[1])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)

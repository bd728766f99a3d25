"""Certificates that travel with an address of MongoDB.

Everything that connects has one connection string, and the driver takes certificates as names of files in it. A file
of the driver's machine is none on an executor's. So an address may bring the certificates themselves
(`with_certificates`), as it brings a password, and each process gives them to its driver as files of its own
(`with_files`).

Invariants
- An address that brings certificates holds secrets; `streaming.mongo.deployment.redacted` and the log mask them.
- On Linux these files are in memory, open to this process's user alone: no disk ever holds the private key, and
  nothing is left behind however the process ends. Elsewhere they lie in a folder of this user's alone, which a process
  that ends in good order removes.
- They live as long as the process, since the driver reads them again where it looks a cluster's address up (SRV).
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import os
import shutil
import tempfile
import threading
import zlib
from pathlib import Path
from urllib.parse import quote

AUTHORITIES = "snapshotterAuthorities"
"""Options of such an address: the certificates of authorities that are trusted, and our own one with its key."""
IDENTITY = "snapshotterIdentity"
_DRIVERS = {AUTHORITIES: "tlsCAFile", IDENTITY: "tlsCertificateKeyFile"}

_paths: dict[tuple[int, bytes], str] = {}
_paths_lock = threading.Lock()


def with_certificates(uri: str, *, authorities: str | None = None, identity: str | None = None) -> str:
    """The address ``uri`` with certificates in it, as PEM: of the ``authorities`` that are trusted, and the key and the
    chain that are our ``identity``. None: the address says it, or nothing does."""
    given = {AUTHORITIES: authorities, IDENTITY: identity}
    options = [f"{name}={_packed(pem)}" for name, pem in given.items() if pem is not None]
    if not options:
        return uri
    separator = "" if uri.endswith(("?", "&")) else "&" if "?" in uri else "?"
    return f"{uri}{separator}{'&'.join(options)}"


def with_files(uri: str) -> str:
    """The address as the driver takes it: the certificates that it brings are files of this process."""
    address, mark, query = uri.partition("?")
    return f"{address}{mark}{'&'.join(_as_file(option) for option in query.split('&'))}"


def _as_file(option: str) -> str:
    name, _, value = option.partition("=")
    if name not in _DRIVERS:
        return option
    return f"{_DRIVERS[name]}={quote(_path_of(_unpacked(value)))}"


def _packed(pem: str) -> str:
    return base64.urlsafe_b64encode(zlib.compress(pem.encode())).decode().rstrip("=")


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def _path_of(content: bytes) -> str:
    key = os.getpid(), hashlib.sha256(content).digest()
    with _paths_lock:
        if key not in _paths:
            _paths[key] = _in_memory(content) if hasattr(os, "memfd_create") else _in_folder(content)
        return _paths[key]


def _in_memory(content: bytes) -> str:
    file = os.memfd_create("snapshotter", os.MFD_CLOEXEC)
    os.fchmod(file, 0o600)
    with os.fdopen(os.dup(file), "wb") as stream:
        stream.write(content)
    return f"/proc/self/fd/{file}"


def _in_folder(content: bytes) -> str:
    folder = Path(tempfile.mkdtemp(prefix="snapshotter-tls-"))  # 0700
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "certificates.pem"
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as stream:
        stream.write(content)
    return str(path)

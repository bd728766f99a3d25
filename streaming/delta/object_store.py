"""An object store as Python reaches it, told by what Hadoop's own client was told.

Spark reaches ``s3a://`` by Hadoop's client, whose address, region and keys are given once, as ``fs.s3a.*``. The workers
that write files of tables, and the driver that looks after these, use pyarrow's. `store_of` puts the one's options into
the other's words. It refuses what there are no such words for: the folder is then left to the JVM. What it would
write without them might be unreadable (encryption), somebody else's (an ACL), or out of reach (a proxy).

Without keys both clients look for some in the surroundings of their process, and not in the same places: that of Python
follows a web identity and the profiles of Amazon's files, which Hadoop's own providers do not. Where they would find
different ones, it is refused as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

OPTIONS, SCHEME = "fs.s3a.", "s3a"
_SHOWN = f"spark.hadoop.{OPTIONS}"
"""As users give them."""
_KEYED = frozenset({"SimpleAWSCredentialsProvider", "TemporaryAWSCredentialsProvider"})
_OF_MACHINE = frozenset(
    {
        "IAMInstanceCredentialsProvider",
        "InstanceProfileCredentialsProvider",
        "ContainerCredentialsProvider",
        "EC2ContainerCredentialsProviderWrapper",
    }
)
_OF_ENVIRONMENT = frozenset({"EnvironmentVariableCredentialsProvider"})
_CHAINS = frozenset({"DefaultCredentialsProvider", "DefaultAWSCredentialsProviderChain"})
"""Amazon's own: they look in all the places where Python's client does."""
_AMBIENT = _OF_MACHINE | _OF_ENVIRONMENT | _CHAINS
_PROFILES = ("aws_access_key_id", "role_arn", "credential_process", "sso_")
"""What makes a profile one that has keys."""
_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_ONLY_THE_JVM = (
    *("encryption.algorithm", "server-side-encryption-algorithm", "encryption.key", "acl.default"),
    *("proxy.host", "accesspoint.arn", "create.storage.class", "signing-algorithm", "custom.signers"),
)
_SWITCHES = ("requester.pays.enabled", "endpoint.fips", "accesspoint.required", "encryption.cse.enabled")
_ATTEMPTS = 5
_OF_AMAZON = ".amazonaws.com"
_CENTRAL, _ANY_REGION = "s3.amazonaws.com", "us-east-1"


class OutOfReach(Exception):
    """Only the JVM reaches a folder; the message is a clause that says why."""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """How to reach it. ``endpoint``: host and port, None for Amazon's own. Without an ``access_key`` keys are those of
    the process's surroundings, or none at all (``anonymous``). ``attempts``: of each request."""

    endpoint: str | None = None
    secure: bool = True
    region: str | None = None
    path_style: bool = False
    attempts: int = _ATTEMPTS
    anonymous: bool = False
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)

    def files(self) -> fs.FileSystem:
        """Pyarrow's client of it, one a process: it keeps connections."""
        return _files(self)


@lru_cache(maxsize=8)
def _files(store: ObjectStore) -> fs.FileSystem:
    address: dict[str, Any] = {} if store.endpoint is None else {"endpoint_override": store.endpoint}
    return fs.S3FileSystem(
        access_key=store.access_key,
        secret_key=store.secret_key,
        session_token=store.session_token,
        anonymous=store.anonymous,
        # Of a store that has none the client would otherwise ask the machine, which may take seconds.
        region=store.region or (_ANY_REGION if store.endpoint is not None else None),
        scheme="https" if store.secure else "http",
        force_virtual_addressing=store.endpoint is not None and not store.path_style,
        allow_delayed_open=True,  # a file of one piece is then one request
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=store.attempts),
        **address,
    )


def store_of(said: Callable[[str], str | None], environ: Mapping[str, str] | None = None) -> ObjectStore:
    """The store of a bucket, by what is ``said`` of it under a name behind ``fs.s3a.`` (None: nothing). ``environ``:
    the variables of this process, if they are not its own.

    Raises `OutOfReach` where Python's client cannot be told the same, or would find other keys.
    """

    def given(name: str) -> str | None:
        return (said(name) or "").strip() or None

    for name in _ONLY_THE_JVM:
        if given(name) is not None:
            raise OutOfReach(f"{_SHOWN}{name} is set, which only the JVM knows")
    for name in _SWITCHES:
        if (given(name) or "false").lower() == "true":
            raise OutOfReach(f"{_SHOWN}{name} is on, which only the JVM knows")
    secure = (given("connection.ssl.enabled") or "true").lower() == "true"
    endpoint = given("endpoint")
    if endpoint is not None and "://" in endpoint:
        parts = urlsplit(endpoint)
        endpoint, secure = parts.netloc, parts.scheme == "https"
    if endpoint == _CENTRAL:
        endpoint = None
    return ObjectStore(
        endpoint=endpoint,
        secure=secure,
        region=given("endpoint.region") or _region_in(endpoint),
        path_style=(given("path.style.access") or "false").lower() == "true",
        attempts=max(1, int(given("attempts.maximum") or _ATTEMPTS)),
        **_credentials(given, os.environ if environ is None else environ),
    )


def _credentials(given: Callable[[str], str | None], environ: Mapping[str, str]) -> dict[str, Any]:
    names = (given("aws.credentials.provider") or "").replace(",", " ").split()
    providers = {name.rpartition(".")[2] for name in names}
    unknown = sorted(providers - _KEYED - _AMBIENT - {_ANONYMOUS})
    if unknown:
        raise OutOfReach(
            f"{_SHOWN}aws.credentials.provider names {', '.join(unknown)}, which only the JVM knows"
        )
    key, secret, token = (given(name) for name in ("access.key", "secret.key", "session.token"))
    keyed = not providers or providers & _KEYED
    if keyed and key is not None and secret is not None:
        temporary = not providers or "TemporaryAWSCredentialsProvider" in providers
        return {"access_key": key, "secret_key": secret, "session_token": token if temporary else None}
    if not providers or providers & _AMBIENT:
        if why := _found_by_one(providers or _OF_ENVIRONMENT | _OF_MACHINE, environ):
            raise OutOfReach(f"{why} (docs/object-storage.md#credentials)")
        return {}
    if _ANONYMOUS in providers:
        return {"anonymous": True}
    raise OutOfReach(f"{_SHOWN}access.key and {_SHOWN}secret.key are not set")


def _found_by_one(providers: Set[str], environ: Mapping[str, str]) -> str:
    """Why Python's client would find other keys in its surroundings than Hadoop's by these ``providers``; empty where
    they find the same. Amazon's own chains look everywhere, but for the order of web identity and profile."""
    chain = bool(providers & _CHAINS)
    if environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY"):
        alone = not chain and not providers & _OF_ENVIRONMENT
        return "keys are in the environment, where only Python's client would look" if alone else ""
    identity, profile = bool(environ.get("AWS_WEB_IDENTITY_TOKEN_FILE")), _profile(environ)
    if chain:
        both = f"AWS_WEB_IDENTITY_TOKEN_FILE is set, and there is a profile ({profile})"
        return f"{both}: the two clients take them in different orders" if identity and profile else ""
    if identity:
        return "AWS_WEB_IDENTITY_TOKEN_FILE is set, which only Python's client would follow"
    if profile:
        return f"there is a profile ({profile}), which only Python's client would take"
    if not providers & _OF_MACHINE:
        return "the environment has no keys, and only Python's client would look further"
    return ""


def _profile(environ: Mapping[str, str]) -> str:
    """A file of Amazon's that has keys, or says where to get some; empty without one."""
    folder = Path(environ.get("HOME") or "/nowhere", ".aws")
    files = {"AWS_SHARED_CREDENTIALS_FILE": "credentials", "AWS_CONFIG_FILE": "config"}
    for variable, name in files.items():
        place = Path(environ.get(variable) or folder / name)
        try:
            text = place.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # neither client can read it
        if any(word in text for word in _PROFILES):
            return str(place)
    return ""


def _region_in(endpoint: str | None) -> str | None:
    """The region that an address of Amazon's names: ``s3.eu-north-1.amazonaws.com``."""
    if endpoint is None or not endpoint.endswith(_OF_AMAZON):
        return None
    named = endpoint.removesuffix(_OF_AMAZON).rpartition(".")[2]
    return named.removeprefix("s3-") if named not in ("", "s3") else None

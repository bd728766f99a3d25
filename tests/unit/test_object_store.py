"""`streaming.delta.object_store`: what Hadoop's options become in Python's client, and what it is not given."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.delta.object_store import ObjectStore, OutOfReach, store_of

HADOOPS_OWN = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,\n  "
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,\n  "
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,"
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
)
SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
KEYS = {"access.key": "k", "secret.key": "s"}
NOWHERE = {"HOME": "/nowhere"}


def made(**options: str) -> ObjectStore:
    """``endpoint_region``: the option ``endpoint.region``."""
    return store_of({name.replace("_", "."): value for name, value in options.items()}.get, NOWHERE)


@pytest.mark.parametrize(
    ("options", "store"),
    [
        ({}, ObjectStore()),
        ({"endpoint": "s3.amazonaws.com", "endpoint_region": "eu-west-1"}, ObjectStore(region="eu-west-1")),
        (
            {"endpoint": "s3.eu-north-1.amazonaws.com"},
            ObjectStore("s3.eu-north-1.amazonaws.com", region="eu-north-1"),
        ),
        (
            {"endpoint": "http://minio:9000/", "path_style_access": "True", "attempts_maximum": "1"},
            ObjectStore("minio:9000", secure=False, path_style=True, attempts=1),
        ),
        (
            {"endpoint": "minio:9000", "connection_ssl_enabled": "false"},
            ObjectStore("minio:9000", secure=False),
        ),
        ({"endpoint": "https://r2.example"}, ObjectStore("r2.example")),
    ],
)
def test_an_address_is_told_in_the_other_clients_words(options: dict[str, str], store: ObjectStore) -> None:
    """Of Amazon's own there is only a region to be told."""
    assert made(**options) == store


@pytest.mark.parametrize(
    ("providers", "keys", "expected"),
    [
        (HADOOPS_OWN, KEYS, ObjectStore(access_key="k", secret_key="s")),
        (
            HADOOPS_OWN,
            {**KEYS, "session.token": "t"},
            ObjectStore(access_key="k", secret_key="s", session_token="t"),
        ),
        (HADOOPS_OWN, {}, ObjectStore()),  # environment, container or instance: each process looks for itself
        (SIMPLE, {**KEYS, "session.token": "t"}, ObjectStore(access_key="k", secret_key="s")),
        ("com.amazonaws.auth.DefaultAWSCredentialsProviderChain", KEYS, ObjectStore()),
        ("org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider", KEYS, ObjectStore(anonymous=True)),
    ],
)
def test_keys_are_those_that_hadoops_providers_would_find(
    providers: str, keys: dict[str, str], expected: ObjectStore
) -> None:
    """Of keys that none of its providers asks for nothing is told."""
    assert store_of({"aws.credentials.provider": providers, **keys}.get, NOWHERE) == expected


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"encryption.algorithm": "SSE-KMS"}, "fs.s3a.encryption.algorithm is set"),
        ({"proxy.host": "proxy"}, "fs.s3a.proxy.host is set"),
        ({"requester.pays.enabled": "true"}, "requester.pays.enabled is on"),
        (
            {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"},
            "AssumedRole",
        ),
        (
            {"aws.credentials.provider": SIMPLE},
            "fs.s3a.access.key and spark.hadoop.fs.s3a.secret.key are not set",
        ),
    ],
)
def test_what_only_the_jvm_knows_is_left_to_it(options: dict[str, str], why: str) -> None:
    """Written without it, files might be unreadable, somebody else's, or never arrive."""
    with pytest.raises(OutOfReach, match=why):
        store_of(options.get, NOWHERE)


CHAIN = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
INSTANCE = "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
FROM_ENVIRONMENT = "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
IDENTITY = {"AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token", "AWS_ROLE_ARN": "arn:aws:iam::1:role/r"}


@pytest.mark.parametrize(
    ("providers", "variables", "profile", "why"),
    [
        (HADOOPS_OWN, ENVIRONMENT | IDENTITY, True, ""),  # the environment comes first in both
        (HADOOPS_OWN, IDENTITY, False, "AWS_WEB_IDENTITY_TOKEN_FILE is set, which only Python's client"),
        ("", IDENTITY, False, "AWS_WEB_IDENTITY_TOKEN_FILE is set, which only Python's client"),
        (
            HADOOPS_OWN,
            {},
            True,
            r"there is a profile \(.*credentials\), which only Python's client would take",
        ),
        (INSTANCE, ENVIRONMENT, False, "keys are in the environment, where only Python's client would look"),
        (FROM_ENVIRONMENT, {}, False, "the environment has no keys"),
        (CHAIN, IDENTITY, False, ""),
        (CHAIN, {}, True, ""),
        (CHAIN, IDENTITY, True, "the two clients take them in different orders"),
        (INSTANCE, {}, False, ""),
    ],
)
def test_keys_that_one_client_alone_would_find(
    tmp_path: Path, providers: str, variables: dict[str, str], profile: bool, why: str
) -> None:
    """Files would be somebody else's, or never arrive: the folder is left to the JVM."""
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[default]\nregion = eu-west-1\n")
    if profile:
        (tmp_path / ".aws" / "credentials").write_text("[default]\naws_access_key_id = k\n")
    said = {"aws.credentials.provider": providers}.get
    environ = {"HOME": str(tmp_path), **variables}
    if not why:
        assert store_of(said, environ) == ObjectStore()
        return
    with pytest.raises(OutOfReach, match=why):
        store_of(said, environ)
    given = {"aws.credentials.provider": f"{SIMPLE},{providers}", **KEYS}
    assert store_of(given.get, environ).access_key == "k", "keys that are given settle it"


def test_keys_are_never_shown() -> None:
    """They travel with each task, whose description may be logged."""
    shown = repr(made(access_key="AKIA", secret_key="hush", session_token="pass"))
    assert not any(secret in shown for secret in ("AKIA", "hush", "pass"))

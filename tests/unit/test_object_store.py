"""`streaming.delta.object_store`: what Hadoop's options become in Python's client, and what it is not given."""

from __future__ import annotations

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


def made(**options: str) -> ObjectStore:
    """``endpoint_region``: the option ``endpoint.region``."""
    return store_of({name.replace("_", "."): value for name, value in options.items()}.get)


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
    assert store_of({"aws.credentials.provider": providers, **keys}.get) == expected


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
        store_of(options.get)


def test_keys_are_never_shown() -> None:
    """They travel with each task, whose description may be logged."""
    shown = repr(made(access_key="AKIA", secret_key="hush", session_token="pass"))
    assert not any(secret in shown for secret in ("AKIA", "hush", "pass"))

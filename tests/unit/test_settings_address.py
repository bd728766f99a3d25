"""The address that settings come to, for the driver."""

from __future__ import annotations

import pytest

from snapshotter.configuration.settings import Settings
from tests.unit.test_settings import LEAST


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "mongodb://localhost:27017/?replicaSet=rs0&"),
        ({"mongodb.connection.string": "mongodb://h"}, "mongodb://h/?connectTimeoutMS=10000&"),
        (
            {
                "mongodb.connection.string": "mongodb://h/db",
                "mongodb.user": "a@b",
                "mongodb.password": "p/q:r",
            },
            "mongodb://a%40b:p%2Fq%3Ar@h/db?authSource=admin&",
        ),
        (
            {"mongodb.connection.string": "mongodb://x:y@h/", "mongodb.user": "a", "mongodb.password": "p"},
            "mongodb://x:y@h/?connectTimeoutMS=10000&",
        ),
        (
            {
                "mongodb.connection.string": "mongodb+srv://h/?connecttimeoutms=5",
                "mongodb.ssl.enabled": "true",
            },
            "mongodb+srv://h/?connecttimeoutms=5&tls=true&serverSelectionTimeoutMS=30000&",
        ),
        ({"mongodb.socket.timeout.ms": "7"}, "&socketTimeoutMS=7"),
    ],
)
def test_the_address_has_everything(options: dict[str, object], expected: str) -> None:
    """Credentials, TLS and timeouts are put into the address; what it says itself goes first."""
    assert expected in Settings.from_options({**LEAST, **options}, {}).connection_uri()


def test_the_address_is_one_for_the_driver() -> None:
    """The driver reads the address back with the user, the password and the options that were given."""
    from pymongo.uri_parser import parse_uri

    uri = Settings.from_options(
        {**LEAST, "mongodb.user": "ü@:", "mongodb.password": "p+ /%"}, {}
    ).connection_uri()
    parsed = parse_uri(uri)
    assert (parsed["username"], parsed["password"]) == ("ü@:", "p+ /%")
    assert parsed["options"]["authSource"] == "admin"
    assert parsed["options"]["replicaSet"] == "rs0"

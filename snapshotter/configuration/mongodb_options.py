"""The options of the connection to MongoDB."""

from __future__ import annotations

from typing import Annotated

from snapshotter.configuration.option_values import Flag, Group, StoreType, Text, WholeNumber, choice, option

AUTHENTICATION = "DefaultMongoDbAuthProvider"


class MongodbOptions(Group):
    """How to reach MongoDB."""

    connection_string: Text = option(
        "mongodb.connection.string",
        "where MongoDB is: mongodb://… or mongodb+srv://…",
        secret=True,
        min_length=1,
    )
    user: Text | None = option("mongodb.user", "user name", None)
    password: str | None = option("mongodb.password", "password of the user", None, secret=True)
    authsource: Text = option("mongodb.authsource", "database that holds the user's credentials", "admin")
    ssl_enabled: Flag = option("mongodb.ssl.enabled", "connect with TLS", False)
    ssl_invalid_hostname_allowed: Flag = option(
        "mongodb.ssl.invalid.hostname.allowed", "with TLS, accept a certificate for another host name", False
    )
    ssl_keystore: Text | None = option(
        "mongodb.ssl.keystore",
        "with TLS: the store (PKCS12 or JKS) of the client's own key and certificate",
        None,
    )
    ssl_keystore_password: str | None = option(
        "mongodb.ssl.keystore.password", "password of that store and its key", None, secret=True
    )
    ssl_keystore_type: Annotated[StoreType, choice(StoreType)] = option(
        "mongodb.ssl.keystore.type", "PKCS12 or JKS; what the file is counts", StoreType.PKCS12
    )
    ssl_truststore: Text | None = option(
        "mongodb.ssl.truststore",
        "with TLS: the store (PKCS12 or JKS) of the authorities that are trusted; unset is the system's",
        None,
    )
    ssl_truststore_password: str | None = option(
        "mongodb.ssl.truststore.password", "password of that store", None, secret=True
    )
    ssl_truststore_type: Annotated[StoreType, choice(StoreType)] = option(
        "mongodb.ssl.truststore.type", "PKCS12 or JKS; what the file is counts", StoreType.PKCS12
    )
    authentication_class: Text = option(
        "mongodb.authentication.class",
        "where credentials come from: these options and mongodb.connection.string; no other class runs here",
        AUTHENTICATION,
    )
    connect_timeout_ms: WholeNumber = option(
        "mongodb.connect.timeout.ms", "how long to wait for a connection", 10_000, ge=1
    )
    server_selection_timeout_ms: WholeNumber = option(
        "mongodb.server.selection.timeout.ms", "how long to wait for a server that can answer", 30_000, ge=1
    )
    socket_timeout_ms: WholeNumber = option(
        "mongodb.socket.timeout.ms", "how long to wait for an answer; 0 is for ever", 0, ge=0
    )
    heartbeat_frequency_ms: WholeNumber = option(
        "mongodb.heartbeat.frequency.ms", "how often the driver looks at the servers", 10_000, ge=500
    )

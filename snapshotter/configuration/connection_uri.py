"""One address out of the ``mongodb.*`` options.

Everything that connects (the driver here, the readers on executors, the stream's own processes) gets a single
connection string, so that no option can be honoured in one place and forgotten in another. What the user's own
connection string says wins over the options, as in Debezium.
"""

from __future__ import annotations

from urllib.parse import quote

from snapshotter.configuration.option_groups import MongodbOptions


def connection_uri(mongodb: MongodbOptions) -> str:
    """The connection string with credentials, TLS and timeouts of the other options. It holds secrets."""
    scheme, _, rest = mongodb.connection_string.partition("://")
    address, _, query = rest.partition("?")
    hosts, slash, database = address.rpartition("@")[2].partition("/")
    credentials = address.rpartition("@")[0]
    given = {part.partition("=")[0].lower() for part in query.split("&")}
    extra: dict[str, str] = {}
    if mongodb.user and not credentials:
        credentials = quote(mongodb.user, safe="")
        if mongodb.password is not None:
            credentials += ":" + quote(mongodb.password, safe="")
        extra["authSource"] = mongodb.authsource
    if mongodb.ssl_enabled and "ssl" not in given:
        extra["tls"] = "true"
        if mongodb.ssl_invalid_hostname_allowed:
            extra["tlsAllowInvalidHostnames"] = "true"
    extra["connectTimeoutMS"] = str(mongodb.connect_timeout_ms)
    extra["serverSelectionTimeoutMS"] = str(mongodb.server_selection_timeout_ms)
    extra["heartbeatFrequencyMS"] = str(mongodb.heartbeat_frequency_ms)
    if mongodb.socket_timeout_ms:
        extra["socketTimeoutMS"] = str(mongodb.socket_timeout_ms)
    added = [f"{name}={quote(value, safe='')}" for name, value in extra.items() if name.lower() not in given]
    parts = "&".join([part for part in query.split("&") if part] + added)
    user = f"{credentials}@" if credentials else ""
    return f"{scheme}://{user}{hosts}{slash or '/'}{database}?{parts}"

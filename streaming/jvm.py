"""Classes of Spark's JVM, reached by their full names without asking what each part of a name is.

py4j asks the JVM of every part of ``jvm.org.apache.spark…`` whether it is a class, and the JVM looks through all of its
jars before it says that ``org.apache`` is none; of a name without a package it asks for every package that was
imported. That took a fifth of the CPU time of a JVM that lands small batches (bench/README.md). By Java's and Scala's
convention packages begin with a small letter and classes with a capital one, so nobody has to be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from py4j.clientserver import ClientServerConnection, JavaClient
from py4j.java_gateway import JavaClass, JavaObject, java_import
from py4j.protocol import GATEWAY_SERVER_OBJECT_ID

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OF_PYTHON = "org.apache.spark.api.python"
_ASKED_FOR = (
    "org.apache.spark.sql.functions",
    f"{_OF_PYTHON}.PythonUtils",
    f"{_OF_PYTHON}.SimplePythonFunction",
)
"""What PySpark asks for by its last name alone, again and again."""


class Package:
    """A package of the JVM; its attributes are classes (`py4j.java_gateway.JavaClass`) and further packages."""

    def __init__(self, name: str, client: Any) -> None:
        self._name = name
        self._client = client

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        whole = f"{self._name}.{name}" if self._name else name
        return JavaClass(whole, self._client) if name[:1].isupper() else Package(whole, self._client)


def packages(session: SparkSession) -> Any:
    """What ``session._jvm`` is, for classes that are named in full."""
    return Package("", cast(Any, session._jvm)._gateway_client)


def python_utils(session: SparkSession) -> Any:
    """Spark's own helpers for collections."""
    return JavaClass(f"{_OF_PYTHON}.PythonUtils", cast(Any, session._jvm)._gateway_client)


def singleton(package: Any, name: str) -> Any:
    """Scala's object of this name in a package of py4j's."""
    return getattr(package, f"{name}$").__getattr__("MODULE$")


def import_what_is_asked_for(session: SparkSession) -> None:
    """Have the JVM know the classes that PySpark asks for by their last names. Once for each JVM is enough."""
    for name in _ASKED_FOR:
        java_import(cast(Any, session._jvm), name)


def answer_at_once(session: SparkSession) -> None:
    """Have the JVM send its answers without delay, to this thread and to those that call it later. Once for each JVM is
    enough.

    Left out are threads on which Spark calls into Python (`foreachBatch`): the JVM does not listen to these before it
    has called them. So are threads that called the JVM before Spark was first asked to call Python, for then PySpark
    puts another client into the JVM, which does not know their connections; and py4j without pinned threads, which
    shares its connections.
    """
    client = cast(Any, session._jvm)._gateway_client
    if not isinstance(client, JavaClient) or "set_thread_connection" in vars(client):
        return
    of_thread = client.set_thread_connection

    def connected(connection: ClientServerConnection) -> None:
        of_thread(connection)
        if connection.initiated_from_client:
            _without_delay(client, connection)

    if (connection := client.get_thread_connection()) is not None:
        _without_delay(client, connection)
    client.set_thread_connection = connected


class _Over:
    """py4j's ``client``, whose calls go over this connection: it gives nothing back that it did not take."""

    def __init__(self, client: JavaClient, connection: ClientServerConnection) -> None:
        self._client = client
        self.send_command = connection.send_command

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


def _without_delay(client: JavaClient, connection: ClientServerConnection) -> None:
    """Set TCP_NODELAY at the JVM's end, where the JVM knows it."""
    server = JavaObject(GATEWAY_SERVER_OBJECT_ID, _Over(client, connection))
    if (of_jvm := server.getCallbackClient().getPerThreadConnection()) is not None:
        of_jvm.getSocket().setTcpNoDelay(True)

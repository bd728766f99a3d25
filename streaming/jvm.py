"""Classes of Spark's JVM, reached by their full names without asking what each part of a name is.

py4j asks the JVM of every part of ``jvm.org.apache.spark…`` whether it is a class, and the JVM looks through all of its
jars before it says that ``org.apache`` is none; of a name without a package it asks for every package that was
imported. That took a fifth of the CPU time of a JVM that lands small batches (bench/README.md). By Java's and Scala's
convention packages begin with a small letter and classes with a capital one, so nobody has to be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from py4j.java_gateway import JavaClass, java_import

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

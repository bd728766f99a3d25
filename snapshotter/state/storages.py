"""Which storage a location needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from snapshotter.state.storage import LocalStorage, Storage, StorageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def storage_for(location: str, spark: SparkSession | None = None) -> Storage:
    """The storage of a location: a local path or ``file:`` URI, or any other URI, which needs a Spark
    session.

    Raises `StorageError` for a URI without a session.
    """
    if not needs_spark(location):
        return LocalStorage(local_path(location))
    if spark is None:
        scheme = urlsplit(location).scheme
        raise StorageError(
            f"{location}: only a Spark session reaches the {scheme} file system, and none is there"
        )
    from snapshotter.state.storage_hadoop import HadoopStorage  # py4j is not needed for local folders

    return HadoopStorage(spark, location)


def local_path(location: str) -> Path:
    """The path of a location that needs no Spark."""
    parts = urlsplit(location)
    return Path(unquote(parts.path) if parts.scheme else location)


def needs_spark(location: str) -> bool:
    """Whether only a Spark session reaches it."""
    return urlsplit(location).scheme not in ("", "file")

"""Storage that fails."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession


@contextmanager
def refusing_writes(spark: SparkSession) -> Iterator[None]:
    """No file of Spark's JVM may grow: what a full disk, or one that was mounted anew as read-only, does to it."""
    jvm: Any = spark._jvm
    java = int(jvm.java.lang.ProcessHandle.current().pid())
    soft, hard = resource.prlimit(java, resource.RLIMIT_FSIZE)
    resource.prlimit(java, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.prlimit(java, resource.RLIMIT_FSIZE, (soft, hard))

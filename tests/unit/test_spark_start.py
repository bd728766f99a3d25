"""A JVM for Spark that this machine has no memory for, told from one that was asked for wrongly, by Java itself."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_MEMORY = 4 << 30
"""A process that may have so many bytes of addresses starts Java, but not with a heap of more."""
_SCRIPT = """
import json, resource, sys
from snapshotter.errors import describe
from snapshotter.spark_session import spark_builder
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[1]), int(sys.argv[1])))
try:
    spark_builder("no-memory", {"spark.driver.memory": sys.argv[2]}, "local[1]")
except Exception as error:
    found = describe(error)
    print(json.dumps([found.condition, found.retriable, found.exit_code, found.message]))
"""


@pytest.mark.parametrize(
    ("heap", "condition", "retriable", "code"),
    [("64g", "memory-short", True, 4), ("much", "spark-not-started", False, 3)],
)
def test_a_machine_without_memory_is_told_from_a_wrong_option(
    heap: str, condition: str, retriable: bool, code: int
) -> None:
    """Only the first may pass by itself. The message says what Java has said, and the option."""
    started = [sys.executable, "-c", _SCRIPT, str(_MEMORY), heap]
    ended = subprocess.run(started, capture_output=True, text=True, timeout=300, check=True)
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found[:3] == [condition, retriable, code]
    if retriable:
        assert "spark.driver.memory" in found[3]
        assert "64g" in found[3]

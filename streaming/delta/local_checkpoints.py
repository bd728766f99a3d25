"""Frames whose rows are held on the executors, so that they are computed once and are the same however often they are
read. Whoever holds one frees it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark import StorageLevel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LOST_BLOCK = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
"""Spark's words for blocks of a checkpoint that died with their executor."""
_BLOCK = re.compile(rf"(?:{LOST_BLOCK}|Checkpoint block)\D*rdd_(\d+)_\d+")


def held(frame: DataFrame, *, at_once: bool = True, on_disk: bool = False) -> DataFrame:
    """The frame's rows, checkpointed locally: by a job of its own (``at_once``), or else by the next job, which must
    read all of them. ``on_disk``: they are not to take memory from others. Free them with `free_checkpoint`."""
    # As objects: what PySpark calls MEMORY_AND_DISK is bytes, by Java's own serializer (bench/README.md).
    level = StorageLevel.DISK_ONLY if on_disk else StorageLevel.MEMORY_AND_DISK_DESER
    return frame.localCheckpoint(at_once, level)


def free_checkpoint(frame: DataFrame) -> None:
    """Drop the blocks of a locally checkpointed frame; Spark would only do so when its JVM object is collected."""
    frame._jdf.logicalPlan().rdd().unpersist(False)


def is_lost(frame: DataFrame, said: str) -> bool:
    """Whether an error that has ``said`` this means a block of this frame, and not of another one that is held."""
    return str(frame._jdf.logicalPlan().rdd().id()) in _BLOCK.findall(said)

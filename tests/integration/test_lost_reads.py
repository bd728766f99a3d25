"""What died with an executor, by the words of Spark: READs, which are read again, or something else that was held."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from snapshotter.core.values.chunks import KeyRange
from snapshotter.core.values.effects import Closing
from snapshotter.core.values.window import Window, WindowId
from snapshotter.landing.targets.side_by_side import ReadBuffersLost, naming_lost_buffers
from snapshotter.landing.targets.target import CollectionContents
from snapshotter.reading.read_buffer import Buffer
from streaming.delta.local_checkpoints import free_checkpoint, held
from streaming.layouts.columns.layout import COLUMNS
from streaming.layouts.columns.plan import TablePlan
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

ORDERS = Namespace("shop", "orders")


def test_windows_lose_their_own_blocks_and_no_other_frames(spark: SparkSession) -> None:
    """Of two buffers that one commit reads the one is lost whose blocks are gone. Where those of the batch's events
    are, no READ is given up: it would be read again, and bring nothing back."""
    one, two = (WindowId("a", number) for number in (1, 2))
    frames = {one: some(spark), two: some(spark)}
    events = some(spark)
    batch = CollectionContents(
        ORDERS,
        events,
        closings=tuple(map(closing, frames)),
        buffers={window: Buffer(frame, COLUMNS, TablePlan(), ()) for window, frame in frames.items()},
    )
    every = events.unionByName(frames[one]).unionByName(frames[two])
    with naming_lost_buffers(batch):
        assert every.count() == 30
    free_checkpoint(frames[two])
    with pytest.raises(ReadBuffersLost) as lost, naming_lost_buffers(batch):
        every.count()
    assert lost.value.windows == {two}
    free_checkpoint(events)
    with pytest.raises(Exception, match="Checkpoint block") as raised, naming_lost_buffers(batch):
        events.unionByName(frames[one]).count()
    assert not isinstance(raised.value, ReadBuffersLost)


def some(spark: SparkSession) -> DataFrame:
    return held(spark.range(10).selectExpr("cast(id as string) _key"))


def closing(window: WindowId) -> Closing:
    target, low = KeyRange(None, None), ClusterTime(10, 1)
    return Closing(Window(window, "q1", ORDERS, target, None, 0, low, True), low, proven_new=False)

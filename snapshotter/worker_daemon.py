"""The process that Spark's Python workers are forked from, with what they use imported already.

Spark's own daemon is nearly empty, so each worker imports pyarrow, the driver of MongoDB and the product for itself:
half a second of CPU and fifty megabytes, in eight workers of every engine. Forked from here they begin at once, and
share these pages. Set as ``spark.python.daemon.module`` where driver and workers run on one machine, in one
environment (`snapshotter.spark_session`): elsewhere a job may bring the product along after its workers were forked.
"""

from __future__ import annotations

import gc

from pyspark import daemon

import snapshotter.reading.chunk_reader
import streaming.decode.streamed_rows
import streaming.layouts.columns.layout
import streaming.source.change_stream
import streaming.source.split_rows

__all__ = ["snapshotter", "streaming"]

if __name__ == "__main__":
    # Collectors of the workers leave alone what is here by now, so that its pages stay shared.
    gc.collect()
    gc.freeze()
    daemon.manager()

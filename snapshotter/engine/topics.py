"""An engine's topics: the outbox that its batches append to, the thread that sends it to Kafka, and what the status
says of both. An engine without topics has this too, and it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Self

from pyspark.sql import SparkSession

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.outbox.delivery import Delivery
from snapshotter.outbox.kafka_sink import KafkaSink, check_session
from snapshotter.outbox.table import FOLDER, Outbox
from snapshotter.reporting.status import Status
from snapshotter.reporting.topics_report import with_topics
from snapshotter.spark_session import runs_here
from snapshotter.state.storage import Storage


class Topics:
    """``config`` is the engine's, ``storage`` that of its state; ``spark`` is asked for the session when topics are
    first needed. As a context manager it lets go of them, between the lock and its release."""

    def __init__(self, config: EngineConfig, storage: Storage, spark: Callable[[], SparkSession]) -> None:
        self.outbox: Outbox | None = None
        self._delivery: Delivery | None = None
        self._spark, self._stack = spark, ExitStack()
        if config.topics is None:
            return
        self._config = config.topics
        self.outbox = Outbox(spark, f"{config.state_location}/{FOLDER}", storage, config.topics.max_bytes)

    def __enter__(self) -> Self:
        return self

    def feed(self) -> None:
        """Feed topics from here on, until the context is left. Again it changes nothing. Raises what keeps the outbox
        from being opened."""
        if self.outbox is not None and self._delivery is None:
            spark, config = self._spark(), self._config
            pause = 0.0 if runs_here(spark.sparkContext.master or "") else config.delivery_seconds
            check = partial(check_session, spark)
            delivery = Delivery(self.outbox, KafkaSink(config), check, least_pause=pause)
            self._delivery = self._stack.enter_context(delivery)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def full(self) -> bool:
        """Whether the engine has to wait: more lies in the outbox than may."""
        return self._delivery is not None and self._delivery.full

    def told(self, status: Status) -> Status:
        """The status with what is to be said of topics."""
        return status if self._delivery is None else with_topics(status, self._delivery.state)

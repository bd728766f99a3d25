"""What a run works on; it outlives the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pymongo import MongoClient
from pyspark.sql import SparkSession

from snapshotter.configuration.engine_config import EngineConfig
from snapshotter.engine.dead_letters import DeadLetterWatch
from snapshotter.engine.first_load import FirstLoad
from snapshotter.engine.hints import HintsWriter
from snapshotter.engine.kept_lock import KeptLock
from snapshotter.engine.topics import Topics
from snapshotter.intake.signal_handler import SignalHandler
from snapshotter.landing.tables import Tables
from snapshotter.metrics.tally import Tally
from snapshotter.reporting.announcer import Announcer
from snapshotter.reporting.status_collection import StatusCollection
from snapshotter.reporting.window_log import WindowLog
from snapshotter.state.journal import Journal
from snapshotter.state.progress_store import ProgressStore


@dataclass(slots=True)
class RunContext:
    """``signals`` handles what comes in the signal collection; ``outcomes`` is where requests are reported."""

    spark: SparkSession
    client: MongoClient[Any]
    config: EngineConfig
    store: ProgressStore
    journal: Journal
    hints: HintsWriter
    lock: KeptLock
    signals: SignalHandler
    announcer: Announcer
    first_load: FirstLoad
    outcomes: StatusCollection
    tables: Tables
    windows: WindowLog
    tally: Tally
    topics: Topics
    dead_letters: DeadLetterWatch

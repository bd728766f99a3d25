"""What batches land in besides the state tables, by the options that ask for it."""

from __future__ import annotations

from collections.abc import Sequence

from snapshotter.engine.run_context import RunContext
from snapshotter.landing.table_faults import Blame
from snapshotter.landing.targets import changelogs, heartbeats, transactions
from snapshotter.landing.targets.outbox import OutboxTarget
from snapshotter.landing.targets.target import EventTarget, Target


def targets_beside(context: RunContext) -> Sequence[Target]:
    """The further targets of a run, in their order."""
    spark, config, app_id = context.spark, context.config, context.tables.application_id
    targets: list[Target] = []
    if config.tells_transactions:
        path = f"{config.state_location}/{transactions.FOLDER}"
        targets.append(transactions.TransactionTable(spark, path, app_id))
    if config.heartbeat_ms:
        path = f"{config.state_location}/{heartbeats.FOLDER}"
        every = config.heartbeat_ms
        targets.append(heartbeats.HeartbeatTable(spark, path, app_id, config.server_name, every))
    return targets


def event_targets(context: RunContext, blame: Blame) -> Sequence[EventTarget]:
    """What takes events beside the state tables. ``blame`` decides which errors of a table are its own."""
    config, tables, outbox = context.config, context.tables, context.topics.outbox
    targets: list[EventTarget] = []
    if config.envelope is not None and config.changelog:
        known = context.spark, config.warehouse, config.envelope, tables.application_id, tables.owner
        targets.append(changelogs.Changelogs(*known, blame, config.landers))
    if config.envelope is not None and outbox is not None and config.topics is not None:
        targets.append(OutboxTarget(outbox, config.topics, config.envelope, tables.application_id))
    return targets

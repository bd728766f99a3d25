"""What batches land in besides the state tables, by the options that ask for it."""

from __future__ import annotations

from collections.abc import Sequence

from snapshotter.engine.run_context import RunContext
from snapshotter.landing.targets import heartbeats, transactions
from snapshotter.landing.targets.outbox import OutboxTarget
from snapshotter.landing.targets.target import Target


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
    outbox, topics = context.topics.outbox, config.topics
    if outbox is not None and topics is not None and config.envelope is not None:
        targets.append(OutboxTarget(outbox, topics, config.envelope, app_id))
    return targets

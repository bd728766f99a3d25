"""What batches land in: the state tables, what options ask for besides, and dead letters."""

from __future__ import annotations

from collections.abc import Sequence

from snapshotter.engine.run_context import RunContext
from snapshotter.landing.buried import BuriedLetters
from snapshotter.landing.land import Lander
from snapshotter.landing.table_faults import Blame
from snapshotter.landing.targets import changelogs, dead_letters, heartbeats, transactions
from snapshotter.landing.targets.dead_letters import Buried, DeadLetterTable
from snapshotter.landing.targets.outbox import OutboxTarget
from snapshotter.landing.targets.replays import Replays
from snapshotter.landing.targets.state_tables import StateTables
from snapshotter.landing.targets.target import EventTarget, Target
from snapshotter.reporting.changelogs_report import EVENTS, READS
from streaming.fields.document_rules import DocumentRules, document_rules
from streaming.fields.rules import Kind
from streaming.namespaces import Namespace


def lander_of(context: RunContext, blame: Blame) -> Lander:
    """What lands the batches of a run; ``blame`` decides whose errors of tables are."""
    config = context.config
    how = config.landers, config.failures.fails, config.serialization
    state = StateTables(context.spark, context.tables, blame, *how)
    others, told = targets_beside(context), event_targets(context, blame)
    dead, replays = dead_letters_of(context), replays_to(context, told)
    return Lander(context.spark, state, others, told, config.envelope, dead, replays)


def dead_letters_of(context: RunContext) -> DeadLetterTable:
    """Where a run puts what cannot be processed."""

    def tell(buried: Buried) -> None:
        if context.dead_letters.note(buried):
            for stage, number in buried.counts.items():
                context.tally.add("dead_letters", number, stage)

    config, app_id = context.config, context.tables.application_id
    path = f"{config.state_location}/{dead_letters.FOLDER}"
    events, looks_up = config.envelope is not None, not config.needs_post_images
    known = context.spark, path, app_id, config.name, tell
    hashes = config.fields.hashing_digest
    renames = any(rule.kind is Kind.RENAME for rule in config.fields.rules)
    return DeadLetterTable(*known, events=events, looks_up=looks_up, hashes=hashes, renames=renames)


def replays_to(context: RunContext, targets: Sequence[EventTarget]) -> Replays | None:
    """What tells these targets of dead letters that are to be replayed; None without any of them."""
    config, watch = context.config, context.dead_letters
    if config.envelope is None or not targets:
        return None
    watch.wakes(context.hints.request_batch)

    def letters() -> BuriedLetters:
        return BuriedLetters(context.spark, f"{config.state_location}/{dead_letters.FOLDER}")

    def rules(namespace: Namespace) -> DocumentRules | None:
        return document_rules(config.fields, namespace)

    heard = config.scope.captures, rules, config.fields.hashing_digest, lambda: watch.wanted, watch.look_again
    return Replays(letters, targets, config.envelope, *heard)


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

    def count(namespace: Namespace, events: int, reads: int) -> None:
        context.tally.add(EVENTS, events, str(namespace))
        context.tally.add(READS, reads, str(namespace))

    config, tables, outbox = context.config, context.tables, context.topics.outbox
    targets: list[EventTarget] = []
    if config.envelope is not None and config.changelog:
        known = context.spark, config.warehouse, config.envelope, tables.application_id, tables.owner
        apart = config.form.own_checkpoints
        told = changelogs.Changelogs(*known, blame, config.landers, count=count, own_checkpoints=apart)
        tables.changelogs = told.tables
        targets.append(told)
    if config.envelope is not None and outbox is not None and config.topics is not None:
        targets.append(OutboxTarget(outbox, config.topics, config.envelope, tables.application_id))
    return targets

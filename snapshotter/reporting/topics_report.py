"""What the status says of topics: what waits for the brokers, since when, and what keeps it from being sent."""

from __future__ import annotations

from datetime import UTC, datetime

from snapshotter.diagnosis import named
from snapshotter.outbox.delivery import DeliveryState
from snapshotter.reporting.status import Status, TopicsReport


def with_topics(status: Status, state: DeliveryState) -> Status:
    """The ``status`` with a report of this ``state``, and with a warning for what a person has to look at."""
    now = status.updated_at or datetime.now(UTC)
    since = None if state.since_ms is None else datetime.fromtimestamp(state.since_ms / 1_000, UTC)
    report = TopicsReport(
        records_waiting=state.records,
        bytes_waiting=state.size_bytes,
        waiting_since=since,
        lag_seconds=0.0 if since is None else max(0.0, round((now - since).total_seconds(), 1)),
        full=state.full,
        records_sent=state.sent,
        trouble=state.trouble,
        **named(state.trouble),
    )
    warnings = status.warnings
    if state.trouble is not None:
        warnings += (f"topics wait, with {state.records} records: {state.trouble}",)
    if state.full:
        held = f"the outbox holds {state.size_bytes} bytes, which is more than engine.outbox.max.bytes"
        warnings += (f"{held}: the stream waits until Kafka has taken some of them",)
    for topic, names in sorted(state.shared.items()):
        warnings += (
            f"{', '.join(names)}: Kafka takes no name that tells them apart, so all go to topic {topic}",
        )
    return status.model_copy(update={"topics": report, "warnings": warnings})

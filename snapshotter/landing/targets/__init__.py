"""What batches land in: the port, and one target a module. The state tables are the first."""

__all__ = [
    "changelogs",
    "dead_letters",
    "heartbeats",
    "outbox",
    "replays",
    "state_tables",
    "target",
    "transactions",
]

"""What batches land in: the port, and one target a module. The state tables are the first."""

__all__ = ["dead_letters", "heartbeats", "state_tables", "target", "transactions"]

"""What lies between batches and Kafka: the outbox, a Delta table beside the engine's state, and the thread that feeds
topics from it ([topics.md](../../docs/topics.md)).

A broker that is away delays topics alone: batches append to the table, and go on.
"""

__all__ = ["delivery", "kafka_sink", "records", "table", "topics_config"]

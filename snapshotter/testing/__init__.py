"""Real servers for tests and the demo: MongoDB, Kafka, a Spark cluster; none outlives who started it."""

__all__ = ["kafka", "mongodb", "processes"]

"""Records as Debezium's MongoDB connector and Kafka Connect's JsonConverter write them: names of topics, schemas, JSON.

Pure: what a topic holds is decided here, and how it gets there elsewhere.
"""

__all__ = ["json_records", "schemas", "topic_names"]

"""Change events in the envelope that Debezium's connector documents: documents as Extended JSON, columns in Arrow."""

__all__ = ["details", "envelope", "extended_json", "read_envelopes"]

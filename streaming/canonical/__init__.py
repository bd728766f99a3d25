"""The content of documents as canonical bytes, from BSON and from `_rescued_data`; it shares nothing with `decode`."""

__all__ = ["documents", "flattened", "rescued", "selected"]

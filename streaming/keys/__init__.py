"""`_key`: the identity and the order of documents as text, and ranges of it."""

__all__ = ["decoded", "keys", "ranges", "shard_keys", "text"]

"""Raw documents to rows of a table plan: many at a time by numpy, and one at a time as its meaning."""

__all__ = ["decoder", "keys", "streamed_rows"]

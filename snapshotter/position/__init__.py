"""Where a position may be set to, as values: what an operator names, what other products have stored, and how long the
oplog still holds a position. It reads text and bytes, and asks no server."""

__all__ = ["offset_files", "own_file", "runway", "starts"]

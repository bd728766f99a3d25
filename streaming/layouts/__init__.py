"""The layouts of tables, each a room of its own behind the port `streaming.layout`."""

__all__ = ["columns", "shaped"]

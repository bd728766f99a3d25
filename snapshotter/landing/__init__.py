"""A batch on its way into the tables: what it holds, what the tables say, and the commits of each table."""

__all__ = [
    "batch_times",
    "batch_trailer",
    "buried",
    "contents",
    "frames",
    "land",
    "origin",
    "survey",
    "table_faults",
    "tables",
    "targets",
    "versions",
]

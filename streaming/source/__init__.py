"""`mongodb-changes`: the change stream as a source of Spark Structured Streaming.

`change_stream` is the source itself; the rest serves it, but for its options, its cursors, and what paces it.
"""

__all__ = [
    "admission",
    "change_cursor",
    "change_options",
    "change_stream",
    "hints",
    "registration",
    "server_cursor",
    "split_events",
    "split_rows",
    "user_stages",
]

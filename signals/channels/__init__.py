"""The ways signals travel: the port, a channel in each way that there is, and channels by their names."""

__all__ = [
    "channel",
    "file_channel",
    "inbox_channel",
    "kafka_channel",
    "kafka_options",
    "plugins",
    "process_channel",
    "source_channel",
]

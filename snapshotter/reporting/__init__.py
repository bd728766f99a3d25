"""What operators see: status, notifications, what became of signals, estimates, progress on a terminal."""

__all__ = [
    "announcer",
    "answers",
    "changelogs_report",
    "estimates",
    "gap_table",
    "health",
    "log_view",
    "notices",
    "notification_channels",
    "oplog_report",
    "outcomes",
    "progress_view",
    "request_states",
    "request_times",
    "signal_outcomes",
    "status",
    "status_collection",
    "status_screen",
    "topics_report",
    "window_log",
]

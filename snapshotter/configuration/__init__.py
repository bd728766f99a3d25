"""From a user's options, in whatever form they come, to settings that are checked; and what an engine needs of them.

`settings` reads and checks; `engine_config`, `channel_config`, `metrics_config`, `notification_config` and
`page_config` do not know where it came from.
"""

__all__ = [
    "channel_checks",
    "channel_config",
    "engine_config",
    "event_options",
    "metrics_config",
    "notification_config",
    "option_values",
    "options",
    "options_page",
    "page_config",
    "patience",
    "position_options",
    "settings",
    "settings_checks",
    "snapshot_decisions",
    "snapshot_modes",
]

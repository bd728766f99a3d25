"""State tables in Delta Lake: what a table is and whose, its log, its schema, and how rows get into it in a commit."""

__all__ = [
    "attempts",
    "changelog_table",
    "delta_log",
    "further_columns",
    "further_values",
    "landed",
    "landing_errors",
    "last_landing",
    "local_checkpoints",
    "new_files",
    "object_store",
    "row_writer",
    "state_merge",
    "state_table",
    "state_upkeep",
    "table_folder",
    "table_identity",
    "table_paths",
    "upkeep_plan",
]

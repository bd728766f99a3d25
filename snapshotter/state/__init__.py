"""What outlives a process: small files beside the checkpoint, and who may write them."""

__all__ = [
    "generation",
    "identity",
    "journal",
    "lock",
    "process",
    "progress_store",
    "restart_count",
    "storage",
    "storages",
    "upkeep_notes",
]

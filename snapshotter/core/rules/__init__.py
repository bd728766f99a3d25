"""How the machine decides: batches against windows, whose turn it is, how much at once, what is announced. Pure."""

__all__ = [
    "announcements",
    "batches",
    "commit_interval",
    "in_flight",
    "pace",
    "proofs",
    "queue",
    "scan",
    "signal_batch",
    "streamed_keys",
]

"""What the machine takes, gives and keeps: chunks, windows, tasks, requests, progress, inputs, effects. Pure."""

__all__ = [
    "chunks",
    "commands",
    "controls",
    "coverage",
    "effects",
    "gaps",
    "inputs",
    "limits",
    "memory",
    "namespace_changes",
    "outcome",
    "progress",
    "requests",
    "rereads",
    "sharding",
    "suspension",
    "tasks",
    "tries",
    "watermark_ids",
    "window",
]

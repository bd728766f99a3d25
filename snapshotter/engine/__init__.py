"""The engine: its runs, how it starts and ends, and what it is put together from.

`assembly` makes it from settings, `engine` keeps runs going, `run` is one of them and the life of its batches.
"""

__all__ = [
    "assembly",
    "catalogue_watch",
    "engine_runner",
    "guardrail",
    "interrupts",
    "positions",
    "preflight",
    "privileges",
    "take_over",
]

"""What became of a window: counted by its landing, summed up by its task.

Pure: standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a window that has landed: how many READs became rows, how many were superseded by streamed events,
    and how many rows were deleted because they are missing at source (`Closing.reconcile`). Of those kept, ``changed``
    took the place of another row, ``unchanged`` equal the row that is there, and the rest is new."""

    kept: int
    superseded: int
    deleted: int = 0
    changed: int = 0
    unchanged: int = 0

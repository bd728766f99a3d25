"""A signal-driven incremental snapshot engine for MongoDB to Delta Lake.

``Snapshotter`` runs an engine inside a program or a notebook, ``SnapshotClient`` asks one that runs elsewhere; both
have the same vocabulary. Everything else is used by the command line. They are imported when they are first asked
for, because Spark takes its time; the client needs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapshotter.api import Snapshotter
    from snapshotter.client import SnapshotClient

__all__ = ["SnapshotClient", "Snapshotter"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Snapshotter":
        from snapshotter.api import Snapshotter

        return Snapshotter
    if name == "SnapshotClient":
        from snapshotter.client import SnapshotClient

        return SnapshotClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

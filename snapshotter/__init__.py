"""A signal-driven incremental snapshot engine for MongoDB to Delta Lake.

``Snapshotter`` runs an engine inside a program or a notebook; everything else is used by the command line. It is
imported when it is first asked for, because Spark takes its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snapshotter.api import Snapshotter

__all__ = ["Snapshotter"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "Snapshotter":
        from snapshotter.api import Snapshotter

        return Snapshotter
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

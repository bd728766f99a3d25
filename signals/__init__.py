"""What operators ask of the engine, and the ways their signals travel.

``actions`` are the things that can be asked for, ``parsing`` reads them, ``selection`` says which
collections a signal means, ``errors`` what can be wrong with it; all pure. ``source_channel`` carries
signals through a MongoDB collection. The others fit one port (``channel``): ``inbox_channel`` (a folder of
small files), ``file_channel``, ``kafka_channel``, ``process_channel``, and those that ``channel_plugins`` finds.

``SnapshotClient`` sends signals from a notebook or a script, and waits for what becomes of them. It is imported when it
is first asked for: the rest needs none of what it brings along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from signals.client.client import SnapshotClient
    from signals.outcomes import SnapshotFailed, SnapshotRejected

__all__ = ["SnapshotClient", "SnapshotFailed", "SnapshotRejected"]


def __getattr__(name: str) -> Any:
    if name == "SnapshotClient":
        from signals.client.client import SnapshotClient

        return SnapshotClient
    if name in __all__:
        from signals import outcomes

        return getattr(outcomes, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

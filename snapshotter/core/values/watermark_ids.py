"""The names of watermark documents: ``<engine>/<run>/<window>-open`` and ``…-close``.

A delete event shows nothing of a document but its ``_id``, so engine, run and window are all named there. Documents of
other engines that share the signal collection, and of earlier runs, are told apart by the same name.

Pure: standard library only.
"""

from __future__ import annotations

import re
from enum import StrEnum

from snapshotter.core.values.window import Edge, WindowId

_NAME = re.compile(r"(?P<engine>.+)/(?P<run>[0-9a-f]+)/(?P<number>[0-9]+)-(?P<edge>open|close)")


class Strategy(StrEnum):
    """How the two watermarks of a window are marked in time."""

    INSERT_INSERT = "insert_insert"
    INSERT_DELETE = "insert_delete"
    CLUSTER_TIME = "cluster_time"

    @property
    def in_stream(self) -> bool:
        return self is not Strategy.CLUSTER_TIME


def open_id(engine: str, window: WindowId) -> str:
    return f"{engine}/{window.run}/{window.number}-open"


def close_id(engine: str, window: WindowId) -> str:
    return f"{engine}/{window.run}/{window.number}-close"


def edge_of(engine: str, strategy: Strategy, document_id: object, op: str) -> tuple[WindowId, Edge] | None:
    """What an event on the signal collection says of a window of this ``engine``, of whichever run; None if it says
    nothing.

    ``document_id`` is the event's ``_id``, of any type; ``op`` is the envelope's: "c" insert, "u" update, "d" delete.
    ``strategy`` decides about a deleted open document: that is the high watermark with ``insert_delete``, else a loss.
    """
    match = _NAME.fullmatch(document_id) if isinstance(document_id, str) else None
    if match is None or match["engine"] != engine:
        return None
    window = WindowId(match["run"], int(match["number"]))
    is_open = match["edge"] == "open"
    if op == "c":
        return window, Edge.LOW if is_open else Edge.HIGH
    if op == "d" and is_open:
        return window, Edge.HIGH if strategy is Strategy.INSERT_DELETE else Edge.LOST
    return None


def is_watermark(document_id: object) -> bool:
    """Whether a document of the signal collection is a watermark, of whichever engine."""
    return isinstance(document_id, str) and _NAME.fullmatch(document_id) is not None

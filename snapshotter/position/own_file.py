"""The file of ``position export``: one JSON object, which ``position reset --to FILE`` and ``position import`` read.

    {"snapshotter": "position", "format": 1, "name": "orders", "position": {"t": 1764000000, "i": 7}, "time": "..."}

All up to the position has landed, so who begins there begins behind it. ``time`` is for people.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from snapshotter.position.starts import Start, parse_start
from streaming.positions import ClusterTime

_KIND = "position"
_FORMAT = 1


def export(name: str, position: ClusterTime) -> str:
    """The file's text, for the ``position`` of the engine ``name``."""
    value = {
        "snapshotter": _KIND,
        "format": _FORMAT,
        "name": name,
        "position": position.to_json(),
        "time": datetime.fromtimestamp(position.t, UTC).isoformat(),
    }
    return json.dumps(value, indent=2) + "\n"


def is_export(value: Any) -> bool:
    """Whether a JSON value says that it is such a file."""
    return isinstance(value, dict) and value.get("snapshotter") == _KIND


def parse_export(text: str) -> Start:
    """Where the file says to begin. Raises ValueError for any other text."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not a file of position export: {error}") from error
    if not is_export(value):
        raise ValueError('not a file of position export: it has no "snapshotter": "position"')
    if value.get("format") != _FORMAT:
        raise ValueError(
            f"a file of position export of format {value.get('format')!r}, and this version reads {_FORMAT}"
        )
    try:
        return Start(time=ClusterTime.from_json(value["position"]), inclusive=False)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"a file of position export without a position: {value.get('position')!r}"
        ) from error


def read_start(text: str) -> Start:
    """What `parse_start` makes of the text, or else the position in the file of this name. Raises ValueError."""
    try:
        return parse_start(text)
    except ValueError:
        if not text.strip() or not Path(text).is_file():
            raise
    try:
        return parse_export(Path(text).read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ValueError(
            f"{text}: {error}. What other products have stored is read by position import"
        ) from error

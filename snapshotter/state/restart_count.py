"""The count of automatic restarts, beside the state: it outlives the process, as a connector's outlives its operator.

A process that was started again by hand, or by whatever watches over it, goes on counting; only health sets the count
back (`snapshotter.engine.auto_restart`). The file is a small one, replaced whole.
"""

from __future__ import annotations

from typing import Any

from snapshotter.state.storage import Storage, StorageError
from streaming.json_text import from_text, to_text

_FILE = "restarts.json"
_FORMAT = 1


def read_count(storage: Storage) -> dict[str, Any] | None:
    """What was kept; None where nothing was. Raises StorageError for a file that is none of ours."""
    text = storage.read_text(_FILE)
    if text is None:
        return None
    try:
        value = from_text(text)
        if value["format"] != _FORMAT:
            raise ValueError(f"format {value['format']!r}")
        return {"restarts": int(value["restarts"]), "last_ms": value["last_ms"]}
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{storage.location}/{_FILE} is not of format {_FORMAT} ({error}): {text[:200]!r}; delete it, and restarts "
            "are counted from 0"
        ) from error


def keep_count(storage: Storage, count: dict[str, Any]) -> None:
    """Durable when this returns."""
    storage.write_text(_FILE, to_text({"format": _FORMAT, **count}))

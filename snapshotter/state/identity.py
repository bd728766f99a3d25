"""An engine's id: made once, and kept beside its checkpoint. Its tables name it (`streaming.table_identity.Owner`).

Where the state was removed a new id is made, and tells the tables that what they hold is not what this state knows.
"""

from __future__ import annotations

import json
import uuid

from snapshotter.state.storage import Storage, StorageError

_FILE = "engine.json"
_FORMAT = 1


def engine_id(storage: Storage) -> str:
    """The id, made if there is none. Raises StorageError for a file that is none of ours."""
    text = storage.read_text(_FILE)
    if text is None:
        storage.create_text(_FILE, json.dumps({"format": _FORMAT, "id": uuid.uuid4().hex}))
        text = storage.read_text(_FILE) or ""  # of two that made one, the first has
    try:
        value = json.loads(text)
        if value["format"] != _FORMAT:
            raise ValueError(f"format {value['format']!r}")
        return str(value["id"])
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(
            f"{storage.location}/{_FILE} is not of format {_FORMAT}, which this version writes ({error}): "
            f"{text[:200]!r}"
        ) from error

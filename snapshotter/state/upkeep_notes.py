"""When each table was cared for, beside the state, for the processes that come after: one that lives for seconds, as a
scheduler starts them, would else remove old files at every run, and never come to the last of many tables; nor would it
know which version is the oldest that can be read.

The file is a small one, replaced whole. What it says of a table that is no more does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from snapshotter.state.storage import Storage, read_object
from streaming.json_text import to_text

_FILE = "upkeep.json"
_FORMAT = 1
Key = tuple[str, str]
"""A collection, and which of its tables."""


@dataclass(frozen=True, slots=True)
class UpkeepNote:
    """Of one table, in milliseconds since 1970: when it was last looked after at the end of a run, and when its
    old files were last to be removed, whatever became of that, or it was first met; 0: never. ``oldest``: the oldest
    version that can be read since they were removed, of the table of this ``id``."""

    looked_ms: int = 0
    vacuumed_ms: int = 0
    oldest: int | None = None
    id: str = ""


def read_notes(storage: Storage) -> dict[Key, UpkeepNote]:
    """Those in ``storage``. Raises ValueError for a file that is none of ours, and StorageError."""
    found = read_object(storage, _FILE, _FORMAT)
    try:
        return {} if found is None else dict(map(_note, found["tables"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"{storage.location}/{_FILE} lacks something: {error!r}") from error


def keep_notes(storage: Storage, notes: Mapping[Key, UpkeepNote]) -> None:
    """Durable when this returns. Whoever has the engine's lock may. Raises StorageError."""
    tables = [
        {"collection": name, "table": table, **asdict(note)} for (name, table), note in sorted(notes.items())
    ]
    storage.write_text(_FILE, to_text({"format": _FORMAT, "tables": tables}))


def _note(kept: Mapping[str, Any]) -> tuple[Key, UpkeepNote]:
    key, oldest = (str(kept["collection"]), str(kept["table"])), kept.get("oldest")
    times = int(kept["looked_ms"]), int(kept["vacuumed_ms"])
    return key, UpkeepNote(*times, None if oldest is None else int(oldest), str(kept.get("id", "")))

"""How tables know an engine: by its id, made once and kept beside its checkpoint, and by the application id under which
its batches are counted (`streaming.delta.table_identity.Owner`).

Where the state was removed, a new id is made. It tells the tables that what they hold is not what this state knows.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from snapshotter.state.storage import Storage, StorageError
from streaming.delta.table_identity import Owner

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


def application_id(storage: Storage, checkpoint: str, engine: str) -> str:
    """Names the ``checkpoint`` (its folder in ``storage``) of the engine ``engine`` in every table. It holds Spark's
    own id of the checkpoint, for a new one under an old name counts batches from 0 again. Spark makes that id with its
    first query; raises FileNotFoundError before."""
    name = f"{checkpoint}/metadata"
    text = storage.read_text(name)
    if text is None:
        raise FileNotFoundError(f"{storage.location}/{name} is not there")
    return f"snapshotter:{engine}:{json.loads(text)['id']}"


@dataclass(slots=True)
class EngineIdentity:
    """How the tables know the engine ``name``, whose state lies in ``storage``. ``checkpoint`` is the folder of the
    one in force."""

    storage: Storage
    name: str
    checkpoint: Callable[[], str]
    _id: str | None = None
    _names: dict[str, str] = field(default_factory=dict)

    def owner(self) -> Owner:
        """As the owner of tables; asked under the lock."""
        if self._id is None:
            self._id = engine_id(self.storage)
        return Owner(self.name, self._id)

    def application_id(self) -> str:
        """As `application_id`, of the checkpoint that is in force."""
        checkpoint = self.checkpoint()
        if checkpoint not in self._names:
            self._names[checkpoint] = application_id(self.storage, checkpoint, self.name)
        return self._names[checkpoint]

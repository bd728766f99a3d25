"""What an engine's upkeep has noted of its tables, for the processes that come after (`state.upkeep_notes`).

Nothing depends on it but how soon a table is looked after again, and a figure in the status. So what goes wrong is
logged, and no more; but what could not be read is not replaced by the little that this process knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from snapshotter.log import warn_of
from snapshotter.state.storage import Storage
from snapshotter.state.upkeep_notes import Key, UpkeepNote, keep_notes, read_notes

_log = structlog.get_logger("snapshotter.upkeep")


class UpkeepBook:
    """The notes in ``storage``, which are read when the first is asked for. ``check`` raises where the engine has lost
    its lock."""

    def __init__(self, storage: Storage, check: Callable[[], object]) -> None:
        self._storage, self._check = storage, check
        self._notes: dict[Key, UpkeepNote] | None = None
        self._unread = False

    def note_of(self, key: Key) -> UpkeepNote | None:
        """What is known of this table; None where nothing is."""
        return self._read().get(key)

    def keep(self, notes: Mapping[Key, UpkeepNote]) -> None:
        """Take these down, in the place of what was known of the same tables."""
        if self._unread:
            self._notes = None  # once more
        known = self._read()
        known.update(notes)
        if self._unread:
            return
        try:
            self._check()
            keep_notes(self._storage, known)
        except Exception as error:  # noqa: BLE001 - as the module says
            warn_of(_log, "when tables were looked after was not noted", error)

    def _read(self) -> dict[Key, UpkeepNote]:
        if self._notes is None:
            self._notes, self._unread = {}, False
            try:
                self._notes = read_notes(self._storage)
            except Exception as error:  # noqa: BLE001 - as the module says
                self._unread = not isinstance(error, ValueError)  # a file that is none of ours is replaced
                warn_of(_log, "when tables were looked after is not known", error)
        return self._notes

"""READs that lie in the table's folder as files already: which of them a landing may add as they are.

A READ gives way where its key has streamed: since its window was registered, where its keys are proven new; elsewhere
behind its window's low watermark. Such rows are marked, by a look at the keys of those files that may hold one of them
(`streaming.delta.new_files.hide`). Where keys are not proven new, the landing holds what is left against the table.

A file was written under the plan that its table had when it was read. Where the table has grown since, it is added as
it is only if nothing in it was rescued for the columns that came, and none of its own has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from snapshotter.core.values.window import WindowId
from snapshotter.landing.tables import OpenTable
from snapshotter.landing.targets.side_by_side import ReadBuffersLost
from snapshotter.landing.targets.target import CollectionContents
from snapshotter.reading.read_buffer import Buffer, Trailer, distinct
from streaming.delta.new_files import MARKED_MAX, NewFile, hide, size_in
from streaming.layout import TablePlan


def files_to_add(
    opened: OpenTable, batch: CollectionContents, streamed: pa.Table, *, appends: bool
) -> dict[WindowId, Sequence[NewFile]] | None:
    """The files of each window that closes in ``batch``, with the rows marked that an event of their key among those
    ``streamed`` supersedes. ``appends``: their keys are proven new.

    None where they have to be read instead, for the ``opened`` table does not take them as they are.
    """
    lows = {closing.window.id: closing.low.to_int() for closing in batch.closings if not closing.superseded}
    if not lows or any(batch.buffers[window].folder is None for window in lows):
        return None
    plan, marks = opened.known_plan(), opened.table.marks_rows()
    if batch.truncated is not None or not (marks or appends) or not opened.table.takes_files():
        return None
    found: dict[WindowId, Sequence[NewFile]] = {}
    for window in lows:
        buffer = batch.buffers[window]
        parts = buffer.trailers_of(window)
        if not all(_fits(opened, buffer.plan, part, plan) for part in parts):
            return None
        found[window] = [part.file for part in parts if part.file is not None]
    marked: dict[WindowId, Sequence[NewFile]] = {
        window: _without(batch.buffers[window], files, newer_keys(streamed, lows[window]))
        for window, files in found.items()
    }
    if not appends:
        return marked
    at_most = MARKED_MAX if marks else 0
    several = any(len(file.gone) > at_most for files in marked.values() for file in files)
    return None if several else marked


def check_files(batch: CollectionContents) -> None:
    """Raises ReadBuffersLost for the windows of which a file is gone, or is of another size."""
    windows = [closing.window.id for closing in batch.closings if not closing.superseded]
    lost = {window for window in windows if not _is_there(batch.buffers[window], window)}
    if lost:
        raise ReadBuffersLost(frozenset(lost))


def offer(batch: CollectionContents, files: Sequence[NewFile]) -> None:
    """A commit is about to be asked to add these."""
    for buffer in distinct(batch.buffers[closing.window.id] for closing in batch.closings):
        buffer.offer(files)


def withdraw(opened: OpenTable, batch: CollectionContents, files: Sequence[NewFile]) -> None:
    """Those of ``files`` that the landing of ``batch`` in the ``opened`` table has not added, for it has read them or
    nothing of them is to be seen, go with their buffers."""
    named = opened.table.named
    if named is not None:
        for buffer in distinct(batch.buffers[closing.window.id] for closing in batch.closings):
            buffer.withdraw(file for file in files if file.name not in named)


def newer_keys(streamed: pa.Table, low: int) -> pa.Array:
    """The keys of those ``streamed`` (`target.KEYS_SCHEMA`) behind the time ``low``."""
    return streamed.filter(pc.greater(streamed["_cluster_time"], low))["_key"].combine_chunks()


def _is_there(buffer: Buffer, window: WindowId) -> bool:
    if buffer.folder is None:
        return True
    files = [file for part in buffer.trailers_of(window) for file in part.files]
    sizes = buffer.folder.each(partial(size_in, buffer.folder), files)
    return sizes == [file.size_bytes for file in files]


def _without(buffer: Buffer, files: Sequence[NewFile], keys: pa.Array) -> list[NewFile]:
    """These files of the buffer, with the rows of ``keys`` marked."""
    assert buffer.folder is not None, "its rows lie in files"
    folder = buffer.folder
    return folder.each(lambda file: hide(folder, file, keys), files)


def _fits(opened: OpenTable, have: TablePlan, part: Trailer, want: TablePlan) -> bool:
    if have == want:
        return True
    layout = opened.table.layout
    if part.unknown != layout.least_plan():
        return False
    there = {field.name: field.type for field in layout.arrow_schema(want)}
    return all(there.get(field.name) == field.type for field in layout.arrow_schema(have))

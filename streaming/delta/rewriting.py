"""Files of a table written anew beside its landings, and put in their place by one short commit.

Writing takes seconds, and no landing should wait for that. So rows are copied as one version of the table has them,
without its lock, into files that nobody sees yet. Under the lock the copies take the place of the files. Which rows
landings have marked in these meanwhile, their deletion vectors tell; the driver reads the keys of those rows, finds
them in the copies, and marks them there.

Invariants: the copies show exactly the rows that the files show in the version before, each once. Where that can't be
had (a file is gone, a row is back, a key is not there exactly once, Python does not reach the folder, or there are more
keys than the driver holds) nothing is committed: `GaveWay`. Whoever holds the lock from beginning to end finds all of
it as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from streaming.column_names import KEY
from streaming.delta.object_store import OutOfReach
from streaming.delta.table_file import UNREAD
from streaming.delta.transaction import ListedFile, Rewritten, Transaction
from streaming.delta.vector_writer import write_vectors

if TYPE_CHECKING:
    from streaming.delta.file_keys import FileKeys
    from streaming.delta.marked_rows import Numbers
    from streaming.delta.table_folder import TableFolder


class GaveWay(Exception):
    """What has landed meanwhile leaves no place for the copies of a rewrite, as the message says. Nothing was
    committed; the copies are removed."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Files with the rows of others (``of``, as these were), not yet in the log (``made``: Delta's objects)."""

    of: Sequence[ListedFile]
    made: Sequence[Any]


def copied(transaction: Transaction, files: Sequence[Any], outputs: int, order: Sequence[str]) -> Copies:
    """Copy the rows of these files (Delta's objects), as of this ``transaction``, which commits nothing. The rest, and
    what it raises, is as for `Transaction.copy`."""
    return Copies(transaction.told(files), transaction.copy(files, outputs, order))


def put_in_place(transaction: Transaction, copies: Copies, kept: FileKeys | None) -> Rewritten:
    """In this ``transaction``, have ``copies`` take the place of their files. ``kept``: keys of files that the driver
    has; None where it is to read none. Raises `GaveWay`."""
    try:
        try:
            there = transaction.files_named([file.name for file in copies.of])
            if len(there) < len(copies.of):
                raise GaveWay(f"{len(copies.of) - len(there)} of {len(copies.of)} files are gone")
            files = [there[file.name] for file in copies.of]
            made = _marked(transaction, copies, files, kept)
        except UNREAD as error:
            raise GaveWay(f"rows that were marked meanwhile could not be read: {error}") from error
        except OutOfReach as error:
            raise GaveWay(f"rows were marked meanwhile, and only the JVM reaches them: {error}") from error
    except GaveWay:
        with suppress(OutOfReach, OSError):  # else they go with other files that no version has
            transaction.folder().remove([add.path() for add in copies.made])
        raise
    purged = sum(file.said.facts.marked for file in copies.of)
    return transaction.replace(files, made, purged)


def _marked(
    transaction: Transaction, copies: Copies, files: Sequence[ListedFile], kept: FileKeys | None
) -> list[Any]:
    """The copies as Delta's objects, with what has been marked in their files meanwhile."""
    changed = [(was, now) for was, now in zip(copies.of, files, strict=True) if was.vector != now.vector]
    if not changed:
        return list(copies.made)
    if kept is None:
        raise GaveWay("rows were marked meanwhile, and the driver keeps no keys")
    if not all(file.reached for pair in changed for file in (one.as_old() for one in pair)):
        raise GaveWay("rows were marked meanwhile in a file that Python does not reach by its name")
    folder = transaction.folder()
    late = {now.name: _since(folder, was, now, kept) for was, now in changed}
    made = transaction.told(copies.made)
    found = _found(folder, late, made, kept)
    whole = [file for file in made if file.loses_all(len(found.get(file.name, ())))]
    part = [file for file in made if file.name in found and file not in whole]
    vectors = write_vectors(folder, [found[file.name] for file in part]) if part else []
    marked = transaction.with_vectors(list(zip(part, vectors, strict=True)))
    of_name = {file.name: add for file, add in zip(part, marked, strict=True)}
    folder.remove([file.name for file in whole])
    return [of_name.get(file.name, file.add) for file in made if file not in whole]


def _since(folder: TableFolder, was: ListedFile, now: ListedFile, kept: FileKeys) -> Numbers:
    """The rows that were marked in a file since."""
    before, after = (kept.marked(folder, file.as_old()) for file in (was, now))
    rows: Numbers = np.setdiff1d(after, before, assume_unique=True)
    if len(before) + len(rows) != len(after):
        raise GaveWay(f"rows of {now.name} that were gone are back")
    return rows


def _found(
    folder: TableFolder, late: Mapping[str, Numbers], made: Sequence[ListedFile], kept: FileKeys
) -> dict[str, Numbers]:
    """Where the rows that were marked in files meanwhile lie in the copies, by the names of these."""
    keys = pa.concat_arrays([kept.keys(folder, name).take(pa.array(rows)) for name, rows in late.items()])
    if not kept.have_room(sum(file.said.facts.rows for file in made), keys):
        raise GaveWay(f"{KEY} of the copies takes more memory than there is for it")
    found = kept.find(folder, [file.as_old() for file in made], keys)
    places = np.concatenate([hits.places for hits in found.values()] or [np.empty(0, np.int64)])
    if len(places) != len(keys) or len(np.unique(places)) != len(keys):
        raise GaveWay(
            f"of {len(keys)} rows that were marked meanwhile {len(places)} were found in the copies"
        )
    return {name: hits.rows for name, hits in found.items()}

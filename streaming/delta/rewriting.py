"""Files of a table written anew beside its landings, and put in their place by one short commit.

Writing may take seconds, and no landing should wait for that. So rows are copied as one version of the table has them,
without its lock, into files that nobody sees yet, by the driver (`streaming.delta.file_copies`,
`streaming.delta.file_concat`) or by Spark. Under the lock the copies take the place of the files. Which rows landings
have marked in these meanwhile, their deletion vectors tell; the driver reads the keys of those rows, finds them in the
copies, and marks them there. Of files that are concatenated each row's place is known.

Invariants: the copies show exactly the rows that the files show in the version before, each once. Where that can't be
had (a file is gone, a row is back, a key is not there exactly once) nothing is committed: `GaveWay`. Whoever holds the
lock from beginning to end finds all of it as it was, unless another program has committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from streaming.column_names import KEY
from streaming.delta.delta_log import active
from streaming.delta.file_concat import Concatenated, NotAlike, concatenated
from streaming.delta.file_copies import LeftToSpark, copied
from streaming.delta.listed_file import ListedFile
from streaming.delta.object_store import OutOfReach
from streaming.delta.operations import Rewritten
from streaming.delta.table_demands import has_vectors
from streaming.delta.table_file import UNREAD
from streaming.delta.transaction import Transaction
from streaming.delta.vector_writer import write_vectors

if TYPE_CHECKING:
    from streaming.delta.file_keys import FileKeys
    from streaming.delta.marked_rows import Numbers
    from streaming.delta.table_folder import TableFolder
    from streaming.delta.upkeep_plan import Step


class GaveWay(Exception):
    """What was committed meanwhile leaves no place for the copies of a rewrite, as the message says. Nothing was
    committed."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Files with the rows of others (``of``), not yet in the log: Delta's objects of them (``made``); in how many
    ``seconds`` they were written; why by Spark (``left``), None where the driver has done it. ``begins``: where each of
    the others begins in the one file that was made, if they lie in it as they are."""

    made: Sequence[Any]
    of: Sequence[ListedFile]
    seconds: float
    left: str | None
    begins: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A rewrite of the files of a ``step``, as the version of ``transaction`` has them (``of``), which never commits.
    ``order``: of rows in the copies. ``kept``: keys of files that the driver has; None where it is to read none.
    ``apart``: takes the names of files that turn out not to be concatenable, and when that was."""

    step: Step
    transaction: Transaction
    of: Sequence[ListedFile]
    order: Sequence[str]
    kept: FileKeys | None
    apart: MutableMapping[str, float] = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Whether it can't make up for landings beside it, so that the lock is to be kept from beginning to end: they
        replace whole files, or the keys of these files are out of the driver's reach, or more than it holds."""
        if self.order[0] != KEY or self.step.concatenates:
            return False  # a changelog, in which nothing is ever marked; or nobody has to look for rows
        kept, lows = self.kept, pa.array([file.said.low or "" for file in self.of], pa.string())
        if kept is None or not has_vectors(self.transaction.begins):
            return True
        if not all(file.as_old().reached for file in self.of):
            return True
        try:
            self.transaction.folder()
        except OutOfReach:
            return True
        return not kept.have_room(sum(file.said.facts.rows for file in self.of), lows)

    def write(self, check: Callable[[], object] = lambda: None) -> Copies:
        """Copy the rows, which takes a while. To nobody anything changes. ``check`` raises where it is not to go on.
        Raises what `Transaction.copy` does, and `NotAlike`, behind which these files are not to be concatenated for a
        while."""
        began = time.monotonic()
        with active(self.transaction.session):
            if self.step.concatenates:
                whole = self._concatenated(check)
                made = self.transaction.as_copies([whole.file])
                return Copies(made, whole.of, time.monotonic() - began, None, whole.begins)
            made, left = self._copied()
            self._know(made)
        return Copies(made, self.of, time.monotonic() - began, left)

    def _concatenated(self, check: Callable[[], object]) -> Concatenated:
        transaction, names = self.transaction, {file.name for file in self.of}
        try:
            if self.kept is None or not all(file.as_old().reached for file in self.of):
                raise NotAlike("the driver does not reach all of them")
            folder = transaction.folder()
            made = concatenated(transaction.row_groups(), folder, self.of, self.kept, check)
        except (NotAlike, OutOfReach) as why:
            self.apart.update(dict.fromkeys(names, time.monotonic()))
            raise NotAlike(str(why)) from why
        left = names.difference(file.name for file in made.of)
        self.apart.update(dict.fromkeys(left, time.monotonic()))
        return made

    def _copied(self) -> tuple[list[Any], str | None]:
        """By the driver, where these are files for it; else by Spark, and why."""
        transaction, left = self.transaction, self._not_for_driver()
        if left is None and self.kept is not None:
            try:
                made = copied(transaction.folder(), transaction.begins, self.of, self.kept)
                return transaction.as_copies([] if made is None else [made]), None
            except (LeftToSpark, OutOfReach) as why:
                left = str(why)
        adds = [file.add for file in self.of]
        return transaction.copy(adds, self.step.outputs, self.order), left

    def _not_for_driver(self) -> str | None:
        if self.order[0] != KEY:
            return "a changelog is in another order"
        if self.step.outputs > 1:
            return f"they become {self.step.outputs} files"
        if self.kept is None or not all(file.as_old().reached for file in self.of):
            return "the driver does not reach them"
        return None

    def _know(self, made: Sequence[Any]) -> None:
        """Have the driver read the keys of the copies, where it has those of their files: it will ask for them."""
        if (kept := self.kept) is None:
            return
        with suppress(OutOfReach, *UNREAD):  # whoever needs them reads them again, and says so
            folder = self.transaction.folder()
            if any(kept.has_keys(folder, file.name) for file in self.of):
                folder.each(lambda name: kept.keys(folder, name), [add.path() for add in made])

    def discard(self, copies: Copies) -> None:
        """Remove copies that no commit was asked to add, as far as Python reaches them; else they go with other files
        that no version has."""
        with suppress(OutOfReach, OSError), active(self.transaction.session):
            self.transaction.folder().remove([add.path() for add in copies.made])

    def put_in_place(self, copies: Copies, transaction: Transaction) -> Rewritten:
        """In another ``transaction``, have ``copies`` take the place of their files. Raises `GaveWay`."""
        of = copies.of
        there = transaction.files_named([file.name for file in of])
        if len(there) < len(of):
            raise GaveWay(f"{len(of) - len(there)} of {len(of)} files are gone")
        if copies.left is None:
            folder = transaction.folder()
            if any(folder.size(add.path()) != add.size() for add in copies.made):
                raise GaveWay("a copy is not what it was when it was written")
        now = [there[file.name] for file in of]
        if copies.begins is not None:
            marked = _with_marks(transaction, copies.made, copies.begins, now, self.kept)
            return transaction.replace(now, marked, 0)
        changed = [(was, is_) for was, is_ in zip(of, now, strict=True) if was.vector != is_.vector]
        made = list(copies.made)
        if changed:
            made = _marked(transaction, made, changed, self.kept)
        return transaction.replace(now, made, sum(file.said.facts.marked for file in of))

    def know(self, copies: Copies) -> None:
        """The ``copies`` are in place now: what is known of their files is what is known of them."""
        if copies.begins is not None and self.kept is not None:
            (made,) = copies.made
            with suppress(OutOfReach, *UNREAD):  # whoever needs the keys reads them
                self.kept.concat(self.transaction.folder(), [file.name for file in copies.of], made.path())


def _with_marks(
    transaction: Transaction,
    made: Sequence[Any],
    begins: Sequence[int],
    files: Sequence[ListedFile],
    kept: FileKeys | None,
) -> Sequence[Any]:
    """The one file that was made of these, Delta's object, with the rows that are marked in them now. ``begins``: where
    each of them begins in it."""
    if kept is None:
        raise GaveWay("the driver is not to read what is marked in these files")
    try:
        folder = transaction.folder()
        marked = folder.each(lambda file: kept.marked(folder, file.as_old()), files)
        rows = np.concatenate([begin + rows for begin, rows in zip(begins, marked, strict=True)])
        if not len(rows):
            return made
        vectors = write_vectors(folder, [rows])
    except UNREAD as error:
        raise GaveWay(f"what is marked in these files could not be read or written: {error}") from error
    except OutOfReach as error:
        raise GaveWay(f"only the JVM reaches what is marked in these files: {error}") from error
    told = transaction.told(made)
    kept.note(folder, told[0].name, vectors[0].described, rows)
    return transaction.with_vectors(list(zip(told, vectors, strict=True)))


def _marked(
    transaction: Transaction,
    copies: Sequence[Any],
    changed: Sequence[tuple[ListedFile, ListedFile]],
    kept: FileKeys | None,
) -> list[Any]:
    """The copies as Delta's objects, with what has been marked meanwhile in files that have changed (as each was, and
    is)."""
    if kept is None:
        raise GaveWay("rows were marked meanwhile, and the driver keeps no keys")
    if not all(file.as_old().reached for pair in changed for file in pair):
        raise GaveWay("rows were marked meanwhile in a file that Python does not reach by its name")
    made = transaction.told(copies)
    if not all(file.said.counted for file in made):
        raise GaveWay("rows were marked meanwhile, and not all of the copies have statistics")
    try:
        folder = transaction.folder()
        found = _found(folder, changed, made, kept)
    except UNREAD as error:
        raise GaveWay(f"rows that were marked meanwhile could not be read: {error}") from error
    except OutOfReach as error:
        raise GaveWay(f"rows were marked meanwhile, and only the JVM reaches them: {error}") from error
    whole = {file.name for file in made if file.loses_all(len(found.get(file.name, ())))}
    part = [file for file in made if file.name in found and file.name not in whole]
    vectors = write_vectors(folder, [found[file.name] for file in part])
    for file, vector in zip(part, vectors, strict=True):
        kept.note(folder, file.name, vector.described, found[file.name])
    marked = transaction.with_vectors(list(zip(part, vectors, strict=True)))
    adds = {file.name: file.add for file in made if file.name not in whole}
    adds |= {file.name: add for file, add in zip(part, marked, strict=True)}
    with suppress(OSError):  # else they go with other files that no version has
        folder.remove(whole)
    return list(adds.values())


def _found(
    folder: TableFolder,
    changed: Sequence[tuple[ListedFile, ListedFile]],
    made: Sequence[ListedFile],
    kept: FileKeys,
) -> dict[str, Numbers]:
    """Where the rows that were marked in files meanwhile lie in the copies, by the names of these."""
    since = folder.each(lambda pair: _since(folder, *pair, kept), changed)
    late = {now.name: rows for (_, now), rows in zip(changed, since, strict=True) if len(rows)}
    if not late:
        return {}
    keys = pa.concat_arrays(folder.each(lambda name: _keys(folder, name, late, kept), [*late]))
    if not kept.have_room(sum(file.said.facts.rows for file in made), keys):
        raise GaveWay(f"{KEY} of the copies takes more memory than there is for it")
    found = kept.find(folder, [file.as_old() for file in made], keys)
    places = np.concatenate([hits.places for hits in found.values()] or [np.empty(0, np.int64)])
    if len(places) != len(keys) or len(np.unique(places)) != len(keys):
        raise GaveWay(
            f"of {len(keys)} rows that were marked meanwhile {len(places)} were found in the copies"
        )
    return {name: hits.rows for name, hits in found.items()}


def _since(folder: TableFolder, was: ListedFile, now: ListedFile, kept: FileKeys) -> Numbers:
    """The rows that were marked in a file since."""
    after, before = (kept.marked(folder, file.as_old()) for file in (now, was))
    rows: Numbers = np.setdiff1d(after, before, assume_unique=True)
    if len(before) + len(rows) != len(after):
        raise GaveWay(f"rows of {now.name} that were gone are back")
    return rows


def _keys(folder: TableFolder, name: str, late: Mapping[str, Numbers], kept: FileKeys) -> pa.Array:
    """Of those rows of a file, which is about to go: nothing more is kept of it."""
    return kept.keys(folder, name, keep=False).take(pa.array(late[name]))

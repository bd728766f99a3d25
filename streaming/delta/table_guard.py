"""A table's owner, and what others have done to it: asked of the table itself, through `streaming.delta.delta_log`.

A `TableGuard` admits a landing to a table, or says why not; it is asked before each attempt of each commit, so that a
table that changes hands meanwhile is a conflict like any other, and then a refusal. It also looks at what was committed
behind a mark (`streaming.delta.table_identity`).

A table without an owner (one of an earlier version) is taken where the collection that it names fits, and the newest
landing was this engine's, or there was none. One whose owner has this engine's name and another id is taken too: the
state that held the id was removed. The load that follows reconciles. Any other owner keeps its table until `take_over`.

Invariant: the owner is set in a transaction that began at the version in which the old one was read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from streaming.delta.attempts import attempts
from streaming.delta.delta_log import TableLog, metadata_text
from streaming.delta.landing_errors import TableAltered, TableOwned
from streaming.delta.log_commits import Commit
from streaming.delta.new_files import FileGone
from streaming.delta.snapshot import Snapshot
from streaming.delta.table_identity import Alteration, Owner, TableMark, Version, altered, engine_of, is_of
from streaming.namespaces import Namespace

NAMESPACE_PROPERTY = "snapshotter.namespace"
OWNER_PROPERTY = "snapshotter.owner"
ENGINE_PROPERTY = "snapshotter.engine"
CLEARED_PROPERTY = "snapshotter.cleared"
"""Changes with each look for what earlier runs have left in the table's folder."""
_ENGINE = "snapshotter"


class TableGuard:
    """Guards the table of ``namespace`` at ``path`` for ``owner``; without one, only the collection is checked. ``log``
    must be that table's. Not for use by several threads at once."""

    def __init__(self, path: str, namespace: Namespace, log: TableLog, owner: Owner | None) -> None:
        self._path = path
        self._namespace = namespace
        self._log = log
        self.owner = owner
        self._table_id: str | None = None
        self._cleared: tuple[str | None] | None = None

    def properties(self) -> dict[str, str]:
        """What a new table says of itself."""
        owner = self.owner
        ours = {} if owner is None else {OWNER_PROPERTY: owner.to_text(), ENGINE_PROPERTY: owner.engine}
        return {NAMESPACE_PROPERTY: str(self._namespace), **ours}

    def admit(self, table: Snapshot | None) -> bool:
        """Raises `TableAltered` where the table is not the one of before, `TableOwned` where it is not this engine's.
        Takes it by a commit where it may, and returns whether it has. ``table`` None: there is none."""
        if table is None:
            if self._table_id is not None:
                raise self._altered(Alteration.MISSING, "is gone")
            return False
        if self._table_id not in (None, table.table_id):
            raise self._altered(Alteration.ANOTHER, f"is another one now (of Delta's id {table.table_id})")
        takes = self._must_take(table)
        if takes:
            self._take(self._must_take, takes_over=False)
        self._table_id = table.table_id
        return takes

    def files_from(self, table: Snapshot) -> None:
        """From here on files are written into the table's folder, for commits to add."""
        self._cleared = self._cleared or (table.table_property(CLEARED_PROPERTY),)

    def cleared(self, name: str) -> None:
        """The folder was cleared by a commit of this ``name``, before any of these files."""
        self._cleared = (name,)

    def check_files(self, table: Snapshot) -> None:
        """Raises `FileGone` where somebody has cleared the folder since files were written: another run of this engine,
        which has taken them for those of one that is over. The next ones count from here."""
        now = (table.table_property(CLEARED_PROPERTY),)
        if self._cleared is not None and self._cleared != now:
            self._cleared = now
            raise FileGone(f"another run has cleared the folder of the table at {self._path}")

    def look(self, mark: TableMark | None) -> TableMark | None:
        """The newest version, once the commits behind ``mark`` have been looked at; None if there is no table and was
        none. Without a mark nothing is expected: whatever is there is where the next look begins.

        Raises `TableAltered` and `TableOwned`. Reads one commit's first line if nothing has happened, and no more than
        that of each of this engine's own.
        """
        self._table_id = None if mark is None else mark.table_id
        newest = self._log.newest()
        if newest is not None and (mark is None or newest.table_id == mark.table_id) and self.admit(newest):
            newest = self._log.newest()
        found = None if newest is None else self.mark_of(newest)
        if mark is None or found == mark:
            return found
        at_mark = None if found is None else self._log.commits.one(mark.version)
        behind = self._behind(found.version if found else -1, mark.version)
        why = altered(mark, found, None if at_mark is None else at_mark.id, behind)
        if why is not None:
            raise self._altered(why[0], _what(*why, mark, found))
        return found

    def mark_of(self, table: Snapshot) -> TableMark:
        commit = self._log.commits.one(table.version)
        return TableMark(table.table_id, table.version, "" if commit is None else commit.id)

    def take_over(self) -> str | None:
        """Make this engine the owner, and return the name of the one before ("" for nobody); None where it is already.

        Raises `TableOwned` where the table is another collection's."""
        was: list[str] = []

        def take(begun: Snapshot) -> bool:
            was.clear()
            self._of_collection(begun)
            owner = owner_of(begun)
            if owner == self.owner:
                return False
            was.append(self._landed_last(begun) or "" if owner is None else owner.engine)
            return True

        self._take(take, takes_over=True)
        return was[0] if was else None

    def mark(self) -> dict[str, Any]:
        """What a commit's mark says of who made it."""
        owner = self.owner
        return {"engine": _ENGINE, **({} if owner is None else {"owner": json.loads(owner.to_text())})}

    def marking(self, token: str, app_id: str, batch_id: int, metadata: Mapping[str, Any]) -> str:
        """The ``userMetadata`` of a landing's commit, batch ``batch_id`` of ``app_id``, by whose ``token`` it is found
        again. ``metadata``: JSON values of the caller's."""
        said = {"landing": token, "app_id": app_id, "batch": batch_id, "metadata": metadata}
        return metadata_text({**self.mark(), **said})

    def landing(self, token: str, before: int, upto: int, operations: Collection[str]) -> Commit | None:
        """The landing's commit with this ``token``, behind the version ``before`` and up to ``upto``: it is of one of
        the ``operations``, as whatever Delta does behind it (auto compaction, say) carries the same mark."""
        for commit in self._log.commits.down(upto, before + 1):
            mark = landing_mark(commit)
            if mark is not None and mark["landing"] == token and commit.operation in operations:
                return commit
        return None

    def landings(
        self, app_ids: Collection[str], batch_id: int, newest: int, operations: Collection[str]
    ) -> Iterator[tuple[Mapping[str, Any], Commit]]:
        """The landings of batch ``batch_id`` under ``app_ids``, each with its mark: of these ``operations``, in the
        version ``newest`` and before it. Each application is known to have recorded the batch as its newest."""
        left = set(app_ids)
        for commit in self._log.commits.down(newest) if left else ():
            mark = landing_mark(commit)
            if mark is None or mark["app_id"] not in left or commit.operation not in operations:
                continue
            left.discard(mark["app_id"])
            if mark["batch"] == batch_id:
                yield mark, commit
            if not left:
                return

    def _must_take(self, table: Snapshot) -> bool:
        """Whether the table must still be made this engine's, and may be; False where it is. Raises `TableOwned`."""
        self._of_collection(table)
        if self.owner is None:
            return False
        owner = owner_of(table)
        if owner == self.owner or table.table_property(NAMESPACE_PROPERTY) is None:
            return False  # ours; or a table that this product has not made, which `open` refuses
        by = self._landed_last(table) if owner is None else owner.engine
        if by is None or by == self.owner.engine:
            return True
        raise TableOwned(
            by,
            f"the table of {self._namespace} at {self._path} belongs to the engine {by!r}, and this one is "
            f"{self.owner.engine!r}: two engines would double its rows",
            f"stop {by!r} and run `snapshotter take-over -c FILE` for this engine, or choose another "
            "delta.warehouse, or leave the collection out of the captured ones",
        )

    def _of_collection(self, table: Snapshot) -> None:
        named = table.table_property(NAMESPACE_PROPERTY)
        if named not in (None, str(self._namespace)):
            raise TableOwned(
                None,
                f"the table at {self._path} is that of the collection {named}, not of {self._namespace}",
                "move that folder back to where it was, or away",
            )

    def _landed_last(self, table: Snapshot) -> str | None:
        """The engine of the newest landing that the log knows."""
        for commit in self._log.commits.down(table.version):
            mark = landing_mark(commit)
            if mark is not None:
                return engine_of(mark["app_id"]) or mark["app_id"]
        return None

    def _take(self, wanted: Callable[[Snapshot], bool], *, takes_over: bool) -> None:
        """Set the owner if it is still ``wanted`` where the transaction begins. ``takes_over``: the collection is read
        again, so that nothing behind this commit matters."""
        text = json.dumps({**self.mark(), **({"takes_over": True} if takes_over else {})})
        attempts(
            lambda: self._log.set_properties(
                lambda begun: self.properties() if wanted(begun) else None, user_metadata=text
            )
        )

    def _behind(self, newest: int, mark: int) -> Iterator[Version]:
        for commit in self._log.commits.down(newest, mark + 1):
            ours, takes_over = self._is_ours(commit)
            changes = not ours and self._log.commits.changes_data(commit.version)
            yield Version(commit.version, commit.operation, changes, ours, takes_over)

    def _is_ours(self, commit: Commit) -> tuple[bool, bool]:
        """Whether this engine made a commit, and whether it took the table by it."""
        said = _said(commit)
        if self.owner is None or said is None:
            return said is not None, False
        by = said.get("owner")
        found = None if by is None else Owner(by["engine"], by["id"])
        return is_of(self.owner, said.get("app_id", ""), found), said.get("takes_over") is True

    def _altered(self, alteration: Alteration, what: str) -> TableAltered:
        return TableAltered(
            alteration,
            f"the table of {self._namespace} at {self._path} {what}",
            f"read {self._namespace} again: `snapshotter execute-snapshot -c FILE {self._namespace} --reconcile`",
        )


def landing_mark(commit: Commit) -> dict[str, Any] | None:
    """The mark of a commit that a landing of this product made; None for any other commit."""
    said = _said(commit)
    return said if said is not None and "landing" in said else None


def _said(commit: Commit) -> dict[str, Any] | None:
    """What this product says in a commit; None for another writer's."""
    try:
        value = json.loads(commit.user_metadata or "null")
    except ValueError:
        return None
    return value if isinstance(value, dict) and value.get("engine") == _ENGINE else None


def owner_of(table: Snapshot) -> Owner | None:
    """The engine that the table names as its own; None for nobody."""
    text = table.table_property(OWNER_PROPERTY)
    try:
        return None if text is None else Owner.from_text(text)
    except ValueError:  # somebody has set it by hand
        return Owner(str(text), "")


def _what(alteration: Alteration, version: Version | None, mark: TableMark, found: TableMark | None) -> str:
    match alteration:
        case Alteration.MISSING:
            return f"is gone (version {mark.version} was the newest)"
        case Alteration.ANOTHER:
            assert found is not None, "a table of another id is there"
            return f"is another one now (of Delta's id {found.table_id}, it was {mark.table_id})"
        case Alteration.OLDER:
            return f"no longer has the version {mark.version} that this engine left: it is an older copy"
        case Alteration.CHANGED:
            assert version is not None, "a commit shows it"
            operation = version.operation or "a commit without a name"
            return f"was changed by another writer: {operation}, version {version.number}"
        case Alteration.UNKNOWN:
            return f"has a log that no longer says what was done to it behind version {mark.version}"

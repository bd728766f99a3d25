"""What is captured: from the lists in the configuration to a server-side ``$match``, and to a predicate.

Both say the same, so that a collection is never snapshotted without being streamed, or the reverse:

- A list is comma-separated (a comma inside brackets, or written ``\\,``, does not separate). An include list
  excludes what it does not name; include and exclude exclude each other. Database and collection lists both
  have to agree.
- ``filters.match.mode=regex``, the default: each entry is a regular expression that has to match the *whole*
  name, of a database or of ``database.collection``, regardless of case, as in Debezium. (``(?-i:Orders)``
  minds the case.) Entries are of the syntax that Python and PCRE share; the server is told to know Unicode
  as Python does (``(*UCP)``).
- ``literal``: each entry is a name, case and all.
- ``admin``, ``local``, ``config`` and ``system.*`` collections are never captured, nor are the temporary
  collections in which ``$out``, ``mapReduce`` and the server's own copies are made before they are renamed.
- The signal collection always is; it does not widen anything else. It must lie within ``capture.scope``.
- The collection beside it that the outcome of signals is written to (its name with ``_status``) never is: the engine's
  own words are no data, and would never come to rest.

Besides the changes of documents, drops and renames pass (also a rename *to* a captured name), and the
``invalidate`` that ends a stream on one database or collection. ``dropDatabase`` does not: a drop of each
collection comes before it.

Pure: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from streaming.namespaces import Namespace, is_name
from streaming.scope.list_entries import difference

INTERNAL_DATABASES = frozenset({"admin", "local", "config"})
DOCUMENT_OPERATIONS = ("insert", "update", "replace", "delete")
NAMESPACE_OPERATIONS = ("drop", "rename")

STATUS_SUFFIX = "_status"
"""The status collection is called like the signal collection, with this."""

_NAME = re.compile(r"(?:[\w.-]|\\\W)+")
"""An expression that is just a name, its dots escaped or not."""
NAMES_MAX = 50
"""How many names the server compares: an event of another collection is compared with each."""
_TEMPORARY = re.compile(r"tmp\.(agg_out|mr)\.|tmp\w{5}\.(renameCollection$|convertToCapped\.)")

LISTS = (
    "database.include.list",
    "database.exclude.list",
    "collection.include.list",
    "collection.exclude.list",
)
OPTIONS = ("capture.scope", "capture.target", "filters.match.mode", "signal.data.collection", *LISTS)


class ScopeError(ValueError):
    """An option that says nothing sensible; the message names it, its value, and what is expected."""


class Level(StrEnum):
    """What one change stream watches: ``capture.scope``."""

    DEPLOYMENT = "deployment"
    DATABASE = "database"
    COLLECTION = "collection"


@dataclass(frozen=True)
class NameList:
    """One include or exclude list. ``mode`` is "regex" or "literal"; entries are not empty."""

    entries: tuple[str, ...]
    excludes: bool
    mode: str

    def admits(self, name: str) -> bool:
        if self.mode == "literal":
            found = name in self.entries
        else:
            found = any(re.fullmatch(entry, name, re.IGNORECASE) for entry in self.entries)
        return found != self.excludes

    @property
    def names(self) -> list[str]:
        """What expressions include that are just names."""
        if self.excludes or self.mode == "literal":
            return []
        return [re.sub(r"\\(\W)", r"\1", entry) for entry in self.entries if _NAME.fullmatch(entry)]

    def only(self, entry: str) -> NameList:
        """A list of one of its entries."""
        return replace(self, entries=(entry,))

    def expression(self, name: Any) -> dict[str, Any]:
        """The same as an aggregation expression over the expression ``name``, which may be null."""
        found: dict[str, Any]
        if self.mode == "literal":
            found = {"$in": [name, [{"$literal": entry} for entry in self.entries]]}
        else:
            pattern = "|".join(f"(?:{entry})" for entry in self.entries)
            found = {"$regexMatch": {"input": name, "regex": rf"(*UCP)\A(?:{pattern})\z", "options": "i"}}
        return {"$not": [found]} if self.excludes else found


@dataclass(frozen=True)
class CaptureScope:
    """Which namespaces are streamed. ``database`` and ``collection`` are the target of a narrower level."""

    level: Level = Level.DEPLOYMENT
    database: str | None = None
    collection: str | None = None
    databases: NameList | None = None
    collections: NameList | None = None
    signals: Namespace | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> CaptureScope:
        """From options by their documented names (``OPTIONS``); ignores others. Raises ScopeError."""
        level, database, collection = _target(options)
        mode = options.get("filters.match.mode", "").strip() or "regex"
        if mode not in ("regex", "literal"):
            raise ScopeError(f"filters.match.mode={mode!r}: expected regex or literal")
        scope = cls(
            level=level,
            database=database,
            collection=collection,
            databases=_list(options, "database", mode),
            collections=_list(options, "collection", mode),
            signals=_signals(options),
        )
        if scope.signals is not None and not scope.watches(scope.signals):
            raise ScopeError(
                f"signal.data.collection={str(scope.signals)!r} lies outside capture.scope={level}"
                f" capture.target={options.get('capture.target')!r}, so no signal would ever be seen:"
                " widen the capture scope, or move the signal collection into it"
            )
        return scope

    def captures(self, namespace: Namespace) -> bool:
        """Whether changes of this collection are streamed."""
        if is_internal(namespace) or namespace == self.status:
            return False
        if namespace == self.signals:
            return True
        return (
            self.watches(namespace)
            and (self.databases is None or self.databases.admits(namespace.database))
            and (self.collections is None or self.collections.admits(str(namespace)))
        )

    @property
    def lists(self) -> Mapping[str, NameList]:
        """The lists that were given, by their options."""
        given = {"database": self.databases, "collection": self.collections}
        return {
            f"{what}.{'exclude' if names.excludes else 'include'}.list": names
            for what, names in given.items()
            if names is not None
        }

    @property
    def status(self) -> Namespace | None:
        """Where the outcome of signals is written to."""
        return status_collection(self.signals) if self.signals is not None else None

    def match_stage(self, known: Iterable[Namespace] = ()) -> dict[str, Any]:
        """The ``$match`` behind ``$changeStream``. It comes before any lookup of documents, on the server.

        The server looks at it twice, first in the oplog, where a name is dear to find and a regular expression dear to
        match. So names that are ``known`` to occur, and those that the lists hold, are compared first.
        """
        operations = [*DOCUMENT_OPERATIONS, *NAMESPACE_OPERATIONS]
        if self.databases is None and self.collections is None:
            return {"$match": {"operationType": {"$in": [*operations, "invalidate"]}, **self._not_status()}}
        names = self._captured(known)
        arms = [
            {"operationType": {"$in": operations}, "$expr": self._expression("ns", names)},
            {"operationType": "rename", "$expr": self._expression("to", names)},
            {"operationType": "invalidate"},
        ]
        return {"$match": {"$or": arms}}

    def _not_status(self) -> dict[str, Any]:
        """Of the status collection only a rename may pass, for it may be one to a captured name."""
        if self.status is None:
            return {}
        place = {"db": self.status.database, "coll": self.status.collection}
        return {"$or": [{"ns": {"$ne": place}}, {"operationType": "rename"}]}

    def _captured(self, known: Iterable[Namespace]) -> tuple[str, ...]:
        """The signal collection, what is ``known``, and what the lists hold by name, where it is captured."""
        listed = () if self.collections is None else self.collections.names
        named = (Namespace.parse(name) for name in listed if is_name(name))
        first = () if self.signals is None else (self.signals,)
        names = dict.fromkeys(map(str, filter(self.captures, (*first, *known, *named))))
        return tuple(names)[:NAMES_MAX]

    def watches(self, namespace: Namespace) -> bool:
        """Whether the collection lies within ``capture.scope``, whatever the lists say."""
        return self.database in (None, namespace.database) and self.collection in (None, namespace.collection)

    def _expression(self, field: str, names: Sequence[str]) -> dict[str, Any]:
        """Whether ``field`` names what is captured, as ``names`` are; the cheapest part comes first."""
        full_name = {"$concat": [f"${field}.db", ".", f"${field}.coll"]}
        conditions = []
        if self.databases is not None:
            conditions.append(self.databases.expression(f"${field}.db"))
        if self.collections is not None:
            conditions.append(self.collections.expression(full_name))
        if self.status is not None:
            conditions.append({"$ne": [full_name, {"$literal": str(self.status)}]})
        listed = {"$and": conditions}
        if not names:
            return listed
        return {"$or": [{"$in": [full_name, [{"$literal": name} for name in names]]}, listed]}


def status_collection(signals: Namespace) -> Namespace:
    """The collection beside the signal collection that the outcome of its signals is written to."""
    return Namespace(signals.database, f"{signals.collection}{STATUS_SUFFIX}")


def is_internal(namespace: Namespace) -> bool:
    """Whether a collection is the server's own: never captured, whatever the lists say. (The server keeps
    those of ``system.*`` from a stream by itself, but not its temporary ones.)"""
    if namespace.database in INTERNAL_DATABASES or namespace.collection.startswith("system."):
        return True
    return _TEMPORARY.match(namespace.collection) is not None


def _target(options: Mapping[str, str]) -> tuple[Level, str | None, str | None]:
    text = options.get("capture.scope", "").strip() or Level.DEPLOYMENT
    target = options.get("capture.target", "").strip()
    if text not in tuple(Level):
        raise ScopeError(f"capture.scope={text!r}: expected one of {', '.join(Level)}")
    level = Level(text)
    if level is Level.DEPLOYMENT:
        if target:
            raise ScopeError(f"capture.target={target!r} needs capture.scope=database or collection")
        return level, None, None
    if level is Level.DATABASE:
        if not target or "." in target:
            raise ScopeError(f"capture.target={target!r}: capture.scope=database needs a database's name")
        return level, target, None
    try:
        namespace = Namespace.parse(target)
    except ValueError as error:
        raise ScopeError(
            f"capture.target={target!r}: capture.scope=collection needs database.collection"
        ) from error
    return level, namespace.database, namespace.collection


def _signals(options: Mapping[str, str]) -> Namespace | None:
    text = options.get("signal.data.collection", "").strip()
    if not text:
        return None
    try:
        namespace = Namespace.parse(text)
    except ValueError as error:
        raise ScopeError(f"signal.data.collection={text!r}: expected database.collection") from error
    if is_internal(namespace):
        raise ScopeError(
            f"signal.data.collection={text!r}: MongoDB does not stream changes of this collection"
        )
    return namespace


def _list(options: Mapping[str, str], what: str, mode: str) -> NameList | None:
    include, exclude = f"{what}.include.list", f"{what}.exclude.list"
    if options.get(include, "").strip() and options.get(exclude, "").strip():
        raise ScopeError(
            f"{include}={options[include]!r} and {exclude}={options[exclude]!r} exclude each other"
        )
    for option, excludes in ((include, False), (exclude, True)):
        text = options.get(option, "")
        entries = split_list(text) if mode == "regex" else _stripped(text.split(","))
        if entries:
            for entry in entries:
                _check_entry(option, entry, mode, is_collection=what == "collection")
            return NameList(entries, excludes, mode)
    return None


def _check_entry(option: str, entry: str, mode: str, is_collection: bool) -> None:
    if mode == "regex":
        if found := difference(entry):
            raise ScopeError(f"{option}: {entry!r} has {found}")
        try:
            re.compile(entry)
        except re.error as error:
            raise ScopeError(f"{option}: {entry!r} is not a regular expression: {error}") from error
    elif is_collection:
        try:
            Namespace.parse(entry)
        except ValueError as error:
            raise ScopeError(f"{option}: expected database.collection, got {entry!r}") from error


def split_list(text: str) -> tuple[str, ...]:
    """Regular expressions: ``"a, b{1,2}"`` -> ``("a", "b{1,2}")``.

    A comma within brackets does not separate, nor does ``\\,``, which stays a plain comma.
    """
    entries = [""]
    depth, escaped = 0, False
    for character in text:
        if escaped:
            entries[-1] += "," if character == "," else "\\" + character
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "," and depth == 0:
            entries.append("")
        else:
            depth = max(depth + (character in "([{") - (character in ")]}"), 0)
            entries[-1] += character
    if escaped:
        entries[-1] += "\\"  # no valid expression, and refused as such later
    return _stripped(entries)


def _stripped(entries: list[str]) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in entries if entry.strip())

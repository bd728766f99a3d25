"""Whether the server reads include and exclude lists as the engine does: it is asked about every name that there is.

The stream is filtered on the server, by PCRE; what is loaded is chosen here, by Python. Constructs that the two are
known to take differently are refused (`streaming.scope.list_entries`). This finds the differences that nobody knows of:
the other case of a letter in the server's edition of Unicode, a bug of one version. Each name is asked about once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import structlog
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from snapshotter.errors import ConfigurationError
from snapshotter.reading.catalogue import collections_there, near
from streaming.mongo.deployment import WIRE_VERSION_5_1, wire_version
from streaming.mongo.errors import classify
from streaming.mongo.server_codes import Kind
from streaming.namespaces import Namespace, listed
from streaming.scope.scope import CaptureScope, NameList

_log = structlog.get_logger("snapshotter.catalogue")
_AT_ONCE = 1_000


@dataclass(slots=True)
class Readings:
    """How one engine's lists are read, here and there. ``others``: further include lists, by their options."""

    client: MongoClient[Any]
    scope: CaptureScope
    others: dict[str, NameList] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """Of the newest look: include lists, or entries of them, that match no collection."""
    unasked: str = ""
    """Why the server cannot be asked, if it cannot: then what it reads is taken for what Python does."""
    _agreed: set[tuple[str, str]] = field(default_factory=set)
    _asks: bool | None = None

    def check(self) -> list[Namespace]:
        """All collections that there are within ``capture.scope``. Raises ConfigurationError for a name that MongoDB
        and Python read differently, or for a list that the server does not take."""
        there = [n for n in collections_there(self.client) if self.scope.watches(n)]
        for option, names in self.scope.lists.items() if there else ():
            self._ask(there[0].database, option, names, _named(option, there))
        return there

    def look(self) -> list[Namespace]:
        """Check, and warn of include lists, or entries of them, that match nothing. Returns what `check` does."""
        there = self.check()
        warnings = tuple(self._unmatched({**self.scope.lists, **self.others}, there))
        for warning in warnings:
            if warning not in self.warnings:
                _log.warning(warning)
        self.warnings = warnings
        return there

    def _ask(self, database: str, option: str, names: NameList, there: Iterable[str]) -> None:
        new = iter(sorted(name for name in there if (option, name) not in self._agreed))
        while names.mode == "regex" and (some := list(islice(new, _AT_ONCE))) and self._answers():
            for name, theirs in zip(some, self._read(database, option, names, some), strict=False):
                if theirs != (ours := names.admits(name)):
                    raise ConfigurationError(
                        f"{option} = {','.join(names.entries)}: MongoDB reads it so that {name!r} is "
                        f"{_captured(theirs)}, and Python so that it is {_captured(ours)}; the stream and what is "
                        f"loaded would differ",
                        "write the entry in other words (character by character, or with filters.match.mode=literal)",
                    )
                self._agreed.add((option, name))

    def _read(self, database: str, option: str, names: NameList, some: list[str]) -> Iterator[bool]:
        """As MongoDB reads the names, in their order; nothing where it may not be asked."""
        documents = [{"name": {"$literal": name}} for name in some]
        stages: list[dict[str, Any]] = [
            {"$documents": documents},
            {"$project": {"read": names.expression("$name")}},
        ]
        try:
            yield from (bool(found["read"]) for found in self.client[database].aggregate(stages))
        except OperationFailure as error:
            if classify(error).retriable:
                raise
            if classify(error).kind is Kind.PERMISSION:
                self._asks = False
                self._tell("this user may not ask MongoDB how it reads the lists of what is captured")
                return
            said = (error.details or {}).get("errmsg", str(error))
            raise ConfigurationError(
                f"{option} = {','.join(names.entries)}: MongoDB does not take it for a regular expression: {said}",
                "write the list in other words",
            ) from error

    def _answers(self) -> bool:
        """Servers before 5.1 cannot be asked without a collection of documents."""
        if self._asks is None:
            self._asks = wire_version(self.client) >= WIRE_VERSION_5_1
            if not self._asks:
                self._tell("MongoDB before 5.1 cannot be asked how it reads the lists of what is captured")
        return self._asks

    def _tell(self, why: str) -> None:
        self.unasked = why
        _log.warning(why)

    def _unmatched(self, lists: dict[str, NameList], there: list[Namespace]) -> Iterator[str]:
        for option, names in lists.items():
            if names.excludes:
                continue
            known = sorted(_named(option, there))
            missed = [entry for entry in names.entries if not any(map(names.only(entry).admits, known))]
            for entry in missed:
                others = len(missed) == len(names.entries) > 1
                nothing = ", nor does any other entry, so nothing is captured" if others else ""
                what = "database" if option.startswith("database") else "collection"
                instead = near(entry, known) or f"; there are {listed(known)}"
                yield f"{option}: {entry!r} matches no {what}{nothing}{instead}"


def _named(option: str, there: Iterable[Namespace]) -> set[str]:
    """What the entries of a list are held against."""
    return {n.database if option.startswith("database") else str(n) for n in there}


def _captured(admitted: bool) -> str:
    return "captured" if admitted else "not captured"

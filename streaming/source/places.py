"""The collections that the events of a split name: what is known of each, worked out once, and what was counted of it.
Here the events of a split get their numbers, too.

A place is named by an event's field ``ns`` as it stands there, in raw BSON; None is that of an event without one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from streaming.fields.document_rules import DocumentRules
from streaming.namespaces import Namespace
from streaming.source.raw_events import fields_of, string_of

SPLIT_BITS = 40
OPERATIONS = {
    b"insert": ("c", "insert"),
    b"update": ("u", "update"),
    b"replace": ("u", "replace"),
    b"delete": ("d", "delete"),
    b"drop": (None, "drop"),
    b"rename": (None, "rename"),
}
"""The server's word for an operation -> ``op``, and the word as text."""


@dataclass(slots=True)
class Place:
    """``sharded``: by more than `_id`; ``rules``: those about its fields. ``operations`` counts its events as they
    came, by the server's word; ``size`` the bytes of what left in rows."""

    database: str | None
    collection: str | None
    captured: bool
    sharded: bool
    rules: DocumentRules | None
    operations: dict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    size: int = 0

    @property
    def name(self) -> str | None:
        """None where nobody can tell whose it is."""
        return None if self.database is None else f"{self.database}.{self.collection}"


class Places:
    """Those of one split."""

    def __init__(
        self,
        captures: Callable[[Namespace], bool],
        split: int = 0,
        sharded: Callable[[Namespace], bool] = lambda _: False,
        rules: Callable[[Namespace], DocumentRules | None] = lambda _: None,
    ) -> None:
        """``captures`` decides which collections' events become rows; ``split`` numbers the split of the batch that
        this is, from 0. ``sharded``: whether a collection is sharded by more than `_id`, so that its keys have more.
        ``rules``: what is left out, renamed or hashed in a collection."""
        self.split = split
        self.number = self._first = split << SPLIT_BITS
        """That of the next event of a captured collection."""
        self._captures = captures
        self._sharded = sharded
        self._rules = rules
        self._found: dict[bytes | None, Place] = {}

    def at(self, raw: bytes | None) -> Place:
        """What is known of a place."""
        return self._found.get(raw) or self._met(raw)

    @property
    def events(self) -> int:
        """How many of captured collections came."""
        return self.number - self._first

    @property
    def size(self) -> int:
        """The bytes of all that left in rows."""
        return sum(place.size for place in self._found.values())

    def counts(self) -> dict[str, int]:
        """How many events came, by namespace."""
        return self._by_name((place, sum(place.operations.values())) for place in self._found.values())

    def sizes(self) -> dict[str, int]:
        """The bytes of what left in rows, by namespace."""
        return self._by_name((place, place.size) for place in self._found.values())

    def operations(self) -> dict[str, dict[str, int]]:
        """Events by namespace and ``op``; drops and renames, which have none, are left out."""
        found: dict[str, Counter[str]] = {}
        for place in self._found.values():
            for operation, count in place.operations.items():
                op, _ = OPERATIONS.get(operation, (None, ""))  # of one that is damaged nothing is known
                if op is not None:
                    found.setdefault(f"{place.database}.{place.collection}", Counter())[op] += count
        return {name: dict(sorted(counts.items())) for name, counts in sorted(found.items())}

    @staticmethod
    def _by_name(counts: Iterator[tuple[Place, int]]) -> dict[str, int]:
        names: Counter[str] = Counter()
        for place, count in counts:
            if place.name is not None and count:
                names[place.name] += count
        return dict(sorted(names.items()))

    def _met(self, raw: bytes | None) -> Place:
        fields = {} if raw is None else fields_of(raw)
        database = string_of(fields[b"db"]) if b"db" in fields else None
        collection = string_of(fields[b"coll"]) if b"coll" in fields else None
        namespace = Namespace(database, collection) if database and collection else None
        captured = namespace is not None and self._captures(namespace)
        sharded = captured and namespace is not None and self._sharded(namespace)
        rules = self._rules(namespace) if captured and namespace is not None else None
        place = self._found[raw] = Place(database, collection, captured, sharded, rules)
        return place

"""Rules of a collection as a tree of field names, by which a document is walked once.

Pure: standard library only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streaming.fields.rules import FieldRule, Kind


@dataclass(frozen=True, slots=True)
class Node:
    """What becomes of one field, and of the fields in it (``children``, by their names in MongoDB). ``place``: which
    of the renames it is. ``renames``: whether a child is renamed. ``deep``: the same node where renames do not reach,
    which is in an array of an array."""

    children: Mapping[bytes, Node] = field(default_factory=dict)
    excluded: bool = False
    hashed: bool = False
    renamed: bytes | None = None
    place: int = 0
    renames: bool = False
    deep: Node | None = None


def tree_of(rules: Iterable[FieldRule]) -> Node:
    """The node of a whole document."""
    found = list(enumerate(rules))
    plain = [(place, rule) for place, rule in found if rule.kind is not Kind.RENAME]
    return _node(found, plain, 0)


def _node(
    rules: list[tuple[int, FieldRule]], plain: list[tuple[int, FieldRule]], depth: int, *, deep: bool = False
) -> Node:
    here = [(place, rule) for place, rule in rules if len(rule.path) == depth]
    names = dict.fromkeys(rule.path[depth] for _, rule in rules if len(rule.path) > depth)
    children = {
        name.encode(): _node(_below(rules, name, depth), _below(plain, name, depth), depth + 1, deep=deep)
        for name in names
    }
    kinds = {rule.kind for _, rule in here}
    renamed, place = next(
        ((rule.renamed.encode(), place) for place, rule in here if rule.kind is Kind.RENAME), (None, 0)
    )
    return Node(
        children=children,
        excluded=Kind.EXCLUDE in kinds,
        hashed=Kind.HASH in kinds,
        renamed=renamed,
        place=place,
        renames=any(child.renamed is not None for child in children.values()),
        deep=None if deep else _node(plain, plain, depth, deep=True),
    )


def _below(rules: list[tuple[int, FieldRule]], name: str, depth: int) -> list[tuple[int, FieldRule]]:
    return [(place, rule) for place, rule in rules if len(rule.path) > depth and rule.path[depth] == name]

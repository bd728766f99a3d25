"""What the server can do of the rules, so that what is left out never leaves it: projections, and stages of a change
stream's pipeline. Hashes and renames are no matter of the server's.

An exclusion of a dotted path reaches into arrays, arrays of arrays included, exactly as ours does
(`streaming.fields.document_rules`), which is carried out on whatever arrives in any case. Left to it alone are names
that begin with ``$``, which no projection may have, and of an update what lies below a dotted key.

In a pipeline the rules of several collections stand side by side, one group for each set of paths. Events that a
group is not about keep what they have in ``_spared`` while the fields are dropped, and get it back. Each group costs
every event some microseconds, so of many (``GROUPS_MAX``) only the first are the server's (`left_to_us` tells of the
others).

Pure: standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from streaming.fields.rules import CollectionRules, FieldRule, FieldRules, Kind
from streaming.scope.scope import status_collection

GROUPS_MAX = 16
_DOCUMENTS = ("fullDocument", "fullDocumentBeforeChange")
_UPDATE = "updateDescription"
_SPARED = "_spared"


def projection(rules: CollectionRules) -> dict[str, int] | None:
    """What to give to ``find``: the fields that are left out; None where the server can leave none out."""
    paths = _paths(rules.rules)
    return dict.fromkeys(paths, 0) if paths else None


def stages(rules: FieldRules) -> tuple[dict[str, Any], ...]:
    """What to put behind ``$changeStream``: from events of collections that rules are about, the fields are dropped
    that are left out."""
    groups = list(_groups(rules).items())[:GROUPS_MAX]
    found = [_group(_applies("|".join(patterns), rules), paths) for paths, patterns in groups]
    return tuple(stage for group in found for stage in group)


def left_to_us(rules: FieldRules) -> tuple[FieldRule, ...]:
    """The rules about fields to leave out that no change stream leaves out at the server."""
    able = dict(list(_groups(rules).items())[:GROUPS_MAX])
    patterns = {pattern for group in able.values() for pattern in group}

    def is_ours(rule: FieldRule) -> bool:
        return rule.pattern not in patterns or any(name.startswith("$") for name in rule.path)

    return tuple(rule for rule in rules.rules if rule.kind is Kind.EXCLUDE and is_ours(rule))


def _groups(rules: FieldRules) -> dict[tuple[str, ...], list[str]]:
    """The patterns of collections by the paths that are left out there."""
    by_pattern: dict[str, list[FieldRule]] = {}
    for rule in rules.rules:
        if rule.kind is Kind.EXCLUDE and rule.where.isascii():  # of other letters PCRE knows other capitals
            by_pattern.setdefault(rule.pattern, []).append(rule)
    groups: dict[tuple[str, ...], list[str]] = {}
    for pattern, group in by_pattern.items():
        if paths := _paths(group):
            groups.setdefault(tuple(paths), []).append(pattern)
    return groups


def _paths(rules: Iterable[FieldRule]) -> list[str]:
    """The paths to leave out, dotted. One below another is not named: two paths of which one begins with the other
    collide."""
    paths = {rule.path for rule in rules if rule.kind is Kind.EXCLUDE}
    able = {path for path in paths if not any(name.startswith("$") for name in path)}
    return sorted(".".join(p) for p in able if not any(p[:n] in able for n in range(1, len(p))))


def _applies(pattern: str, rules: FieldRules) -> dict[str, Any]:
    name = {"$concat": ["$ns.db", ".", "$ns.coll"]}
    found: dict[str, Any] = {
        "$regexMatch": {"input": {"$ifNull": [name, ""]}, "regex": rf"\A(?:{pattern})\z", "options": "is"}
    }
    if rules.signals is None:
        return found
    spared = [{"$literal": str(one)} for one in (rules.signals, status_collection(rules.signals))]
    return {"$and": [found, {"$not": [{"$in": [name, spared]}]}]}


def _group(applies: dict[str, Any], paths: tuple[str, ...]) -> list[dict[str, Any]]:
    kept = {name: f"${name}" for name in (*_DOCUMENTS, _UPDATE)}
    dropped = [f"{name}.{path}" for name in (*_DOCUMENTS, f"{_UPDATE}.updatedFields") for path in paths]
    return [
        {"$set": {_SPARED: {"$cond": [applies, "$$REMOVE", kept]}}},
        {"$unset": dropped},
        {"$set": {_UPDATE: _update(paths)}},
        {"$replaceWith": {"$mergeObjects": ["$$ROOT", {"$ifNull": [f"${_SPARED}", {}]}]}},
        {"$unset": _SPARED},
    ]


def _update(paths: tuple[str, ...]) -> dict[str, Any]:
    """What an update says of itself, without keys at or below one of the paths; as it is where it is no document."""
    below = r"(?:\.\d+)*\."
    regex = "|".join(below.join(map(re.escape, path.split("."))) for path in paths)
    regex = rf"\A(?:{regex})(?:\.|\z)"

    def without(items: object, name: str) -> dict[str, Any]:
        named = {"$regexMatch": {"input": name, "regex": regex}}
        return {"$filter": {"input": items, "cond": {"$not": [named]}}}

    def list_without(items: str, name: str) -> dict[str, Any]:
        return {"$cond": [{"$isArray": [items]}, without(items, name), "$$REMOVE"]}

    updated, removed, truncated = (
        f"${_UPDATE}.{name}" for name in ("updatedFields", "removedFields", "truncatedArrays")
    )
    rest = {
        "updatedFields": {"$arrayToObject": without({"$objectToArray": updated}, "$$this.k")},
        "removedFields": list_without(removed, "$$this"),
        "truncatedArrays": list_without(truncated, "$$this.field"),
    }
    whole = {"$eq": [{"$type": f"${_UPDATE}"}, "object"]}
    return {"$cond": [whole, {"$mergeObjects": [f"${_UPDATE}", rest]}, f"${_UPDATE}"]}

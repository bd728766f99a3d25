"""The rules about fields, from the options: which fields of which collections are left out, renamed, or hashed.

| option | an entry |
|---|---|
| field.exclude.list | ``db.coll.path.to.field`` |
| field.renames | ``db.coll.path.to.field:new`` |
| engine.field.hash.list | ``db.coll.path.to.field`` |
| engine.field.hash.salt | the key of the hashes |

Entries are separated by commas, and may have spaces around them. ``*`` in the database and the collection stands for
any characters, a dot included; both are matched whole, and regardless of case, as Debezium does. The path names fields
as they are called in MongoDB, case and all.

What cannot be carried out is refused, and so is what would be taken for something else than was meant:

- `_id`, or a field in it: rows are found by it. The same holds for fields of a shard key, once that is known (`check`).
- ``*`` in a path, and other signs of regular expressions in a name: a field that was to be left out would be kept.
- A rule below a field that is hashed, which is one value. Two new names for one field.

Where a field is both left out and something else, it is left out. The signal collection has no rules.

Pure: standard library only.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any

from streaming.namespaces import Namespace
from streaming.scope.scope import status_collection

EXCLUDE, RENAMES = "field.exclude.list", "field.renames"
HASH, SALT = "engine.field.hash.list", "engine.field.hash.salt"
OPTIONS = (EXCLUDE, RENAMES, HASH, SALT)
SALT_LENGTH_MIN = 16

_EXPRESSION = re.compile(r"[][(){}|+?^$\\]")
_SIGNALS = "signal.data.collection"
_ID = "_id"


class FieldRuleError(ValueError):
    """An entry that cannot be. ``option`` and ``entry`` are where it stands (a salt is never shown), ``why`` is a
    sentence for people."""

    def __init__(self, option: str, entry: str | None, why: str) -> None:
        super().__init__(f"{option}{'' if entry is None else f'={entry!r}'}: {why}")
        self.option, self.entry, self.why = option, entry, why


class Kind(StrEnum):
    """What becomes of a field."""

    EXCLUDE = "exclude"
    RENAME = "rename"
    HASH = "hash"


_OPTION_OF = {Kind.EXCLUDE: EXCLUDE, Kind.RENAME: RENAMES, Kind.HASH: HASH}


@dataclass(frozen=True, slots=True)
class FieldRule:
    """One entry. ``where`` is its ``db.coll``, as it was written; ``renamed`` the new name of a field to rename."""

    kind: Kind
    where: str
    path: tuple[str, ...]
    renamed: str = ""

    def matches(self, namespace: Namespace) -> bool:
        """Whether the rule is about this collection."""
        return re.fullmatch(self.pattern, str(namespace), re.IGNORECASE | re.DOTALL) is not None

    @property
    def pattern(self) -> str:
        """``where`` as a regular expression that Python and the server read alike."""
        return re.escape(self.where).replace(r"\*", ".*")

    @property
    def option(self) -> str:
        return _OPTION_OF[self.kind]

    @property
    def dotted(self) -> str:
        return ".".join(self.path)

    def __str__(self) -> str:
        return f"{self.where}.{self.dotted}{f':{self.renamed}' if self.kind is Kind.RENAME else ''}"


@dataclass(frozen=True, slots=True)
class CollectionRules:
    """The rules that are about one collection: at least one, in the order of the options. ``salt`` is not shown."""

    namespace: Namespace
    rules: tuple[FieldRule, ...]
    salt: bytes = field(default=b"", repr=False)

    def check(self, shard_key: Iterable[str]) -> None:
        """Raises FieldRuleError where a rule is about a field of the shard key, a part of one or what it is part of."""
        for name in shard_key:
            key = tuple(name.split("."))
            for rule in self.rules:
                length = min(len(key), len(rule.path))
                if key[:length] == rule.path[:length]:
                    why = (
                        f"{self.namespace} is sharded by {name}, by which its rows are found: a field of the shard key,"
                        " or one that it is part of, cannot be left out, renamed or hashed"
                    )
                    raise FieldRuleError(rule.option, str(rule), why)

    def covers(self, path: tuple[str, ...]) -> bool:
        """Whether a field at this path, or what it is part of, is left out or hashed: its value is not to be shown."""
        hidden = (rule.path for rule in self.rules if rule.kind is not Kind.RENAME)
        return any(path[: len(rule)] == rule for rule in hidden)


@dataclass(frozen=True, slots=True)
class FieldRules:
    """All rules. ``signals``: the signal collection, which has none, nor has the status collection beside it.
    ``shape`` tells the shape of rows (`streaming.fields.shape`), where it is not that of documents: another one is as
    good as other rules."""

    rules: tuple[FieldRule, ...] = ()
    salt: bytes = field(default=b"", repr=False)
    signals: Namespace | None = None
    shape: str = ""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> FieldRules:
        """From options by their names (``OPTIONS``); ignores others. Raises FieldRuleError."""
        salt = options.get(SALT, "")
        rules = tuple(parsed(options))
        hashing = any(rule.kind is Kind.HASH for rule in rules)
        if hashing and len(salt) < SALT_LENGTH_MIN:
            why = f"must be a secret of at least {SALT_LENGTH_MIN} characters, since {HASH} is set: without one, values"
            raise FieldRuleError(SALT, None, f"{why} can be guessed from their hashes")
        signals = options.get(_SIGNALS, "").strip()
        found = cls(rules, salt.encode() if hashing else b"", Namespace.parse(signals) if signals else None)
        for where in {rule.where for rule in rules}:
            _check_together([rule for rule in rules if rule.where == where])
        return found

    def of(self, namespace: Namespace) -> CollectionRules | None:
        """The rules about a collection; None where there are none. Raises FieldRuleError where rules of several entries
        meet there that cannot be together."""
        if not self.rules or self._spared(namespace):
            return None
        found = tuple(rule for rule in self.rules if rule.matches(namespace))
        if not found:
            return None
        _check_together(found)
        return CollectionRules(
            namespace, found, self.salt if any(r.kind is Kind.HASH for r in found) else b""
        )

    def to_text(self) -> str:
        """What a later start compares its own rules with (`differ`); empty where there are none. It does not tell the
        salt."""
        if not self.rules and not self.shape:
            return ""
        said = [(rule.kind, rule.where, rule.path, rule.renamed) for rule in self.rules]
        shape = {"shape": self.shape} if self.shape else {}
        return json.dumps({"rules": said, "salt": self._salt_digest, **shape})

    @property
    def _salt_digest(self) -> str:
        return hmac.digest(self.salt, b"", "sha256").hex()[:32]

    @property
    def digest(self) -> str:
        """Eight digits that tell these rules, but for the shape, from others."""
        return sha256(replace(self, shape="").to_text().encode()).hexdigest()[:8]

    @property
    def hashing_digest(self) -> str:
        """Eight digits that tell what is hashed, and how, from other rules of the kind."""
        return replace(self, rules=tuple(rule for rule in self.rules if rule.kind is Kind.HASH)).digest

    def differ(self, before: str, namespace: Namespace, *, shaped: bool = True) -> bool:
        """Whether these rules make something else of the collection's documents than those that ``before`` is the
        ``to_text`` of; of its rows, if they count as ``shaped``. Raises FieldRuleError as `of` does."""
        found: dict[str, Any] = json.loads(before) if before else {"rules": [], "salt": ""}
        then = [FieldRule(Kind(kind), where, tuple(path), new) for kind, where, path, new in found["rules"]]
        now = self.of(namespace)
        mine = () if now is None else now.rules
        theirs = () if self._spared(namespace) else tuple(rule for rule in then if rule.matches(namespace))
        salted = any(rule.kind is Kind.HASH for rule in mine)
        other_salt = salted and self._salt_digest != found["salt"]
        reshaped = shaped and not self._spared(namespace) and self.shape != found.get("shape", "")
        return _meaning(mine) != _meaning(theirs) or other_salt or reshaped

    def _spared(self, namespace: Namespace) -> bool:
        return self.signals is not None and namespace in (self.signals, status_collection(self.signals))


def _meaning(rules: Iterable[FieldRule]) -> list[tuple[str, tuple[str, ...], str]]:
    return sorted({(rule.kind.value, rule.path, rule.renamed) for rule in rules})


def parsed(options: Mapping[str, str]) -> Iterator[FieldRule]:
    """The rules of the three lists, each by itself. Raises FieldRuleError."""
    for kind, option in _OPTION_OF.items():
        for entry in options.get(option, "").split(","):
            if entry.strip():
                yield _rule(kind, option, entry.strip())


def _rule(kind: Kind, option: str, entry: str) -> FieldRule:
    text, renamed = entry, ""
    form = "database.collection.field"
    if kind is Kind.RENAME:
        form += ":new"
        text, _, renamed = entry.partition(":")
        if not renamed or ":" in renamed:
            raise FieldRuleError(option, entry, f"expected {form}")
        _check_new_name(option, entry, renamed)
    parts = text.split(".")
    if len(parts) < 3 or not all(part and part == part.strip() for part in parts):
        raise FieldRuleError(option, entry, f"expected {form}: three names or more, with a dot between them")
    database, collection, *path = parts
    for name in (database, collection):
        if found := _EXPRESSION.search(name):
            why = f"{name} has {found[0]}, and is no regular expression: in a database or a collection, * stands for"
            raise FieldRuleError(
                option, entry, f"{why} any characters (write it in place of {found[0]}, too)"
            )
    if any("*" in name for name in path):
        why = "* stands for any characters in the database and the collection only; name each field"
        raise FieldRuleError(option, entry, why)
    if path[0] == _ID:
        raise FieldRuleError(
            option, entry, f"{_ID}, by which rows are found, cannot be left out, renamed or hashed"
        )
    return FieldRule(kind, f"{database}.{collection}", tuple(path), renamed)


def _check_new_name(option: str, entry: str, renamed: str) -> None:
    if "." in renamed or renamed.startswith("$") or renamed != renamed.strip():
        why = f"{renamed!r} is one name, without dots, spaces around it or a $ in front: a field stays where it is"
        raise FieldRuleError(option, entry, why)
    if renamed == _ID:
        raise FieldRuleError(option, entry, f"no other field can become {_ID}, by which rows are found")


def _check_together(rules: Iterable[FieldRule]) -> None:
    """Raises FieldRuleError where rules about one collection cannot be together."""
    found = list(rules)
    new: dict[tuple[str, ...], FieldRule] = {}
    for rule in found:
        if rule.kind is Kind.RENAME:
            other = new.setdefault(rule.path, rule)
            if other.renamed != rule.renamed:
                raise FieldRuleError(RENAMES, str(rule), f"{other} gives this field another new name")
        for hashed in found:
            if hashed.kind is Kind.HASH and rule.path[: len(hashed.path)] == hashed.path != rule.path:
                raise FieldRuleError(
                    rule.option, str(rule), f"{HASH}={hashed} hashes what this field is part of"
                )

"""Rules carried out on raw BSON, in the process that reads: exact, whatever the server has done of it before.

- What is left out goes with all that is in it, wherever the path leads through documents and arrays, arrays of arrays
  included. So does hashing. A rename reaches documents in an array, but none in an array of an array, as in Debezium.
- A renamed field stands behind the others of its document, the first rename first, as in Debezium.
- Rules name fields as they are called in MongoDB, so they are carried out all at once.
- A hash is a string: HMAC-SHA-256 under the salt, in hexadecimal digits. Of a string its text is hashed, of an ObjectId
  its hexadecimal digits, of a whole number its decimal digits (whatever its type), so that others can find the same
  hash; of all else its BSON type and bytes. Arrays are hashed item by item. Null stays null.
- Two fields that meet under one name are an error that names both; nothing is chosen.

Bytes in which no field is called as the last name of any rule are handed back as they came: what the server has left
out costs one search for each rule.
"""

from __future__ import annotations

import hmac
from dataclasses import replace
from struct import Struct as Packed

from streaming.bson.elements import (
    ARRAY,
    DOCUMENT,
    DOUBLE,
    INT32,
    INT64,
    NULL,
    OBJECT_ID,
    STRING,
    UNDEFINED,
    documents_of,
    elements,
)
from streaming.fields.rules import RENAMES, CollectionRules, FieldRuleError, FieldRules, Kind
from streaming.fields.tree import Node, tree_of
from streaming.keys.shard_keys import ShardKey
from streaming.mongo.errors import ConfigurationError
from streaming.namespaces import Namespace

_LENGTH = Packed("<i")
_DOUBLE = Packed("<d")
_STRING_TAG = bytes((STRING,))
_STAYS = (NULL, UNDEFINED)
_INT64_END = 2.0**63

Renamed = tuple[int, bytes, bytes, bytes]
"""The place of the rename, the old and the new name, and the element as it is to stand."""


def document_rules(rules: FieldRules, namespace: Namespace, shard_key: ShardKey = ()) -> DocumentRules | None:
    """Those of all ``rules`` that are about the collection ``namespace``, which is sharded by ``shard_key``; None where
    none are. Raises ConfigurationError for rules that cannot be there."""
    try:
        found = rules.of(namespace)
        if found is None:
            return None
        found.check(shard_key)
    except FieldRuleError as error:
        raise ConfigurationError(str(error)) from error
    return DocumentRules(found)


class DocumentRules:
    """The rules of one collection, ready to be carried out. It can be pickled."""

    def __init__(self, rules: CollectionRules) -> None:
        self.rules = rules
        self.tree = tree_of(rules.rules)
        self._needles = tuple({rule.path[-1].encode() + b"\0" for rule in rules.rules})

    @property
    def renames(self) -> bool:
        """Whether fields get other names, so that two may meet."""
        return any(rule.kind is Kind.RENAME for rule in self.rules.rules)

    def without_renames(self) -> DocumentRules | None:
        """What is left out and hashed alone; None where there is nothing of the kind."""
        rest = tuple(rule for rule in self.rules.rules if rule.kind is not Kind.RENAME)
        return DocumentRules(replace(self.rules, rules=rest)) if rest else None

    @property
    def hashes(self) -> bool:
        """Whether fields are hashed."""
        return any(rule.kind is Kind.HASH for rule in self.rules.rules)

    def without_hashes(self) -> DocumentRules | None:
        """What is left out and renamed alone, for documents that are hashed already; None where there is nothing of the
        kind."""
        rest = tuple(rule for rule in self.rules.rules if rule.kind is not Kind.HASH)
        return DocumentRules(replace(self.rules, rules=rest)) if rest else None

    def concerns(self, raw: bytes) -> bool:
        """Whether a field anywhere in these bytes may be called as a rule wants it."""
        return any(needle in raw for needle in self._needles)

    def document(self, raw: bytes) -> bytes:
        """A document under the rules. Raises ConfigurationError where two fields meet, MalformedBson for bytes that
        are no document."""
        return self._document(raw, 0, self.tree, "") if self.concerns(raw) else raw

    def documents(self, raw: bytes) -> bytes:
        """Documents that lie one behind the other. Raises as `document` does."""
        if not self.concerns(raw):
            return raw
        return b"".join(map(self.document, documents_of(raw)))

    def value(self, tag: int, payload: bytes, node: Node, path: str) -> tuple[int, bytes]:
        """BSON type and bytes that become of a field's value of type ``tag`` and with the bytes ``payload``. ``node``
        is about the field, and ``path`` is where it is, for messages."""
        return self._value(tag, payload, 0, len(payload), node, path)

    def meet(self, old: bytes, new: bytes, path: str) -> ConfigurationError:
        """The error of a field ``old`` that becomes ``new`` where there is one already; ``path`` is what they are part
        of."""
        at = f" in {path}" if path else ""
        names = old.decode(errors="replace"), new.decode(errors="replace")
        return ConfigurationError(
            f"{RENAMES}: in a document of {self.rules.namespace} the field {names[0]!r}{at} becomes {names[1]!r}, and"
            f" there is a field {names[1]!r} beside it already. What to do: choose another new name, or leave one of"
            " the two out (field.exclude.list)"
        )

    def _document(self, raw: bytes, at: int, node: Node, path: str) -> bytes:
        parts: list[bytes] = []
        names: list[bytes] = []
        moved: list[Renamed] = []
        begun, children = at + 4, node.children
        end = begun
        for tag, name, start, end in elements(raw, at):
            child = children.get(name)
            if child is None:
                names.append(name)
                continue
            parts.append(raw[begun : start - len(name) - 2])
            begun = end
            if child.excluded:
                continue
            within = f"{path}.{name.decode(errors='replace')}" if path else name.decode(errors="replace")
            tag, payload = self._value(tag, raw, start, end, child, within)
            new = name if child.renamed is None else child.renamed
            element = b"%c%s\0%s" % (tag, new, payload)
            if child.renamed is None:
                names.append(name)
                parts.append(element)
            else:
                moved.append((child.place, name, new, element))
        parts.append(raw[begun:end])
        if moved:
            parts += self._placed(moved, names, path)
        body = b"".join(parts)
        return _LENGTH.pack(len(body) + 5) + body + b"\0"

    def _placed(self, moved: list[Renamed], names: list[bytes], path: str) -> list[bytes]:
        """The renamed elements in the order of their rules, if none of them meets one of ``names`` or another one."""
        moved.sort(key=lambda one: one[0])
        taken = dict.fromkeys(names, b"")
        for _, old, new, _ in moved:
            if taken.setdefault(new, old) != old:
                raise self.meet(old, new, path)
        return [element for _, _, _, element in moved]

    def _value(self, tag: int, raw: bytes, start: int, end: int, node: Node, path: str) -> tuple[int, bytes]:
        if tag == ARRAY and (node.children or node.hashed):
            return tag, self._array(raw, start, node, path)
        if node.hashed:
            return (tag, raw[start:end]) if tag in _STAYS else (STRING, self._hashed(tag, raw[start:end]))
        if tag == DOCUMENT and node.children:
            return tag, self._document(raw, start, node, path)
        return tag, raw[start:end]

    def _array(self, raw: bytes, at: int, node: Node, path: str) -> bytes:
        parts = []
        for tag, name, start, end in elements(raw, at):
            below = (node.deep or node) if tag == ARRAY else node
            tag, payload = self._value(tag, raw, start, end, below, path)
            parts.append(b"%c%s\0%s" % (tag, name, payload))
        body = b"".join(parts)
        return _LENGTH.pack(len(body) + 5) + body + b"\0"

    def _hashed(self, tag: int, payload: bytes) -> bytes:
        digits = hmac.digest(self.rules.salt, _message(tag, payload), "sha256").hex().encode()
        return _LENGTH.pack(len(digits) + 1) + digits + b"\0"


def _message(tag: int, payload: bytes) -> bytes:
    """What is hashed of a value."""
    if tag == STRING:
        return payload[4:-1]
    if tag == OBJECT_ID:
        return payload.hex().encode()
    if tag in (INT32, INT64):
        return b"%d" % int.from_bytes(payload, "little", signed=True)
    if tag == DOUBLE:
        number = float(_DOUBLE.unpack(payload)[0])
        if number.is_integer() and -_INT64_END <= number < _INT64_END:
            return b"%d" % int(number)
    return bytes((tag,)) + payload

"""Rules carried out on what an update says of itself: the BSON of ``updateDescription``.

Its keys are dotted paths, in which a number may be the place in an array or a field's name. A key at or below a field
that is left out goes, whichever it is; names on the way are renamed, not behind two numbers in a row (an array in an
array); and the rules reach into the values.

- Of a document that is hashed the parts have no value of their own, so keys below it go: the document has the new hash.
  An item of an array that is hashed stays, hashed.
- The removal of a field is told also where a field in it is left out. (Debezium hides it. What else was in the field
  would stay with whoever follows updates alone.)
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct as Packed

from streaming.bson.elements import ARRAY, DOCUMENT, STRING, elements
from streaming.bson.raw_fields import Element, document_of
from streaming.fields.document_rules import DocumentRules
from streaming.fields.tree import Node

_LENGTH = Packed("<i")
_FIELD = b"field"


class _Gone(Exception):
    """Nothing is told of this key."""


def update(rules: DocumentRules, description: bytes) -> bytes:
    """``description`` under the ``rules`` of its collection. Raises ConfigurationError where two fields meet under one
    name."""
    parts = []
    for tag, name, start, end in elements(description, 0):
        value = description[start:end]
        if name in (b"updatedFields", b"disambiguatedPaths") and tag == DOCUMENT:
            value = _keyed(rules, value, is_value=name == b"updatedFields")
        elif name == b"removedFields" and tag == ARRAY:
            value = _listed(_paths(rules, value))
        elif name == b"truncatedArrays" and tag == ARRAY:
            value = _listed(_truncated(rules, value))
        parts.append(Element(tag, name, value))
    return document_of(parts)


def _keyed(rules: DocumentRules, raw: bytes, *, is_value: bool) -> bytes:
    """A document whose keys are paths. ``is_value``: what stands under one is the field's value."""
    kept: list[Element] = []
    names: dict[bytes, bytes] = {}
    for tag, key, start, end in elements(raw, 0):
        try:
            path = _Path(rules.tree, key)
        except _Gone:
            continue
        payload = raw[start:end]
        if is_value:
            for node in path.ends(tag):
                tag, payload = rules.value(tag, payload, node, key.decode(errors="replace"))
        if names.setdefault(path.name, key) != key:
            raise rules.meet(key, path.name, "updateDescription")
        kept.append(Element(tag, path.name, payload))
    return document_of(kept)


def _paths(rules: DocumentRules, raw: bytes) -> Iterator[Element]:
    for _, _, start, end in elements(raw, 0):
        try:
            name = _Path(rules.tree, raw[start + 4 : end - 1]).name
        except _Gone:
            continue
        yield Element(STRING, b"", _text(name))


def _truncated(rules: DocumentRules, raw: bytes) -> Iterator[Element]:
    for tag, _, start, _ in elements(raw, 0):
        fields = [Element(t, name, raw[begin:end]) for t, name, begin, end in elements(raw, start)]
        try:
            told = [
                field._replace(payload=_text(_Path(rules.tree, field.payload[4:-1]).name))
                if field.name == _FIELD
                else field
                for field in fields
            ]
        except _Gone:
            continue
        yield Element(tag, b"", document_of(told))


def _listed(items: Iterator[Element]) -> bytes:
    return document_of(item._replace(name=b"%d" % place) for place, item in enumerate(items))


def _text(value: bytes) -> bytes:
    return _LENGTH.pack(len(value) + 1) + value + b"\0"


class _Path:
    """A dotted key under the rules: its new ``name``, and which nodes its value is about. Raises _Gone."""

    def __init__(self, tree: Node, key: bytes) -> None:
        names = key.split(b".")
        self._nodes = [tree]
        self._in_array = False
        hashed = False
        told = []
        for place, name in enumerate(names):
            number = place > 0 and name.isdigit()
            found = [node.children[name] for node in self._nodes if name in node.children]
            if any(node.excluded for node in found) or (hashed and not number):
                raise _Gone
            renamed = next((node.renamed for node in found if node.renamed is not None), None)
            told.append(name if renamed is None else renamed)
            hashed = hashed or any(node.hashed for node in found)
            if number:
                found += [(node.deep or node) if self._in_array else node for node in self._nodes]
            self._in_array = number
            self._nodes = found
        self.name = b".".join(told)

    def ends(self, tag: int) -> list[Node]:
        """The nodes that a value of BSON type ``tag`` is about."""
        if tag == ARRAY and self._in_array:
            return [node.deep or node for node in self._nodes]
        return self._nodes

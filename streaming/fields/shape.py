"""Documents in another shape: nested documents as fields at the top level, arrays as documents.

That is what Debezium's ExtractNewDocumentState does with ``flatten.struct`` and ``array.encoding=document``:

    {a: {b: 1, c: {d: 2}}, n: [5, 6]}
    flatten              {a_b: 1, a_c_d: 2, n: [5, 6]}
    arrays as documents  {a: {b: 1, c: {d: 2}}, n: {_0: 5, _1: 6}}
    both                 {a_b: 1, a_c_d: 2, n__0: 5, n__1: 6}

- `_id` stays as it is: rows are found by it. A collection that is sharded by more has no other shape.
- A document that holds nothing stays under its name, so that nothing is lost. What lies in an array stays in it, unless
  arrays are documents.
- Two fields that come to one name are an error that names both; nothing is chosen.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from streaming.bson.elements import ARRAY, DOCUMENT, documents_of, elements
from streaming.bson.raw_fields import Element, document_of
from streaming.mongo.errors import ConfigurationError

_ID = b"_id"

Path = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """``flatten``: names of nested fields are joined by the ``delimiter``. ``arrays``: arrays become documents."""

    flatten: bool = False
    delimiter: str = "_"
    arrays: bool = False

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return self.flatten or self.arrays

    @property
    def text(self) -> str:
        """What a later start compares its own shape with; empty for one that changes nothing."""
        return f"{self.delimiter if self.flatten else None}/{self.arrays}" if self else ""

    def check(self, shard_key: Iterable[str]) -> None:
        """Raises ConfigurationError for a collection that is sharded by this key: rows are found by its fields, which
        may be anywhere in a document."""
        if self and (names := ", ".join(shard_key)):
            raise ConfigurationError(
                f"a collection that is sharded by {names} cannot have rows in another shape than that of its documents"
                " (flatten.struct, array.encoding): rows are found by these fields. What to do: leave the collection"
                " out, or give it an engine without them"
            )

    def documents(self, raw: bytes) -> bytes:
        """Documents that lie one behind the other. Raises as `document` does."""
        return b"".join(map(self.document, documents_of(raw)))

    def document(self, raw: bytes) -> bytes:
        """Raises ConfigurationError where two fields come to one name, MalformedBson for bytes that are no document."""
        if not self:
            return raw
        found: list[Element] = []
        paths: dict[bytes, Path] = {_ID: (_ID,)}
        for element in _fields(raw):
            if element.name == _ID:
                found.append(element)
            elif self.flatten:
                self._flatten(element.kind, (element.name,), element.payload, found, paths)
            else:
                found.append(_with_arrays(element))
        return document_of(found)

    def _flatten(
        self, tag: int, path: Path, payload: bytes, found: list[Element], paths: dict[bytes, Path]
    ) -> None:
        """Append what the field at this ``path`` comes to, noting by which path each name came about."""
        nests = tag == DOCUMENT or (tag == ARRAY and self.arrays)
        within = _inside(tag, payload) if nests else []
        for kind, name, value in within:
            self._flatten(kind, (*path, name), value, found, paths)
        if within:
            return
        joined = self.delimiter.encode().join(path)
        if paths.setdefault(joined, path) != path:  # one name twice in one document is MongoDB's, and stays
            raise self._meet(joined, paths[joined], path)
        if tag == ARRAY and self.arrays:
            tag = DOCUMENT
        found.append(Element(tag, joined, payload))

    def _meet(self, name: bytes, one: Path, other: Path) -> ConfigurationError:
        shown = [b".".join(path).decode(errors="replace") for path in (one, other)]
        return ConfigurationError(
            f"flatten.struct: the fields {shown[0]!r} and {shown[1]!r} of a document both come to"
            f" {name.decode(errors='replace')!r}. What to do: choose another flatten.struct.delimiter, or leave one of"
            " the two out (field.exclude.list)"
        )


NO_SHAPE = Shape()
"""That of documents as they are."""


def _with_arrays(element: Element) -> Element:
    """The same field, with documents in the place of arrays however deep."""
    tag, name, payload = element
    if tag not in (DOCUMENT, ARRAY):
        return element
    return Element(DOCUMENT, name, document_of(map(_with_arrays, _inside(tag, payload))))


def _inside(tag: int, payload: bytes) -> list[Element]:
    """The fields of a document, or of an array as a document: by their places."""
    fields = _fields(payload)
    if tag == DOCUMENT:
        return fields
    return [element._replace(name=b"_%d" % at) for at, element in enumerate(fields)]


def _fields(raw: bytes) -> list[Element]:
    return [Element(tag, name, raw[start:end]) for tag, name, start, end in elements(raw, 0)]

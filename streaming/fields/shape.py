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
from struct import Struct as Packed

from streaming.bson.elements import ARRAY, DOCUMENT, documents_of, elements
from streaming.mongo.errors import ConfigurationError

_LENGTH = Packed("<i")
_ID = b"_id"

Field = tuple[int, bytes, bytes]
"""BSON type, name, and the value's bytes."""
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
        found: list[Field] = []
        paths: dict[bytes, Path] = {_ID: (_ID,)}
        for tag, name, start, end in elements(raw, 0):
            payload = raw[start:end]
            if name == _ID:
                found.append((tag, name, payload))
            elif self.flatten:
                self._flatten(tag, (name,), payload, found, paths)
            else:
                found.append(self._with_arrays(tag, name, payload))
        return _document(found)

    def _flatten(
        self, tag: int, path: Path, payload: bytes, found: list[Field], paths: dict[bytes, Path]
    ) -> None:
        """Append what the field at this ``path`` comes to, noting by which path each name came about."""
        within = self._within(tag, payload)
        for kind, name, value in within:
            self._flatten(kind, (*path, name), value, found, paths)
        if within:
            return
        joined = self.delimiter.encode().join(path)
        if paths.setdefault(joined, path) != path:  # one name twice in one document is MongoDB's, and stays
            raise self._meet(joined, paths[joined], path)
        if tag == ARRAY and self.arrays:
            tag = DOCUMENT
        found.append((tag, joined, payload))

    def _with_arrays(self, tag: int, name: bytes, payload: bytes) -> Field:
        """The same field, with documents in the place of arrays however deep."""
        if tag not in (DOCUMENT, ARRAY):
            return tag, name, payload
        within = [(kind, below, payload[start:end]) for kind, below, start, end in elements(payload, 0)]
        if tag == ARRAY:
            within = _numbered(within)
        return DOCUMENT, name, _document(self._with_arrays(*one) for one in within)

    def _within(self, tag: int, payload: bytes) -> list[Field]:
        """The fields that take the place of one of this type; none where it stays."""
        if tag == DOCUMENT or (tag == ARRAY and self.arrays):
            within = [(kind, name, payload[start:end]) for kind, name, start, end in elements(payload, 0)]
            return within if tag == DOCUMENT else _numbered(within)
        return []

    def _meet(self, name: bytes, one: Path, other: Path) -> ConfigurationError:
        shown = [b".".join(path).decode(errors="replace") for path in (one, other)]
        return ConfigurationError(
            f"flatten.struct: the fields {shown[0]!r} and {shown[1]!r} of a document both come to"
            f" {name.decode(errors='replace')!r}. What to do: choose another flatten.struct.delimiter, or leave one of"
            " the two out (field.exclude.list)"
        )


NO_SHAPE = Shape()
"""That of documents as they are."""


def _numbered(items: Iterable[Field]) -> list[Field]:
    return [(tag, b"_%d" % at, value) for at, (tag, _, value) in enumerate(items)]


def _document(fields: Iterable[Field]) -> bytes:
    body = b"".join([b"%c%s\0%s" % field for field in fields])
    return _LENGTH.pack(len(body) + 5) + body + b"\0"

"""A map of bytes to bytes as Java serialises it: the file of Kafka Connect's ``FileOffsetBackingStore``, which Debezium
Server and the embedded engine keep their offset in.

Only that is read: one ``java.util.HashMap`` whose keys and values are arrays of bytes (or null). No class is ever
looked up or made, so nothing in a file can do anything; whatever else is in it is refused. The grammar is that of the
*Java Object Serialization Specification*, chapter 6.

Pure: standard library only.
"""

from __future__ import annotations

import struct

_MAGIC = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS, _OBJECT, _ARRAY, _BLOCK, _END = (
    *(0x70, 0x71, 0x72, 0x73, 0x75),
    *(0x77, 0x78),
)
_STRING = 0x74
_FIRST_HANDLE = 0x7E0000
_MAP = "java.util.HashMap"
_BYTES = "[B"
_ENTRIES_MAX = 100_000


def is_java(data: bytes) -> bool:
    """Whether these bytes begin as a Java stream does."""
    return data.startswith(_MAGIC)


def parse_map(data: bytes) -> dict[bytes, bytes | None]:
    """The entries of the map, in the order of the stream. Raises ValueError for anything else."""
    if not is_java(data):
        raise ValueError("these are no objects that Java has serialised")
    return _Reader(data).whole_map()


class _Reader:
    """Reads from front to back. ``_handles`` are what the stream may refer back to: descriptions of classes, by name,
    and arrays of bytes; anything else is None."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = len(_MAGIC)
        self._handles: list[str | bytes | None] = []

    def whole_map(self) -> dict[bytes, bytes | None]:
        if self._byte() != _OBJECT or self._class() != _MAP:
            raise ValueError(f"the file holds no {_MAP}")
        self._handles.append(None)
        self._take(8)  # its fields: load factor and threshold
        if self._byte() != _BLOCK or self._byte() != 8:
            raise ValueError("a map without its size")
        _, count = struct.unpack(">iI", self._take(8))
        if count > _ENTRIES_MAX:
            raise ValueError(f"a map of {count} entries")
        entries: dict[bytes, bytes | None] = {}
        for _ in range(count):
            key, value = self._bytes(), self._bytes()
            if key is not None:
                entries[key] = value
        if self._byte() != _END:
            raise ValueError("a map that does not end where it should")
        return entries

    def _bytes(self) -> bytes | None:
        kind = self._byte()
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            found = self._referred()
            if not isinstance(found, bytes):
                raise ValueError("a reference to something that is no array of bytes")
            return found
        if kind != _ARRAY or self._class() != _BYTES:
            raise ValueError("a key or a value that is no array of bytes")
        place = len(self._handles)
        self._handles.append(None)
        found = self._take(self._number(">I", 4))
        self._handles[place] = found
        return found

    def _class(self) -> str:
        """The name of the class that is described here, or further ahead in the stream."""
        kind = self._byte()
        if kind == _REFERENCE:
            found = self._referred()
            if not isinstance(found, str):
                raise ValueError("a reference to something that is no class")
            return found
        if kind != _CLASS:
            raise ValueError("a class was expected")
        name = self._text()
        self._take(8)  # its version
        self._handles.append(name)
        self._take(1)  # its flags
        for _ in range(self._number(">H", 2)):
            kind = self._byte()
            self._text()
            if kind in b"L[":  # it is of a class, whose name follows
                if self._byte() != _STRING:
                    raise ValueError("a field of a class without its name")
                self._text()
                self._handles.append(None)
        if self._byte() != _END:
            raise ValueError("a class with annotations")
        if (parent := self._byte()) != _NULL:
            raise ValueError(f"{name} extends another class (0x{parent:02x})")
        return name

    def _referred(self) -> str | bytes | None:
        place = self._number(">I", 4) - _FIRST_HANDLE
        if not 0 <= place < len(self._handles):
            raise ValueError("a reference to nothing")
        return self._handles[place]

    def _text(self) -> str:
        return self._take(self._number(">H", 2)).decode("utf-8", "replace")

    def _number(self, form: str, size: int) -> int:
        return int(struct.unpack(form, self._take(size))[0])

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) != size:
            raise ValueError("the file ends too early")
        self._at += size
        return found

"""How far a file has been read, and whether some file is the one that was meant.

An inode alone does not say: once a file is gone, the next one may get its number. So a position has the first bytes of
what was read as well. It also has how long the file was when it was last looked at: if the file vanishes, that tells
whether something in it was never read.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from typing import Any, BinaryIO

HEAD_BYTES = 256


@dataclass(frozen=True, slots=True)
class FilePosition:
    """Behind byte ``offset`` of the ``generation``-th file. ``inode`` 0: that one has been read to its end."""

    generation: int = 0
    inode: int = 0
    offset: int = 0
    head: bytes = b""
    size: int = 0

    @property
    def unread(self) -> bool:
        """Whether more was there than has been read."""
        return self.inode != 0 and self.offset < self.size

    def behind(self, line: bytes, length: int) -> FilePosition:
        """After a further line of ``length`` bytes, which begins with ``line``."""
        head = self.head
        if len(head) < HEAD_BYTES:  # then all that was read so far is in it
            head = (head + line)[:HEAD_BYTES]
        return replace(self, offset=self.offset + length, head=head)

    def seen(self, file: BinaryIO) -> FilePosition:
        """The same place, the file being as long as it is now."""
        return replace(self, size=os.fstat(file.fileno()).st_size)

    def finished(self) -> FilePosition:
        """After all of this file: what comes is another one's."""
        return FilePosition(self.generation)

    @classmethod
    def beginning(cls, file: BinaryIO, generation: int) -> FilePosition:
        """Of a file that has not been read yet."""
        status = os.fstat(file.fileno())
        return cls(generation, status.st_ino, size=status.st_size)

    def is_in(self, file: BinaryIO) -> bool:
        """Whether it is this file that was read so far."""
        status = os.fstat(file.fileno())
        if status.st_ino != self.inode or status.st_size < self.offset:
            return False
        file.seek(0)
        return file.read(len(self.head)) == self.head


@dataclass(frozen=True, slots=True)
class FileState:
    """What is kept: behind which line all is acknowledged, and the beginnings of files that were begun after that."""

    position: FilePosition = FilePosition()
    later: tuple[FilePosition, ...] = ()

    def to_json(self) -> str:
        """As it is kept."""
        fields = {"position": _fields(self.position), "later": [_fields(place) for place in self.later]}
        return json.dumps(fields) + "\n"

    @classmethod
    def from_json(cls, text: str) -> FileState:
        """As ``to_json`` wrote it."""
        fields = json.loads(text)
        return cls(_position(fields["position"]), tuple(map(_position, fields["later"])))


def _fields(place: FilePosition) -> dict[str, object]:
    return asdict(place) | {"head": place.head.hex()}


def _position(fields: dict[str, Any]) -> FilePosition:
    return FilePosition(**fields | {"head": bytes.fromhex(fields["head"])})

"""Deletion vectors written without the JVM, in the form in which `marked_rows` reads them.

Delta makes them by a Spark job, which takes a fifth of a second for one row. Whoever knows the numbers of the rows
needs none: the vectors of a commit are one file in the table's folder (Delta's protocol, "Deletion Vectors"), whose
parts the log names. Bitmaps have no runs: a container is a list of numbers, or all bits where that is shorter.

Until a commit names it, such a file is nobody's: where the commit fails it stays, as Delta's own does, and goes with
the other old files (`VACUUM`).
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from streaming.delta.marked_rows import ARRAY_MAX, IN_FOLDER, PLAIN, PORTABLE, Numbers, file_name, to_z85

if TYPE_CHECKING:
    from streaming.delta.table_folder import TableFolder

_VERSION = b"\x01"
_BITS = 1 << 16


@dataclass(frozen=True, slots=True)
class Vector:
    """Where a vector lies: the ``id`` of its file, and there at ``offset``; it marks so many ``rows``."""

    id: uuid.UUID
    offset: int
    size_bytes: int
    rows: int

    @property
    def described(self) -> dict[str, str | int]:
        """As the log describes it."""
        return {
            "storageType": IN_FOLDER,
            "pathOrInlineDv": to_z85(self.id.bytes),
            "offset": self.offset,
            "sizeInBytes": self.size_bytes,
            "cardinality": self.rows,
        }


def write_vectors(folder: TableFolder, vectors: Sequence[Numbers]) -> list[Vector]:
    """Write these, each the numbers of rows of a file, ascending, into one new file in a table's ``folder``. It is on
    the disk, or in the object store, then. None of them make no file."""
    if not vectors:
        return []
    made, data = uuid.uuid4(), [_VERSION]
    found: list[Vector] = []
    for rows in vectors:
        one = to_bytes(rows)
        found.append(Vector(made, sum(map(len, data)), len(one), len(rows)))
        data.append(struct.pack(f">I{len(one)}sI", len(one), one, zlib.crc32(one)))
    name = file_name(made)
    try:
        with folder.create(name) as sink:
            sink.write(b"".join(data))
        folder.seal(name)
    except BaseException:
        with suppress(OSError):
            folder.remove([name])
        raise
    return found


def to_bytes(rows: Numbers) -> bytes:
    """The vector of these rows, whose numbers ascend."""
    uppers, begins = np.unique(rows >> 32, return_index=True)
    bitmaps = np.split(rows & 0xFFFF_FFFF, begins[1:])
    parts = [struct.pack("<IQ", PORTABLE, len(uppers))]
    for upper, bitmap in zip(uppers.tolist(), bitmaps, strict=False):
        parts += [struct.pack("<I", upper), _bitmap(bitmap)]
    return b"".join(parts)


def _bitmap(numbers: Numbers) -> bytes:
    uppers, begins = np.unique(numbers >> 16, return_index=True)
    parts = np.split((numbers & 0xFFFF).astype("<u2"), begins[1:])
    containers = [_container(part) for part in parts]
    headers = np.column_stack([uppers, [len(part) - 1 for part in parts]]).astype("<u2").tobytes()
    first = 8 + len(headers) + 4 * len(parts)
    offsets = np.cumsum([first, *map(len, containers[:-1])]).astype("<u4").tobytes()
    return b"".join([struct.pack("<II", PLAIN, len(parts)), headers, offsets, *containers])


def _container(numbers: np.ndarray[tuple[int], np.dtype[np.uint16]]) -> bytes:
    if len(numbers) <= ARRAY_MAX:
        return numbers.tobytes()
    bits = np.zeros(_BITS, np.uint8)
    bits[numbers] = 1
    return np.packbits(bits, bitorder="little").tobytes()

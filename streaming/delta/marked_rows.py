"""Deletion vectors read without the JVM: which rows of a file are gone.

The log says where a vector lies: in the log itself, or in a file of the table's folder (Delta's protocol, "Deletion
Vectors"). It is a list of 32-bit Roaring bitmaps, each with the upper half of its numbers, in their portable format.

Invariant: as many rows are found as the log says there are; anything else is an error, never a guess.
"""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from streaming.delta.table_folder import TableFolder

Numbers = np.ndarray[Any, np.dtype[np.int64]]
"""Of rows in a file."""
_IN_LOG, IN_FOLDER = "i", "u"
PORTABLE = 1_681_511_377
PLAIN, _WITH_RUNS = 12_346, 12_347
ARRAY_MAX, _BITMAP_BYTES = 4_096, 8_192
_OFFSETS_FROM = 4
_UUID_CHARS = 20
# The log writes bytes as Z85; Python knows the same code under other letters.
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_LETTERS, _SIGNS = str.maketrans(_Z85, _B85), str.maketrans(_B85, _Z85)


def within_reach(vector: Mapping[str, Any]) -> bool:
    """Whether a vector, as the log describes it, lies in the log or in the table's folder."""
    return vector["storageType"] in (_IN_LOG, IN_FOLDER)


def marked_rows(folder: TableFolder, vector: Mapping[str, Any]) -> Numbers:
    """The numbers of the rows that a vector marks, ascending. ``vector``: as the log describes it; ``folder``: the
    table's. Raises ValueError for one that is not what the log says."""
    what, size = vector["pathOrInlineDv"], vector["sizeInBytes"]
    if vector["storageType"] == _IN_LOG:
        data = _from_z85(what)[:size]
    else:
        data = _in_file(folder, what, vector.get("offset") or 0, size)
    rows = rows_in(data)
    if len(rows) != vector["cardinality"]:
        raise ValueError(f"a deletion vector has {len(rows)} rows, and {vector['cardinality']} in the log")
    return rows


def _in_file(folder: TableFolder, what: str, offset: int, size: int) -> bytes:
    prefix, name = what[:-_UUID_CHARS], uuid.UUID(bytes=_from_z85(what[-_UUID_CHARS:]))
    path = "/".join([*([prefix] if prefix else []), file_name(name)])
    with folder.open(path) as source:
        source.seek(offset)
        found = source.read(size + 8)
    length, data, checksum = struct.unpack(f">I{size}sI", found)
    if length != size or checksum != zlib.crc32(data):
        raise ValueError(f"{path} has no deletion vector of {size} bytes at {offset}")
    return bytes(data)


def file_name(name: uuid.UUID) -> str:
    """Of a file of vectors with this id."""
    return f"deletion_vector_{name}.bin"


def to_z85(data: bytes) -> str:
    """As the log writes bytes."""
    return base64.b85encode(data).decode("ascii").translate(_SIGNS)


def _from_z85(text: str) -> bytes:
    return base64.b85decode(text.translate(_LETTERS))


def rows_in(data: bytes) -> Numbers:
    """The numbers in a vector, ascending. Raises ValueError for one in another format."""
    magic, count = struct.unpack_from("<IQ", data)
    if magic != PORTABLE:
        raise ValueError(f"a deletion vector of an unknown format: {magic}")
    parts, at = [np.empty(0, np.int64)], 12
    for _ in range(count):
        (upper,) = struct.unpack_from("<I", data, at)
        containers, at = _containers(data, at + 4)
        parts += [(upper << 32) + container for container in containers]
    return np.concatenate(parts)


def _containers(data: bytes, at: int) -> tuple[list[Numbers], int]:
    """The numbers of one bitmap that begins there, and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, at)
    at += 4
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.frombuffer(data, np.uint8, (count + 7) // 8, at)
        are_runs = np.unpackbits(flags, count=count, bitorder="little")
        at += len(flags)
        offsets = count >= _OFFSETS_FROM
    elif cookie == PLAIN:
        (count,) = struct.unpack_from("<I", data, at)
        are_runs, at, offsets = np.zeros(count, np.uint8), at + 4, True
    else:
        raise ValueError(f"a bitmap of an unknown format: {cookie}")
    headers = np.frombuffer(data, "<u2", 2 * count, at).astype(np.int64)
    at += (8 if offsets else 4) * count
    found = []
    for upper, less, runs in zip(headers[::2], headers[1::2], are_runs, strict=True):
        if runs:
            (number,) = struct.unpack_from("<H", data, at)
            values = np.concatenate([np.arange(a, a + b + 1) for a, b in _pairs(data, at + 2, number)])
            at += 2 + 4 * number
        elif less < ARRAY_MAX:
            values = np.frombuffer(data, "<u2", int(less) + 1, at)
            at += 2 * (int(less) + 1)
        else:
            bits = np.frombuffer(data, np.uint8, _BITMAP_BYTES, at)
            values = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            at += _BITMAP_BYTES
        found.append((int(upper) << 16) + values.astype(np.int64))
    return found, at


def _pairs(data: bytes, at: int, number: int) -> Iterator[tuple[int, int]]:
    values = np.frombuffer(data, "<u2", 2 * number, at).tolist()
    yield from zip(values[::2], values[1::2], strict=True)

"""What Java writes when it serialises a map of bytes to bytes, by the Java Object Serialization Specification."""

from __future__ import annotations

import struct
from collections.abc import Mapping

_FIRST = 0x7E0000
_LOAD_FACTOR = 0.75


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _array_of(data: bytes, described: int | None) -> bytes:
    """``described``: the handle of the class, where it was described before."""
    kind = (
        b"\x72" + _text("[B") + bytes.fromhex("acf317f8060854e0") + b"\x02\x00\x00\x78\x70"
        if described is None
        else b"\x71" + struct.pack(">I", described)
    )
    return b"\x75" + kind + struct.pack(">I", len(data)) + data


def java_map(entries: Mapping[bytes, bytes | None]) -> bytes:
    """A ``HashMap<byte[], byte[]>``, as ``FileOffsetBackingStore`` writes it."""
    stream = b"\xac\xed\x00\x05\x73\x72" + _text("java.util.HashMap") + bytes.fromhex("0507dac1c31660d1")
    stream += b"\x03\x00\x02" + b"F" + _text("loadFactor") + b"I" + _text("threshold") + b"\x78\x70"
    stream += struct.pack(">fi", _LOAD_FACTOR, 12) + b"\x77\x08" + struct.pack(">ii", 16, len(entries))
    described: int | None = None
    for pair in entries.items():
        for data in pair:
            if data is None:
                stream += b"\x70"
                continue
            stream += _array_of(data, described)
            described = _FIRST + 2  # behind the map's class and the map itself
    return stream + b"\x78"

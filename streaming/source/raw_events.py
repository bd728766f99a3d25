"""A change event as MongoDB sends it: raw BSON, cut into its outermost fields, nothing decoded.

Cutting costs about 2 microseconds an event, decoding it into a RawBSONDocument 9.5.
"""

from __future__ import annotations

import struct

import bson
from bson.errors import InvalidBSON

from streaming.namespaces import Namespace

Fields = dict[bytes, bytes]
"""The outermost fields that are not null: the name, and the value as it stands in the document."""

Event = tuple[bytes, int, int, Fields]
"""The server's word for the operation, the cluster time as an int, the size in bytes, and the fields."""

DOCUMENT_EVENTS = frozenset((b"insert", b"update", b"replace", b"delete"))

_INT32 = struct.Struct("<i").unpack_from
_INT64 = struct.Struct("<q").unpack
_FIXED = {0x01: 8, 0x06: 0, 0x07: 12, 0x08: 1, 0x09: 8, 0x0A: 0, 0x10: 4, 0x11: 8, 0x12: 8, 0x13: 16}
_NULL = 0x0A
_DOCUMENTS = (0x03, 0x04)
_STRINGS = (0x02, 0x0D, 0x0E)
_BINARY = 0x05


def parse_event(raw: bytes) -> Event:
    """Raises InvalidBSON for a document that is not a change event."""
    fields = fields_of(raw)
    try:
        time: int = _INT64(fields[b"clusterTime"])[0]
        return fields[b"operationType"][4:-1], time, len(raw), fields
    except (KeyError, struct.error) as error:
        raise InvalidBSON(f"a change event without {error}: fields {sorted(fields)}") from error


def fields_of(raw: bytes) -> Fields:
    """The outermost fields of a document that are not null."""
    fields: Fields = {}
    position, end = 4, len(raw) - 1
    while position < end:
        kind = raw[position]
        name_end = raw.index(0, position + 1)
        start = name_end + 1
        if kind in _DOCUMENTS:
            value_end = start + _INT32(raw, start)[0]
        elif kind in _STRINGS:
            value_end = start + 4 + _INT32(raw, start)[0]
        elif kind == _BINARY:
            value_end = start + 5 + _INT32(raw, start)[0]
        elif kind in _FIXED:
            value_end = start + _FIXED[kind]
        else:
            raise InvalidBSON(f"a change event with a field of BSON type 0x{kind:02x} at byte {position}")
        if kind != _NULL:
            fields[raw[position + 1 : name_end]] = raw[start:value_end]
        position = value_end
    return fields


def place_of(namespace: Namespace) -> bytes:
    """The field ``ns`` of events of a collection."""
    return bson.encode({"db": namespace.database, "coll": namespace.collection})


def string_of(value: bytes) -> str:
    return value[4:-1].decode()


def integer_of(value: bytes) -> int:
    """An int32, an int64, a date (milliseconds), or a timestamp (64 bits)."""
    return int.from_bytes(value, "little", signed=True)

"""``_key`` of many documents, from where their ``_id`` values lie in the raw bytes.

The keys are those of ``streaming.keys.keys``; ids of one common type are done together.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streaming.bson.elements import (
    INT32,
    INT64,
    OBJECT_ID,
    STRING,
    document_end,
    elements,
    value_end,
)
from streaming.decode.buffer import Buffer, Cells, Mask
from streaming.decode.loads import longs, strings
from streaming.keys.decoded import keys_of
from streaming.keys.keys import key_of_value, sharded_key
from streaming.keys.text import ORDERED

_OBJECT_ID_TAG = ord("i")
_OBJECT_ID_CHARACTERS = 17


class MissingId(ValueError):
    """A document without ``_id``: the source is no collection (a view?), and its rows have no identity."""


def keys_at(buffer: Buffer, ids: Cells) -> pa.StringArray:
    """The key of each id. Raises MissingId where there is none."""
    if not len(ids.tags):
        return pa.array([], pa.string())
    if not ids.tags.all():
        raise MissingId(
            f"document {int(np.argmin(ids.tags))} of {len(ids.tags)} has no _id; only a collection, whose "
            "documents all have one, can be kept in a table (is this a view?)"
        )
    tag = int(ids.tags[0])
    together = _TOGETHER.get(tag) if (ids.tags == tag).all() else None
    keys = together(buffer, ids) if together is not None else None
    return _one_by_one(buffer, ids) if keys is None else keys


def sharded_keys_at(buffer: Buffer, documents: Cells, shard_key: Sequence[str]) -> pa.StringArray:
    """The key of each of ``documents`` in ``buffer`` where the fields of ``shard_key`` belong to it too
    (`streaming.keys.keys.sharded_key`)."""
    raw = buffer.raw
    names = [name.encode() for name in shard_key]
    spans = ((at, document_end(raw, at)) for at in documents.at.tolist())
    return pa.array([sharded_key(raw[at:end], names) for at, end in spans], pa.string())


def key_at(raw: bytes, at: int, shard_key: Sequence[str] = ()) -> str:
    """The key of the document that starts at byte ``at`` of ``raw``. ``shard_key``: the fields that belong to it
    besides ``_id``, () for none (`streaming.keys.shard_keys`). Raises MissingId where it has no id, or, with a shard
    key, UnkeyableId."""
    if shard_key:
        return sharded_key(raw[at : document_end(raw, at)], [name.encode() for name in shard_key])
    if raw.startswith(b"_id\0", at + 5):  # the server puts it first
        return key_of_value(raw[at + 4], raw[at + 9 : value_end(raw[at + 4], raw, at + 9)])
    for tag, name, start, end in elements(raw, at):
        if name == b"_id":
            return key_of_value(tag, raw[start:end])
    raise MissingId("a document has no _id: the source is no collection (a view?)")


def strictly_ascending(keys: pa.StringArray) -> bool:
    """Whether each key is greater than the one before: then no key comes twice."""
    return not keys.null_count and bool(pc.all(pc.less(keys[:-1], keys[1:]), min_count=0).as_py())


def _one_by_one(buffer: Buffer, ids: Cells) -> pa.StringArray:
    raw = buffer.raw
    places = zip(ids.tags.tolist(), ids.at.tolist(), strict=True)
    return pa.array([key_of_value(tag, raw[at : value_end(tag, raw, at)]) for tag, at in places], pa.string())


def _object_ids(buffer: Buffer, ids: Cells) -> pa.StringArray:
    """12 bytes are 16 characters exactly, so one encoding serves all."""
    count = len(ids.at)
    encoded = b2a_base64(buffer.object_id[ids.at].tobytes(), newline=False).translate(ORDERED)
    text = np.empty((count, _OBJECT_ID_CHARACTERS), np.uint8)
    text[:, 0] = _OBJECT_ID_TAG
    text[:, 1:] = np.frombuffer(encoded, np.uint8).reshape(count, _OBJECT_ID_CHARACTERS - 1)
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(_OBJECT_ID_CHARACTERS)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))


Together = Callable[[Buffer, Cells], pa.StringArray | None]
"""The keys of ids of one BSON type; None where they have to be made one by one."""


def _loaded(load: Callable[[Buffer, Cells], tuple[pa.Array, Mask]]) -> Together:
    def keys(buffer: Buffer, ids: Cells) -> pa.StringArray | None:
        values, fits = load(buffer, ids)
        return pa.array(keys_of(values.to_pylist()), pa.string()) if fits.all() else None

    return keys


_TOGETHER: dict[int, Together] = {
    OBJECT_ID: _object_ids,
    STRING: _loaded(strings),
    INT32: _loaded(longs),
    INT64: _loaded(longs),
}

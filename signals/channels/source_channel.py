"""Signals by way of a MongoDB collection: written there, and read from the change stream.

A signal is a document ``{_id, type, data}``. It is written with majority write concern, so that once
``send`` returns the change stream will deliver it. Reading is not done here: the engine's stream carries
every insert into the signal collection, and ``decode`` turns such a document into the three plain values
that ``signals.parsing.signal`` takes.

BSON's own types in ``data`` (an ObjectId in a filter, a date) pass as Extended JSON, canonical, so nothing
is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from bson.json_util import CANONICAL_JSON_OPTIONS, dumps
from pymongo.errors import DuplicateKeyError
from pymongo.write_concern import WriteConcern

from signals.actions import Action, fields_of
from signals.errors import DuplicateSignal, MalformedSignal, shown
from signals.parsing.signal import parse_signal, signal_fields
from signals.parsing.values import SIGNAL_DEPTH_MAX

if TYPE_CHECKING:
    from pymongo import MongoClient

# Dates keep their milliseconds whatever the year, and UUIDs decode without a choice of representation.
_OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(
    document_class=dict, datetime_conversion=bson.codec_options.DatetimeConversion.DATETIME_MS
)
_ANY_TEXT = _OPTIONS.with_options(unicode_decode_error_handler="replace")


class RawSignal(NamedTuple):
    """A signal as it was written: ``data`` is Extended JSON text, or None where there is none."""

    id: str
    type: str
    data: str | None

    def parse(self) -> Action:
        """The action it asks for. Raises SignalError."""
        return parse_signal(self.id, self.type, self.data)


class SourceChannel:
    """Writes signals into ``collection`` (``database.collection``) of the deployment that ``client``
    reaches.
    """

    def __init__(self, client: MongoClient[Any], collection: str) -> None:
        database, dot, name = collection.partition(".")
        if not (database and dot and name):
            raise ValueError(f"a signal collection is database.collection, got {collection!r}")
        self._name = collection
        self._collection = client[database].get_collection(name, write_concern=WriteConcern("majority"))

    def send(self, action: Action) -> str:
        """Insert the signal and return its id; it has reached a majority when this returns.

        Raises DuplicateSignal where the id has been used, and the driver's errors (PyMongoError) as they are.
        """
        signal_id, kind, data = fields_of(action)
        try:
            self._collection.insert_one({"_id": signal_id, "type": kind, "data": data})
        except DuplicateKeyError as error:
            raise DuplicateSignal(
                f"a signal with the id {signal_id!r} is in {self._name} already; give this one another id"
            ) from error
        return signal_id


def decode(raw: bytes) -> RawSignal:
    """A signal document as BSON, as it came from the stream, in plain values.

    Its fields are taken by name or by position. Raises MalformedSignal.
    """
    document: dict[str, Any] = bson.decode(raw, codec_options=_OPTIONS)
    signal_id, kind, data = signal_fields(document)
    if not isinstance(kind, str):
        raise MalformedSignal(f"signal {plain_id(signal_id)!r}: its type must be a string, got {shown(kind)}")
    text = data if data is None or isinstance(data, str) else extended_json(data)
    return RawSignal(plain_id(signal_id), kind, text)


def id_of(raw: bytes) -> str:
    """The id that a document which is no signal would have had, "unknown" where it can't be read: its sender asks by
    this id what became of it."""
    try:
        document: dict[str, Any] = bson.decode(raw, codec_options=_ANY_TEXT)
    except (BSONError, ValueError):
        return "unknown"
    named = document.get("id")
    if isinstance(named, str) and named.strip():
        return named.strip()
    try:
        return plain_id(document.get("_id", "unknown"))
    except MalformedSignal:
        return "unknown"


def plain_id(value: object) -> str:
    """A signal's ``_id`` as text: a string as it is, an ObjectId by its digits, other types as Extended
    JSON.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (bson.ObjectId, int)) and not isinstance(value, bool):
        return str(value)
    return extended_json(value)


def extended_json(value: object) -> str:
    """The value as canonical Extended JSON text. Raises MalformedSignal where it is nested too deeply for that."""
    try:
        text: str = dumps(value, json_options=CANONICAL_JSON_OPTIONS, ensure_ascii=False)
    except RecursionError as error:
        raise MalformedSignal(
            f"it has a value that is nested too deeply: at most {SIGNAL_DEPTH_MAX} levels"
        ) from error
    return text
